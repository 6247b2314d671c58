SELECT application_name AS standby, state, sync_state,
       pg_wal_lsn_diff(here.lsn, sent_lsn)::int8 AS sent_lag_bytes,
       pg_wal_lsn_diff(here.lsn, flush_lsn)::int8 AS flush_lag_bytes,
       pg_wal_lsn_diff(here.lsn, replay_lsn)::int8 AS replay_lag_bytes,
       extract(epoch FROM replay_lag)::float8 AS replay_lag_s
FROM pg_stat_replication
CROSS JOIN (
  SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END AS lsn
) AS here
