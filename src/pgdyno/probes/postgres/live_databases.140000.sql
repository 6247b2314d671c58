-- Transactions and I/O of all databases, and the time that sessions were at work: commits and planning are in it, too.
SELECT sum(xact_commit)::float8 AS commits, sum(xact_rollback)::float8 AS rollbacks, sum(active_time)::float8 AS active_ms,
  sum(temp_bytes)::float8 AS temp_bytes, sum(blks_read)::float8 AS blocks_read,
  pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), '0/0') ELSE pg_current_wal_lsn() END, '0/0'
  )::float8 AS wal_bytes
FROM pg_stat_database
