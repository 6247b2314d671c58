"""Who owns what, who may do what, and what will be granted by default."""

from __future__ import annotations

from pgdyno.migration.validation.aspects import OF_RELATION, RELATION, Aspect, of_users

_OBJECTS = f"""
  SELECT CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view ' WHEN 'm' THEN 'view ' ELSE 'table ' END
           || c.oid::regclass::text AS what, c.relacl AS acl, c.relowner AS owner,
         CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END AS kind
  FROM {RELATION} WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND {OF_RELATION}
  UNION ALL SELECT 'function ' || p.oid::regprocedure::text, p.proacl, p.proowner, 'f'
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE {of_users("n.nspname", "pg_proc", "p.oid")}
    AND NOT EXISTS (SELECT FROM pg_depend AS i WHERE i.classid = 'pg_proc'::regclass AND i.objid = p.oid
                    AND i.deptype = 'i')
  UNION ALL SELECT 'type ' || format_type(t.oid, NULL), t.typacl, t.typowner, 'T'
  FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
  WHERE (t.typtype IN ('e', 'd', 'r')
         OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
    AND {of_users("n.nspname", "pg_type", "t.oid")}
  UNION ALL SELECT 'schema ' || quote_ident(n.nspname), n.nspacl, n.nspowner, 'n'
  FROM pg_namespace AS n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  UNION ALL SELECT 'the database', d.datacl, d.datdba, 'd' FROM pg_database AS d WHERE d.datname = current_database()
  UNION ALL SELECT 'language ' || quote_ident(l.lanname), l.lanacl, l.lanowner, 'l'
  FROM pg_language AS l WHERE l.lanispl AND l.lanname <> 'plpgsql'
  UNION ALL SELECT 'foreign server ' || quote_ident(s.srvname), s.srvacl, s.srvowner, 'S' FROM pg_foreign_server AS s
  UNION ALL SELECT 'foreign data wrapper ' || quote_ident(w.fdwname), w.fdwacl, w.fdwowner, 'F'
  FROM pg_foreign_data_wrapper AS w
  UNION ALL SELECT 'large object ' || m.oid, m.lomacl, m.lomowner, 'L' FROM pg_largeobject_metadata AS m
"""
_GRANTEE = "CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END"
_GRANTED = """CASE WHEN bool_or(x.is_grantable) THEN 'granted with grant option' ELSE 'granted' END"""
_OWNERS = f"WITH held AS ({_OBJECTS}) SELECT what, quote_ident(pg_get_userbyid(owner)) FROM held"
_PRIVILEGES = f"""
WITH held AS ({_OBJECTS}
  UNION ALL SELECT 'column ' || c.oid::regclass::text || '.' || quote_ident(a.attname), a.attacl, c.relowner, 'c'
  FROM {RELATION} JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attacl IS NOT NULL AND NOT a.attisdropped
  WHERE {OF_RELATION}
)
SELECT x.privilege_type || ' on ' || h.what || ' to '
  || CASE x.grantee WHEN h.owner THEN 'its owner' ELSE {_GRANTEE} END,
  {_GRANTED}
FROM held AS h, aclexplode(coalesce(h.acl, acldefault(h.kind, h.owner))) AS x
WHERE NOT (x.privilege_type = 'MAINTAIN' AND x.grantee = h.owner)
GROUP BY h.what, h.owner, x.privilege_type, x.grantee
"""
"""MAINTAIN came with 17, for owners without being granted."""
_DEFAULTS = f"""
WITH held AS (
  SELECT d.oid, d.defaclobjtype AS kind, d.defaclrole AS owner, d.defaclnamespace AS schema, d.defaclacl AS acl,
    CASE d.defaclnamespace WHEN 0 THEN acldefault(CASE d.defaclobjtype WHEN 'S' THEN 's' ELSE d.defaclobjtype END,
                                                  d.defaclrole) ELSE '{{}}' END AS usual
  FROM pg_default_acl AS d
)
SELECT x.privilege_type || ' on new '
  || CASE h.kind WHEN 'r' THEN 'tables' WHEN 'S' THEN 'sequences' WHEN 'f' THEN 'functions' WHEN 'T' THEN 'types'
     WHEN 'n' THEN 'schemas' ELSE 'large objects' END
  || ' of ' || quote_ident(pg_get_userbyid(h.owner))
  || coalesce(' in ' || (SELECT quote_ident(n.nspname) FROM pg_namespace AS n WHERE n.oid = h.schema), '')
  || ' to ' || {_GRANTEE}, string_agg(x.what, ', ' ORDER BY x.what)
FROM held AS h, LATERAL (
  (SELECT grantee, privilege_type, CASE WHEN is_grantable THEN 'granted with grant option' ELSE 'granted' END AS what
   FROM aclexplode(h.acl)
   EXCEPT SELECT grantee, privilege_type, CASE WHEN is_grantable THEN 'granted with grant option' ELSE 'granted' END
   FROM aclexplode(h.usual))
  UNION ALL (SELECT grantee, privilege_type, 'taken away' FROM aclexplode(h.usual)
             EXCEPT SELECT grantee, privilege_type, 'taken away' FROM aclexplode(h.acl))
) AS x GROUP BY h.oid, h.kind, h.owner, h.schema, x.grantee, x.privilege_type
"""
"""What differs from what a role gives without them; those of a schema are given beside it."""

OWNERS = Aspect(topic="owner", query=_OWNERS)
PRIVILEGES = Aspect(topic="privilege", query=_PRIVILEGES)
RIGHTS = (OWNERS, PRIVILEGES, Aspect(topic="default privilege", query=_DEFAULTS))
