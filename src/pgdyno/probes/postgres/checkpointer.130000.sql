SELECT checkpoints_timed AS timed, checkpoints_req AS requested,
       checkpoint_write_time AS write_time_ms, checkpoint_sync_time AS sync_time_ms,
       buffers_checkpoint AS buffers_written,
       buffers_clean, maxwritten_clean, buffers_alloc, buffers_backend, buffers_backend_fsync
FROM pg_stat_bgwriter
