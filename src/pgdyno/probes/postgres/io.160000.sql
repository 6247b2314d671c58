SELECT backend_type, object, context,
       reads, reads * op_bytes AS read_bytes, read_time AS read_time_ms,
       writes, writes * op_bytes AS write_bytes, write_time AS write_time_ms,
       extends, extends * op_bytes AS extend_bytes,
       hits, evictions, reuses, fsyncs, fsync_time AS fsync_time_ms
FROM pg_stat_io
-- Most combinations never did anything: left out, a row counts from 0 when it first appears.
WHERE reads > 0 OR writes > 0 OR extends > 0 OR hits > 0 OR evictions > 0 OR reuses > 0 OR fsyncs > 0
