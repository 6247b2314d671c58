SELECT numbackends::int8 AS backends,
       xact_commit, xact_rollback, blks_read, blks_hit,
       tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted,
       conflicts, temp_files, temp_bytes, deadlocks,
       blk_read_time AS blk_read_time_ms, blk_write_time AS blk_write_time_ms,
       active_time AS active_time_ms,
       idle_in_transaction_time AS idle_in_transaction_time_ms,
       sessions_abandoned, sessions_fatal, sessions_killed
FROM pg_stat_database
WHERE datname = %(database)s
