-- As of 14, with the moment from which an entry counts.
SELECT ROW(dbid::int8, userid::int8, queryid, toplevel, calls::float8, total_exec_time, stddev_exec_time,
           plans::float8, total_plan_time, rows::float8, coalesce(extract(epoch FROM stats_since)::float8, 'NaN'),
           (shared_blks_hit + shared_blks_read)::float8)
FROM {schema}.pg_stat_statements(false)
WHERE queryid IS NOT NULL AND toplevel
