-- 18 tells the checkpoints that were done from those that were skipped because nothing had been written.
SELECT c.num_timed AS timed, c.num_requested AS requested, c.num_done AS done,
       c.write_time AS write_time_ms, c.sync_time AS sync_time_ms, c.buffers_written,
       b.buffers_clean, b.maxwritten_clean, b.buffers_alloc
FROM pg_stat_checkpointer AS c CROSS JOIN pg_stat_bgwriter AS b
