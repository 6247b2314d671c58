-- Sessions of others at one moment: how many, how many at work, how many processes compute (on a CPU, or waiting for
-- one: they wait for nothing else; parallel workers are processes, and no sessions), sessions from before a moment, the
-- oldest statement, sessions that wait for a lock in a statement of more than a second, and when statements began, of
-- those begun since a moment.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) FILTER (WHERE is_client) AS sessions,
       count(*) FILTER (WHERE is_client AND state = 'active') AS active,
       count(*) FILTER (WHERE state = 'active' AND wait_event IS NULL) AS computing,
       count(*) FILTER (WHERE is_client AND backend_start < to_timestamp(%(since)s)) AS old,
       coalesce(max(extract(epoch FROM clock_timestamp() - query_start)) FILTER (WHERE is_client AND state = 'active'), 0)::float8
         AS oldest_s,
       count(*) FILTER (WHERE is_client AND state = 'active' AND wait_event_type = 'Lock'
                          AND clock_timestamp() - query_start > interval '1 second') AS blocked,
       coalesce((array_agg(extract(epoch FROM query_start)::float8 ORDER BY query_start)
          FILTER (WHERE is_client AND state = 'active' AND query_start >= to_timestamp(%(begun)s)))[1:20], '{}') AS begun
FROM (SELECT *, backend_type = 'client backend' AS is_client FROM pg_stat_activity) AS activity
WHERE backend_type IN ('client backend', 'parallel worker') AND application_name NOT LIKE 'pgdyno%%'
