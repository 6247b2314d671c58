-- Sessions of others at one moment: how many, how many at work, those from before a moment, the oldest statement, those
-- that wait for a lock in a statement of more than a second, and when statements began, of those begun since a moment.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) AS sessions,
       count(*) FILTER (WHERE state = 'active') AS active,
       count(*) FILTER (WHERE backend_start < to_timestamp(%(since)s)) AS old,
       coalesce(max(extract(epoch FROM clock_timestamp() - query_start)) FILTER (WHERE state = 'active'), 0)::float8
         AS oldest_s,
       count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'Lock'
                          AND clock_timestamp() - query_start > interval '1 second') AS blocked,
       (array_agg(extract(epoch FROM query_start)::float8 ORDER BY query_start)
          FILTER (WHERE state = 'active' AND query_start >= to_timestamp(%(begun)s)))[1:20] AS begun
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'pgdyno%%'
