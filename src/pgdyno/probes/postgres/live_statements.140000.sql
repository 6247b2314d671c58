-- As of 13; a statement inside a function is counted in that function already, so that it is left out.
SELECT ROW(dbid::int8, userid::int8, queryid, toplevel, calls::float8, total_exec_time, stddev_exec_time,
           plans::float8, total_plan_time, rows::float8, 'NaN'::float8,
           (shared_blks_hit + shared_blks_read)::float8)
FROM {schema}.pg_stat_statements(false)
WHERE queryid IS NOT NULL AND toplevel
