-- From 17 the checkpointer has a view of its own, and what backends write is in pg_stat_io only.
SELECT c.num_timed AS timed, c.num_requested AS requested,
       c.write_time AS write_time_ms, c.sync_time AS sync_time_ms, c.buffers_written,
       b.buffers_clean, b.maxwritten_clean, b.buffers_alloc
FROM pg_stat_checkpointer AS c CROSS JOIN pg_stat_bgwriter AS b
