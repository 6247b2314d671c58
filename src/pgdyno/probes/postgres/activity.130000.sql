-- Table `sessions` and table `waits` are both made of this.
SELECT backend_type, state, wait_event_type, wait_event, count(*) AS sessions
FROM pg_stat_activity
WHERE pid <> pg_backend_pid()
  AND (backend_type = 'autovacuum worker'
       OR (backend_type = 'client backend' AND datname = %(database)s))
GROUP BY backend_type, state, wait_event_type, wait_event
