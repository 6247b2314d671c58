-- Counters of every statement without its text, twelve columns. Nested statements cannot be told before 14.
SELECT dbid::int8, userid::int8, queryid, true AS toplevel, calls::float8, total_exec_time, stddev_exec_time,
       plans::float8, total_plan_time, rows::float8, 'NaN'::float8 AS since,
       (shared_blks_hit + shared_blks_read)::float8 AS blocks
FROM {schema}.pg_stat_statements(false)
WHERE queryid IS NOT NULL
