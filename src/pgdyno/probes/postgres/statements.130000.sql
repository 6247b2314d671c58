-- One row for each statement of the load's database; users and nesting levels are added up. The schema is the extension's.
SELECT queryid::text AS queryid, left(min(query), 1000) AS query,
       sum(calls)::int8 AS calls, sum(total_exec_time) AS total_exec_time_ms, sum(rows)::int8 AS rows,
       sum(shared_blks_hit)::int8 AS shared_blks_hit, sum(shared_blks_read)::int8 AS shared_blks_read,
       sum(shared_blks_dirtied)::int8 AS shared_blks_dirtied,
       sum(shared_blks_written)::int8 AS shared_blks_written,
       sum(temp_blks_read)::int8 AS temp_blks_read, sum(temp_blks_written)::int8 AS temp_blks_written,
       sum(wal_records)::int8 AS wal_records, sum(wal_fpi)::int8 AS wal_fpi, sum(wal_bytes)::int8 AS wal_bytes
FROM {schema}.pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %(database)s)
  AND queryid IS NOT NULL
GROUP BY queryid
