-- When the server started and last read its configuration, in seconds since the epoch.
SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       extract(epoch FROM pg_conf_load_time())::float8 AS loaded_at
