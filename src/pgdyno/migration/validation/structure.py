"""Tables, their columns, indexes and constraints, and what sequences are: by definition."""

from __future__ import annotations

from pgdyno.migration.validation.aspects import OF_RELATION, RELATION, Aspect

_SCHEMAS = """
SELECT quote_ident(n.nspname), 'there' FROM pg_namespace AS n
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_namespace'::regclass AND e.objid = n.oid
                  AND e.deptype = 'e')
"""
_TABLES = f"""
SELECT c.oid::regclass::text,
  CASE c.relkind WHEN 'r' THEN 'a table' WHEN 'p' THEN 'partitioned' ELSE 'foreign' END
    || CASE c.relpersistence WHEN 'u' THEN ', unlogged' ELSE '' END,
  concat_ws(' ', coalesce(pg_get_partkeydef(c.oid), ''), coalesce(pg_get_expr(c.relpartbound, c.oid), '')),
  (SELECT coalesce(string_agg(i.inhparent::regclass::text, ', ' ORDER BY i.inhseqno), '')
   FROM pg_inherits AS i WHERE i.inhrelid = c.oid),
  (SELECT coalesce(string_agg(o, ', ' ORDER BY o), '') FROM unnest(c.reloptions) AS o),
  CASE WHEN c.relforcerowsecurity THEN 'forced' WHEN c.relrowsecurity THEN 'on' ELSE 'off' END,
  CASE c.relreplident WHEN 'd' THEN 'default' WHEN 'f' THEN 'full' WHEN 'n' THEN 'nothing'
    ELSE 'index ' || coalesce((SELECT i.indexrelid::regclass::text FROM pg_index AS i
                               WHERE i.indrelid = c.oid AND i.indisreplident), 'unknown') END,
  coalesce((SELECT s.spcname::text FROM pg_tablespace AS s WHERE s.oid = c.reltablespace), 'default'),
  coalesce((SELECT a.amname::text FROM pg_am AS a WHERE a.oid = c.relam AND c.relkind = 'r'), '')
FROM {RELATION} WHERE c.relkind IN ('r', 'p', 'f') AND {OF_RELATION}
"""
_COLUMNS = f"""
SELECT c.oid::regclass::text || '.' || quote_ident(a.attname),
  'number ' || row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum),
  format_type(a.atttypid, a.atttypmod),
  CASE WHEN a.attnotnull THEN 'not null' ELSE 'null allowed' END,
  coalesce(pg_get_expr(d.adbin, d.adrelid), 'none'),
  CASE a.attidentity WHEN 'a' THEN 'identity always' WHEN 'd' THEN 'identity by default' ELSE '' END
    || CASE a.attgenerated WHEN 's' THEN 'generated, stored' WHEN 'v' THEN 'generated, virtual' ELSE '' END,
  coalesce((SELECT o.collname::text FROM pg_collation AS o WHERE o.oid = a.attcollation), 'none')
FROM {RELATION}
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p', 'f') AND {OF_RELATION}
"""
_INDEXES = f"""
SELECT c.oid::regclass::text, pg_get_indexdef(c.oid),
  CASE WHEN i.indisvalid AND i.indisready AND i.indislive THEN 'valid' ELSE 'invalid' END,
  coalesce((SELECT s.spcname::text FROM pg_tablespace AS s WHERE s.oid = c.reltablespace), 'default'),
  CASE WHEN i.indisclustered THEN 'yes' ELSE 'no' END
FROM {RELATION} JOIN pg_index AS i ON i.indexrelid = c.oid WHERE {OF_RELATION}
"""
_CONSTRAINTS = """
SELECT quote_ident(k.conname) || ' on ' || CASE k.conrelid WHEN 0 THEN format_type(k.contypid, NULL)
                                           ELSE k.conrelid::regclass::text END,
  regexp_replace(pg_get_constraintdef(k.oid), ' NOT VALID$', ''),
  CASE WHEN k.convalidated THEN 'validated' ELSE 'not validated' END
FROM pg_constraint AS k JOIN pg_namespace AS n ON n.oid = k.connamespace
WHERE k.contype NOT IN ('n', 't') AND k.conparentid = 0
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.deptype = 'e'
                  AND (e.classid = 'pg_class'::regclass AND e.objid = k.conrelid
                       OR e.classid = 'pg_type'::regclass AND e.objid = k.contypid))
"""
"""Those of partitions follow from their parents' and have other names in other versions; not null is a column's."""
_SEQUENCES = f"""
SELECT c.oid::regclass::text,
  format('%s from %s by %s, %s to %s, cache %s%s', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement,
         s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN ', cycles' ELSE '' END),
  coalesce((SELECT d.refobjid::regclass::text || '.' || quote_ident(a.attname) FROM pg_depend AS d
            JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
              AND d.refclassid = 'pg_class'::regclass LIMIT 1), 'no column')
FROM {RELATION} JOIN pg_sequence AS s ON s.seqrelid = c.oid WHERE {OF_RELATION}
"""
_STATISTICS = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(s.stxname), pg_get_statisticsobjdef(s.oid)
FROM pg_statistic_ext AS s JOIN pg_namespace AS n ON n.oid = s.stxnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
"""

STRUCTURE = (
    Aspect(topic="schema", query=_SCHEMAS),
    Aspect(
        topic="table",
        values=(
            "", "partition", "inherits", "options", "row security", "replica identity", "tablespace", "access method",
        ),
        query=_TABLES,
    ),
    Aspect(topic="column", values=("", "type", "", "default", "", "collation"), query=_COLUMNS),
    Aspect(topic="index", values=("", "", "tablespace", "clustered"), query=_INDEXES),
    Aspect(topic="constraint", values=("", ""), query=_CONSTRAINTS),
    Aspect(topic="sequence", values=("", "owned by"), query=_SEQUENCES),
    Aspect(topic="statistics", query=_STATISTICS),
)  # fmt: skip
