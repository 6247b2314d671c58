"""What a database computes with: views, functions, triggers, rules, policies and types, by definition."""

from __future__ import annotations

from pgdyno.migration.validation.aspects import OF_RELATION, RELATION, Aspect, of_users

_VIEWS = f"""
SELECT c.oid::regclass::text, CASE c.relkind WHEN 'm' THEN 'materialized' ELSE 'a view' END,
  pg_get_viewdef(c.oid),
  (SELECT coalesce(string_agg(DISTINCT d.refobjid::regclass::text || '.' || a.attname, ', '), '')
   FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
   JOIN pg_attribute AS a ON d.refclassid = 'pg_class'::regclass AND a.attrelid = d.refobjid
                         AND a.attnum = d.refobjsubid AND a.attnum > 0
   WHERE r.ev_class = c.oid AND d.refobjid <> c.oid),
  (SELECT coalesce(string_agg(o, ', ' ORDER BY o), '') FROM unnest(c.reloptions) AS o),
  CASE WHEN c.relispopulated THEN 'populated' ELSE 'not populated' END
FROM {RELATION} WHERE c.relkind IN ('v', 'm') AND {OF_RELATION}
"""
_FUNCTIONS = rf"""
SELECT p.oid::regprocedure::text,
  CASE p.prokind WHEN 'a' THEN 'aggregate'
    WHEN 'p' THEN regexp_replace(pg_get_functiondef(p.oid), '([(,] ?)IN ', '\1', 'g')
    ELSE pg_get_functiondef(p.oid) END,
  coalesce((SELECT concat_ws(', ', a.aggtransfn::regprocedure, format_type(a.aggtranstype, NULL),
                             nullif(a.aggfinalfn::oid, 0)::regprocedure, a.agginitval)
            FROM pg_aggregate AS a WHERE a.aggfnoid = p.oid), '')
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE {of_users("n.nspname", "pg_proc", "p.oid")}
  AND NOT EXISTS (SELECT FROM pg_depend AS i WHERE i.classid = 'pg_proc'::regclass AND i.objid = p.oid
                  AND i.deptype = 'i')
"""
"""Those of a range type belong to it, and are other ones in other versions; 13 does not write IN before arguments."""
_TRIGGERS = f"""
SELECT quote_ident(t.tgname) || ' on ' || c.oid::regclass::text, pg_get_triggerdef(t.oid),
  CASE t.tgenabled WHEN 'O' THEN 'enabled' WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'enabled on replicas'
    ELSE 'enabled always' END
FROM pg_trigger AS t JOIN {RELATION} ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND {OF_RELATION}
"""
_EVENT_TRIGGERS = """
SELECT quote_ident(t.evtname), t.evtevent || ' executes ' || t.evtfoid::regprocedure::text,
  CASE t.evtenabled WHEN 'O' THEN 'enabled' WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'enabled on replicas'
    ELSE 'enabled always' END,
  array_to_string(t.evttags, ', ')
FROM pg_event_trigger AS t
WHERE NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = 'pg_event_trigger'::regclass AND e.objid = t.oid
                  AND e.deptype = 'e')
"""
_RULES = f"""
SELECT quote_ident(r.rulename) || ' on ' || c.oid::regclass::text, pg_get_ruledef(r.oid)
FROM pg_rewrite AS r JOIN {RELATION} ON c.oid = r.ev_class WHERE r.rulename <> '_RETURN' AND {OF_RELATION}
"""
_POLICIES = f"""
SELECT quote_ident(p.polname) || ' on ' || c.oid::regclass::text,
  CASE WHEN p.polpermissive THEN 'permissive' ELSE 'restrictive' END || ' for '
    || CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
       ELSE 'ALL' END || ' to '
    || (SELECT string_agg(CASE r.id WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r.id)) END, ', '
                          ORDER BY pg_get_userbyid(r.id)) FROM unnest(p.polroles) AS r (id)),
  coalesce(pg_get_expr(p.polqual, p.polrelid), 'none'), coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'none')
FROM pg_policy AS p JOIN {RELATION} ON c.oid = p.polrelid WHERE {OF_RELATION}
"""
_TYPES = f"""
SELECT format_type(t.oid, NULL),
  CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN 'domain' WHEN 'r' THEN 'range' ELSE 'composite' END || ' '
    || CASE t.typtype
       WHEN 'e' THEN (SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder)
                      FROM pg_enum AS l WHERE l.enumtypid = t.oid)
       WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) || CASE WHEN t.typnotnull THEN ' not null' ELSE '' END
                     || coalesce(' default ' || t.typdefault, '')
       WHEN 'r' THEN (SELECT format_type(r.rngsubtype, NULL) FROM pg_range AS r WHERE r.rngtypid = t.oid)
       ELSE (SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                               ORDER BY a.attnum)
             FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END
FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE (t.typtype IN ('e', 'd', 'r')
       OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
  AND {of_users("n.nspname", "pg_type", "t.oid")}
"""

VIEWS = Aspect(topic="view", values=("", "text", "columns read", "options", ""), query=_VIEWS)
PROGRAMS = (
    VIEWS,
    Aspect(topic="function", values=("", ""), query=_FUNCTIONS),
    Aspect(topic="trigger", values=("", ""), query=_TRIGGERS),
    Aspect(topic="event trigger", values=("", "", "tags"), query=_EVENT_TRIGGERS),
    Aspect(topic="rule", query=_RULES),
    Aspect(topic="policy", values=("", "using", "with check"), query=_POLICIES),
    Aspect(topic="type", query=_TYPES),
)
