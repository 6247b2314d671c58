-- Sessions of others at one moment: how many, how many at work, those from before a moment, and the oldest statement.
SELECT count(*) AS sessions,
       count(*) FILTER (WHERE state = 'active') AS active,
       count(*) FILTER (WHERE backend_start < to_timestamp(%(since)s)) AS old,
       coalesce(max(extract(epoch FROM clock_timestamp() - query_start)) FILTER (WHERE state = 'active'), 0)::float8
         AS oldest_s
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'pgdyno%%'
