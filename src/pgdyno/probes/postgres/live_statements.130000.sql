-- Counters of every statement without its text, twelve columns as one record, which costs the reader less. Nested statements cannot be told before 14.
SELECT ROW(dbid::int8, userid::int8, queryid, true, calls::float8, total_exec_time, stddev_exec_time,
           plans::float8, total_plan_time, rows::float8, 'NaN'::float8,
           (shared_blks_hit + shared_blks_read)::float8)
FROM {schema}.pg_stat_statements(false)
WHERE queryid IS NOT NULL
