-- The server's clock and what would void a period; the whole of pg_stat_statements, before 14, tells no more.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       extract(epoch FROM pg_conf_load_time())::float8 AS loaded_at,
       NULL::int8 AS dealloc, NULL::float8 AS reset_at
