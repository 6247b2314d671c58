-- 18 moved the operations on WAL files into pg_stat_io.
SELECT w.wal_records AS records, w.wal_fpi AS full_page_images, w.wal_bytes::int8 AS bytes,
       w.wal_buffers_full AS buffers_full,
       io.writes, io.syncs, io.write_time_ms, io.sync_time_ms
FROM pg_stat_wal AS w
CROSS JOIN (
  SELECT sum(writes)::int8 AS writes, sum(fsyncs)::int8 AS syncs,
         sum(write_time) AS write_time_ms, sum(fsync_time) AS sync_time_ms
  FROM pg_stat_io
  WHERE object = 'wal'
) AS io
