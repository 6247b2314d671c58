-- The tables of this database with most I/O, and the largest; sums over all of them for the shares. Sizes are asked
-- of the file system only for the first of them (they lock the table against ALTER TABLE for a moment), else estimated.
WITH relation AS MATERIALIZED (
  SELECT oid, relkind, relname, relnamespace, reltablespace, relpages::int8 AS pages, reltoastrelid, reloptions,
         pg_stat_get_blocks_fetched(oid) AS fetched, pg_stat_get_blocks_hit(oid) AS hit
  FROM pg_class
  WHERE relkind IN ('r', 'm', 't', 'i')
), indexed AS (
  SELECT i.indrelid AS oid, sum(r.fetched) AS fetched, sum(r.hit) AS hit, sum(r.pages) AS pages
  FROM pg_index AS i JOIN relation AS r ON r.oid = i.indexrelid
  GROUP BY i.indrelid
), added AS (
  SELECT t.oid, n.nspname, t.relname, t.reltablespace, t.reloptions, t.pages + coalesce(toast.pages, 0) AS pages,
         coalesce(own.pages, 0) AS index_pages,
         t.fetched + coalesce(own.fetched, 0) + coalesce(toast.fetched, 0) + coalesce(its.fetched, 0) AS fetched,
         t.hit + coalesce(own.hit, 0) + coalesce(toast.hit, 0) + coalesce(its.hit, 0) AS hit
  FROM relation AS t
  JOIN pg_namespace AS n ON n.oid = t.relnamespace
  LEFT JOIN indexed AS own ON own.oid = t.oid
  LEFT JOIN relation AS toast ON toast.oid = t.reltoastrelid
  LEFT JOIN indexed AS its ON its.oid = t.reltoastrelid
  WHERE t.relkind IN ('r', 'm') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
), ranked AS (
  SELECT *, row_number() OVER (ORDER BY fetched DESC, oid) AS by_io,
         row_number() OVER (ORDER BY pages + index_pages DESC, oid) AS by_size,
         count(*) OVER () AS tables, sum(fetched) OVER () AS all_fetched, sum(hit) OVER () AS all_hit
  FROM added
), chosen AS (
  SELECT *, %(sizes)s AND (by_io <= 100 OR by_size <= 100) AS is_measured
  FROM ranked
  WHERE by_io <= %(limit)s OR by_size <= 100
)
SELECT c.nspname::text AS schema, c.relname::text AS name, coalesce(ts.spcname, '')::text AS tablespace,
       c.fetched::int8 AS fetched, c.hit::int8 AS hit,
       c.tables, c.all_fetched::int8 AS all_fetched, c.all_hit::int8 AS all_hit,
       CASE WHEN c.is_measured THEN pg_table_size(c.oid)
            ELSE c.pages * current_setting('block_size')::int8 END AS bytes,
       CASE WHEN c.is_measured THEN pg_indexes_size(c.oid)
            ELSE (c.index_pages * current_setting('block_size')::int8)::int8 END AS index_bytes,
       c.is_measured,
       pg_stat_get_numscans(c.oid) AS seq_scans,
       pg_stat_get_tuples_returned(c.oid) AS seq_rows,
       pg_stat_get_tuples_fetched(c.oid) AS bitmap_rows,
       pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid)
         AS writes,
       extract(epoch FROM pg_stat_get_last_autovacuum_time(c.oid))::float8 AS autovacuumed_at,
       coalesce((SELECT NOT o.option_value::bool FROM pg_options_to_table(c.reloptions) AS o
                 WHERE o.option_name = 'autovacuum_enabled'), false) AS autovacuum_off,
       pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
       (SELECT coalesce(json_object_agg(r.relname, json_build_array(
                 pg_stat_get_blocks_fetched(r.oid), pg_stat_get_blocks_hit(r.oid))), '{}')::text
        FROM pg_index AS i JOIN pg_class AS r ON r.oid = i.indexrelid
        WHERE i.indrelid = c.oid AND c.by_io <= 100) AS indexes,
       (SELECT coalesce(sum(pg_stat_get_tuples_fetched(i.indexrelid)), 0)::int8
        FROM pg_index AS i WHERE i.indrelid = c.oid) AS index_rows
FROM chosen AS c LEFT JOIN pg_tablespace AS ts ON ts.oid = c.reltablespace
ORDER BY c.by_io
