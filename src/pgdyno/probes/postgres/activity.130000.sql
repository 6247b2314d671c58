-- Table `sessions` and table `waits` are both made of this.
SELECT CASE WHEN backend_type = 'client backend' AND datname IS DISTINCT FROM %(database)s THEN 'other client'
            ELSE backend_type END AS backend_type,
       state, wait_event_type, wait_event, count(*) AS sessions
FROM pg_stat_activity
WHERE pid <> pg_backend_pid()
  AND (backend_type = 'autovacuum worker'
       OR (backend_type = 'client backend'
           AND (datname = %(database)s OR (state <> 'idle' AND application_name NOT LIKE 'pgdyno%%'))))
GROUP BY 1, 2, 3, 4
