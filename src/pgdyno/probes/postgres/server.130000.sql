-- When the server started and last read its configuration, in seconds since the epoch. A server that recovers from the
-- crash of one of its processes keeps its start time, but starts its checkpointer anew.
SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       extract(epoch FROM pg_conf_load_time())::float8 AS loaded_at,
       (SELECT extract(epoch FROM max(backend_start))::float8 FROM pg_stat_activity
        WHERE backend_type = 'checkpointer') AS checkpointer_at
