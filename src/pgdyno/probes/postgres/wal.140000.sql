SELECT wal_records AS records, wal_fpi AS full_page_images, wal_bytes::int8 AS bytes,
       wal_buffers_full AS buffers_full,
       wal_write AS writes, wal_sync AS syncs, wal_write_time AS write_time_ms, wal_sync_time AS sync_time_ms
FROM pg_stat_wal
