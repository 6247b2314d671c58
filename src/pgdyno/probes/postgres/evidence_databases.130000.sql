-- Counters of every database; the one without a name holds the shared catalogues.
SELECT coalesce(datname, '') AS database,
       xact_commit, xact_rollback, blks_read, blks_hit,
       tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted,
       temp_files, temp_bytes, deadlocks,
       extract(epoch FROM stats_reset)::float8 AS reset_at
FROM pg_stat_database
