-- Statements of others at work that began between two moments, both by the server's clock.
SELECT count(*) AS crossing
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'pgdyno%%' AND state = 'active'
  AND query_start >= to_timestamp(%(after)s) AND query_start < to_timestamp(%(before)s)
