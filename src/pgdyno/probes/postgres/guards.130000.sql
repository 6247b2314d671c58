-- One row for the guards, twice a second. A role that may not see sessions still sees that they are there (datid).
-- Lists are JSON text. Physical standbys only: a logical one is a slot, and a base backup is not behind.
WITH here AS (
  SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), '0/0') ELSE pg_current_wal_lsn() END AS lsn
)
SELECT
  (here.lsn - '0/0')::int8 AS lsn,
  (SELECT count(*) FROM pg_stat_activity
   WHERE backend_type = 'client backend' OR (backend_type IS NULL AND datid IS NOT NULL)) AS sessions,
  current_setting('max_connections')::int8
    - current_setting('superuser_reserved_connections')::int8
    - coalesce(current_setting('reserved_connections', true)::int8, 0) AS room,
  (SELECT max(greatest(age(datfrozenxid), mxid_age(datminmxid))) FROM pg_database)::int8 AS xid_age,
  current_setting('autovacuum_freeze_max_age')::int8 AS freeze_max_age,
  d.xact_commit, d.xact_rollback, d.deadlocks, d.temp_bytes,
  (SELECT coalesce(json_agg(json_build_object(
      'name', r.application_name || ' ' || coalesce(host(r.client_addr), 'local'),
      'lsn', (coalesce(r.replay_lsn, r.flush_lsn, r.write_lsn, r.sent_lsn) - '0/0')::int8)), '[]')
   FROM pg_stat_replication AS r LEFT JOIN pg_replication_slots AS s ON s.active_pid = r.pid
   WHERE s.slot_type IS DISTINCT FROM 'logical' AND r.state IS DISTINCT FROM 'backup')::text AS standbys,
  (SELECT coalesce(json_agg(json_build_object(
      'name', slot_name, 'lost', coalesce(wal_status = 'lost', false),
      'lsn', (restart_lsn - '0/0')::int8)), '[]')
   FROM pg_replication_slots)::text AS slots
FROM here LEFT JOIN pg_stat_database AS d ON d.datname = %(database)s
