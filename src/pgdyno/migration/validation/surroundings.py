"""What a database stands on: its locale and extensions, and of the server its roles, tablespaces and settings."""

from __future__ import annotations

from pgdyno.migration.validation.aspects import Aspect

_DATABASE = """
SELECT 'itself', pg_encoding_to_char(d.encoding), d.datcollate::text, d.datctype::text,
  CASE to_jsonb(d) ->> 'datlocprovider' WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' END,
  coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale',
           CASE WHEN to_jsonb(d) ? 'datlocprovider' THEN 'none' END),
  (SELECT s.spcname::text FROM pg_tablespace AS s WHERE s.oid = d.dattablespace),
  CASE d.datconnlimit WHEN -1 THEN 'none' ELSE d.datconnlimit::text END
FROM pg_database AS d WHERE d.datname = current_database()
"""
_EXTENSIONS = """
SELECT quote_ident(e.extname), quote_ident(n.nspname) FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
"""
_VERSIONS = "SELECT quote_ident(e.extname), e.extversion FROM pg_extension AS e"
_USED = """
  (o.collnamespace <> 'pg_catalog'::regnamespace OR o.oid IN (SELECT a.attcollation FROM pg_attribute AS a
   JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.oid >= 16384))
"""
_COLLATIONS = f"""
SELECT o.oid::regcollation::text,
  CASE o.collprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'of the database' END,
  concat_ws(', ', nullif(o.collcollate::text, ''), nullif(o.collctype::text, ''),
            coalesce(to_jsonb(o) ->> 'colllocale', to_jsonb(o) ->> 'colliculocale')),
  CASE WHEN o.collisdeterministic THEN 'deterministic' ELSE 'not deterministic' END,
  CASE WHEN o.collversion <> pg_collation_actual_version(o.oid)
    THEN 'objects were made with version ' || o.collversion || ', which is no longer there' ELSE 'up to date' END
FROM pg_collation AS o WHERE o.oid <> 100 AND {_USED}
"""
_COLLATION_VERSIONS = f"""
SELECT o.oid::regcollation::text, pg_collation_actual_version(o.oid)
FROM pg_collation AS o WHERE o.oid <> 100 AND {_USED}
"""
_DATABASE_COLLATION = """
SELECT 'of the database', pg_database_collation_actual_version(d.oid)
FROM pg_database AS d WHERE d.datname = current_database()
"""
_DATABASE_MADE_WITH = """
SELECT 'of the database', CASE WHEN d.datcollversion <> pg_database_collation_actual_version(d.oid)
  THEN 'objects were made with version ' || d.datcollversion || ', which is no longer there' ELSE 'up to date' END
FROM pg_database AS d WHERE d.datname = current_database()
"""
_ROLES = """
SELECT quote_ident(r.rolname),
  concat_ws(', ', CASE WHEN r.rolcanlogin THEN 'login' ELSE 'no login' END, CASE WHEN r.rolsuper THEN 'superuser' END,
            CASE WHEN NOT r.rolinherit THEN 'no inherit' END, CASE WHEN r.rolcreaterole THEN 'create role' END,
            CASE WHEN r.rolcreatedb THEN 'create database' END, CASE WHEN r.rolreplication THEN 'replication' END,
            CASE WHEN r.rolbypassrls THEN 'bypass row security' END),
  CASE r.rolconnlimit WHEN -1 THEN 'none' ELSE r.rolconnlimit::text END,
  coalesce(r.rolvaliduntil::text, 'ever')
FROM pg_roles AS r WHERE r.rolname !~ '^pg_'
"""
_PASSWORDS = """
SELECT quote_ident(a.rolname), CASE WHEN a.rolpassword IS NULL THEN 'none'
  ELSE 'one known as ' || left(encode(sha256(convert_to(a.rolpassword, 'UTF8')), 'hex'), 8) END
FROM pg_authid AS a WHERE a.rolname !~ '^pg_'
"""
"""Whether it is the same is told by a hash of the hash: eight digits, of which nobody makes a password."""
_MEMBERSHIPS = """
SELECT quote_ident(pg_get_userbyid(m.member)) || ' in ' || quote_ident(pg_get_userbyid(m.roleid)),
  CASE WHEN bool_or(m.admin_option) THEN 'with admin option' ELSE 'member' END,
  CASE bool_or((to_jsonb(m) ->> 'inherit_option')::boolean) WHEN true THEN 'yes' WHEN false THEN 'no' END,
  CASE bool_or((to_jsonb(m) ->> 'set_option')::boolean) WHEN true THEN 'yes' WHEN false THEN 'no' END
FROM pg_auth_members AS m WHERE pg_get_userbyid(m.member) !~ '^pg_' GROUP BY m.member, m.roleid
"""
_TABLESPACES = """
SELECT quote_ident(s.spcname), quote_ident(pg_get_userbyid(s.spcowner)),
  coalesce(array_to_string(s.spcoptions, ', '), '')
FROM pg_tablespace AS s WHERE s.spcname !~ '^pg_'
"""
_SETTING = """
SELECT split_part(c, '=', 1) || ' of ' || CASE s.setrole WHEN 0 THEN 'all roles'
         ELSE 'role ' || quote_ident(pg_get_userbyid(s.setrole)) END, substr(c, strpos(c, '=') + 1)
FROM pg_db_role_setting AS s, unnest(s.setconfig) AS c
"""
_DATABASE_SETTINGS = (
    f"{_SETTING} WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_ROLE_SETTINGS = f"{_SETTING} WHERE s.setdatabase = 0"

EXTENSION_VERSIONS = Aspect(topic="extension", values=("version",), query=_VERSIONS)
COLLATION_VERSIONS = (
    Aspect(topic="collation", values=("sorts by version",), query=_COLLATION_VERSIONS),
    Aspect(topic="collation", values=("sorts by version",), query=_DATABASE_COLLATION, since=150_000),
)
SURROUNDINGS = (
    Aspect(
        topic="database",
        values=("encoding", "collate", "ctype", "locale provider", "locale", "tablespace", "connection limit"),
        query=_DATABASE,
    ),
    Aspect(topic="extension", values=("schema",), query=_EXTENSIONS),
    EXTENSION_VERSIONS,
    Aspect(topic="collation", values=("", "", "", ""), query=_COLLATIONS),
    Aspect(topic="collation", query=_DATABASE_MADE_WITH, since=150_000),
    *COLLATION_VERSIONS,
    Aspect(topic="setting of the database", query=_DATABASE_SETTINGS),
)
SHARED = (
    Aspect(topic="role", values=("", "connection limit", "valid until"), query=_ROLES, is_shared=True),
    Aspect(topic="password of role", query=_PASSWORDS, is_shared=True, needs="pg_authid"),
    Aspect(topic="membership", values=("", "inherits", "may set role"), query=_MEMBERSHIPS, is_shared=True),
    Aspect(topic="tablespace", values=("owner", "options"), query=_TABLESPACES, is_shared=True),
    Aspect(topic="setting", query=_ROLE_SETTINGS, is_shared=True),
)
