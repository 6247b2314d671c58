-- The server's clock and what would void a period.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       extract(epoch FROM pg_conf_load_time())::float8 AS loaded_at,
       dealloc, extract(epoch FROM stats_reset)::float8 AS reset_at
FROM {schema}.pg_stat_statements_info
