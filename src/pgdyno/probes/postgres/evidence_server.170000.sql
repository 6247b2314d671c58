-- The moment, the start, the last reading of the configuration, the position in the WAL and when the shared statistics were last reset: seconds since the epoch.
SELECT extract(epoch FROM clock_timestamp())::float8 AS t,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       extract(epoch FROM pg_conf_load_time())::float8 AS loaded_at,
       pg_is_in_recovery() AS in_recovery,
       pg_wal_lsn_diff(
         CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END,
         '0/0'
       )::int8 AS lsn,
       current_setting('block_size')::int8 AS block_size,
       (SELECT extract(epoch FROM stats_reset)::float8 FROM pg_stat_checkpointer) AS checkpointer_reset,
       (SELECT extract(epoch FROM stats_reset)::float8 FROM pg_stat_wal) AS wal_reset,
       (SELECT extract(epoch FROM min(stats_reset))::float8 FROM pg_stat_io) AS io_reset
