"""SQL that makes rows of a trace of paired lines: names, parameters, refusals, and their final order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.outside.quoting import literal
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import TRACE

_PLAIN = ", ".join(f"${number} = ''" for number in range(1, 10))
"""What stands around nine values, one quote of each two; doubled as in a literal."""

SETUP = (
    "CREATE TEMP TABLE names (sid BIGINT, label VARCHAR, h UBIGINT)",
    "CREATE TEMP TABLE known (key VARCHAR, fingerprint VARCHAR, reason VARCHAR, shown VARCHAR)",
    "CREATE TEMP TABLE commits (xid BIGINT, place BIGINT, moment BIGINT, keys VARCHAR)",
    "CREATE TEMP TABLE keyed_rows (sid BIGINT, seq BIGINT, keys VARCHAR, xid BIGINT)",
    "CREATE TEMP TABLE late (sid BIGINT, seq BIGINT, state VARCHAR)",
    """CREATE TEMP TABLE sessions (sid BIGINT, start_us BIGINT, first_t BIGINT, first_due BIGINT, seqs BIGINT,
      last_tx BIGINT, last_end BIGINT, connected BOOLEAN, ended BOOLEAN, begins_within_tx BOOLEAN)""",
    # one element: its number, NULL, or a text in which quotes are doubled
    r"""CREATE TEMP MACRO elements(told) AS
      regexp_extract_all(told, '\$[0-9]+ = (?:NULL|''(?:[^'']|'''')*'')')""",
    """CREATE TEMP MACRO bound(found) AS list_transform(found, lambda one: CASE WHEN suffix(one, '''') THEN
      replace(substr(one, instr(one, '''') + 1, length(one) - instr(one, '''') - 1), '''''', '''') END)""",
    # most values are texts without quotes: then each second piece between quotes is one, and the others are known
    f"""CREATE TEMP MACRO is_plain(pieces) AS
      len(pieces) % 2 = 1 AND len(pieces) < 20
      AND array_to_string(pieces[1:-:2], '''') = left('{_PLAIN}', 4 * len(pieces) - 6)""",
    # constants do not matter to a fingerprint, and few texts are left without them; letters are sought before patterns
    r"""CREATE TEMP MACRO without_constants(sql) AS CASE
      WHEN regexp_matches(sql, '(?i)^\s*(?:select|insert|update|delete|with|values)\b')
        AND NOT (contains(sql, '"') OR contains(sql, '\') OR contains(sql, '--') OR contains(sql, '/*')
          OR (contains(sql, '$') AND regexp_matches(sql, '\$[A-Za-z_]*\$')))
      THEN regexp_replace(CASE WHEN contains(sql, '''') THEN regexp_replace(sql, '''(?:[^'']|'''')*''', '''''', 'g')
          ELSE sql END, '([ =(,+*/<>-])[0-9]+(?:\.[0-9]+)?\b', '\10', 'g')
      ELSE sql END""",
)
"""After the first table `events` is there."""

KEYED = """
CREATE OR REPLACE TEMP TABLE keyed AS
SELECT CASE WHEN seq >= 0 THEN without_constants(sql) END AS key FROM events POSITIONAL JOIN paired
"""
"""A row for each line of `events`, as in `paired`, where seq is -1 for a line that is no row of the trace."""

PART = rf"""
WITH errors AS (
  SELECT rowid AS rid, state, tag, detail AS context FROM events WHERE kind = 'E'
), chosen AS (
  SELECT o.*, keyed.key, e.sid, e.kind AS source, e.usr, e.db, e.app, e.sql, e.label, e.is_walsender,
    CASE WHEN contains(e.label, '/') THEN e.label END AS slash, starts_with(e.label, 'fetch from ') AS is_fetch,
    CASE WHEN e.kind <> 'E' THEN substr(e.detail, 13) END AS given
  FROM events AS e POSITIONAL JOIN paired AS o POSITIONAL JOIN keyed WHERE o.seq >= 0
), told AS (
  SELECT chosen.* EXCLUDE (label, slash), x.state, x.tag, x.context, chr(code::INTEGER) AS letter,
    CASE WHEN slash IS NOT NULL AND slashed.label IS NULL THEN regexp_replace(slash, '/[^/]*$', '')
      ELSE chosen.label END AS label
  FROM chosen LEFT JOIN errors AS x ON x.rid = chosen.error
    LEFT JOIN (SELECT DISTINCT sid, label FROM names WHERE contains(label, '/')) AS slashed
      ON slashed.label = chosen.slash AND slashed.sid = chosen.sid
), kinds AS (
  SELECT *, CASE letter WHEN 'C' THEN 'connect' WHEN 'Q' THEN 'disconnect' WHEN 'N' THEN 'parse'
      WHEN 'X' THEN 'extended' WHEN 'E' THEN CASE
        WHEN regexp_matches(tag, '^(?:PARSE|BIND)\b') OR (coalesce(tag, '') = '' AND regexp_matches(key, '\$[0-9]'))
        THEN 'extended' ELSE 'simple' END
      ELSE 'simple' END AS kind,
    coalesce(given, CASE WHEN context IS NOT NULL THEN coalesce(
      nullif(regexp_extract(context, '(?s)(?:^|\n)[^\n]*? with parameters: (\$1 = .*)$', 1), ''),
      -- a value that could not be read when it was bound; others of its statement are in no log
      CASE WHEN contains(key, '$1') AND NOT regexp_matches(key, '\$(?:[02-9]|1[0-9])') THEN
        regexp_extract(context, '(?s) parameter (\$1 = ''(?:[^'']|'''')*'')$', 1) ELSE '' END) END) AS values_,
    -- stderr without %i has no tag: what has parameters was bound, unless its text is wrong (class 42)
    CASE WHEN letter = 'E' AND (starts_with(tag, 'BIND') OR (coalesce(tag, '') = '' AND NOT starts_with(state, '42')))
      THEN hash(sql) END AS sought
  FROM told
), named AS (
  SELECT kinds.*, named.label AS name_by_text FROM kinds LEFT JOIN (
    SELECT sid, h, min(label) AS label FROM names GROUP BY sid, h
  ) AS named ON named.h = kinds.sought AND named.sid = kinds.sid
), split AS (
  SELECT *, CASE WHEN values_ <> '' THEN string_split(values_, '''') END AS pieces FROM named
), parsed AS (
  SELECT *, CASE WHEN NOT is_plain THEN elements(values_) END AS found
  FROM (SELECT *, is_plain(pieces) AS is_plain FROM split)
)
SELECT sid, seq, kind, due, "end", parse, bind, execute, place,
  CASE WHEN kind NOT IN ('parse', 'extended') THEN NULL WHEN letter = 'E' THEN coalesce(name_by_text, '')
    WHEN label = '<unnamed>' THEN '' ELSE replace(label, 'fetch from ', '') END AS statement,
  tx, xid, state, usr, db, app,
  coalesce(shown, sql) AS sql, fingerprint,
  CASE WHEN shown IS NOT NULL THEN NULL WHEN is_plain THEN pieces[2:-:2] ELSE bound(found) END AS params,
  coalesce(found IS NOT NULL AND length(array_to_string(found, ', ')) <> length(values_), false) AS is_broken,
  coalesce(contains(values_, '...'''), false) AS is_doubtful,
  CASE WHEN state IS NULL THEN false ELSE letter IN ('E', 'X') AND kind = 'extended' AND pieces IS NULL
    AND regexp_matches(parsed.key, '\$[0-9]')
    AND NOT (letter = 'E' AND (starts_with(coalesce(tag, ''), 'PARSE')
      OR (coalesce(tag, '') = '' AND starts_with(state, '42')))) END AS is_unbound,
  -- with log_parameter_max_length = 0, and without DETAIL (log_error_verbosity = terse), no value is logged
  state IS NULL AND letter = 'X' AND pieces IS NULL AND coalesce(regexp_matches(sql, '\$[0-9]'), false) AS is_bare,
  CASE WHEN app LIKE 'pgdyno%' THEN {literal(Barred.OURS)}
    WHEN kind IN ('connect', 'disconnect') THEN NULL
    WHEN is_walsender THEN '{Barred.REPLICATION}' WHEN letter = 'F' THEN '{Barred.FASTPATH}'
    WHEN is_fetch THEN '{Barred.FETCH}'
    ELSE reason END AS refused
FROM parsed LEFT JOIN known ON known.key = parsed.key
"""
"""The rows of a segment, in the order of its lines."""

PEOPLE = """
CREATE TEMP TABLE people AS
SELECT sid, arg_min(usr, seq) AS usr, arg_min(db, seq) AS db, arg_min(nullif(app, ''), seq) AS app
FROM read_parquet({parts}) WHERE sid IN (SELECT sid FROM sessions WHERE NOT (connected AND ended)) GROUP BY sid
"""
"""Who the sessions are that the log cuts."""

COMMITS = """
INSERT INTO commits SELECT xid::BIGINT, row_number() OVER (ORDER BY
    ('0x' || split_part(commit_lsn, '/', 1))::BIGINT, ('0x' || split_part(commit_lsn, '/', 2))::BIGINT) - 1,
    commit_us::BIGINT, nullif(keys, '')
FROM read_csv('{path}', auto_detect = false, header = true, delim = ',', quote = '"', escape = '"',
  columns = {{'xid': 'VARCHAR', 'commit_lsn': 'VARCHAR', 'commit_us': 'VARCHAR', 'keys': 'VARCHAR'}},
  parallel = false, max_line_size = 16000000)
"""
"""Of the file of a commit order, the place of each commit."""

KEYED_BY_XID = """
INSERT INTO keyed_rows SELECT sid, max(seq), any_value(commits.keys), xid
FROM read_parquet({parts}) JOIN commits USING (xid) WHERE commits.keys IS NOT NULL GROUP BY sid, xid
"""
"""Of each transaction with keys whose statements have its id, the last of these."""
ALONE = """
SELECT sid, any_value(seq), any_value(due), any_value("end"), any_value(sql)
FROM read_parquet({parts}) WHERE kind = 'simple' AND state IS NULL AND "end" <> -1 GROUP BY sid, tx
HAVING count(*) = 1 AND any_value(xid) <= 0 AND regexp_matches(any_value(sql), '(?i)^\\s*(?:insert|with)\\b')
"""
"""Statements that may have committed by themselves, whose lines have no transaction id then."""

REFUSED = f"""CASE WHEN refused IS NULL AND tx = 0 AND sid IN (SELECT sid FROM sessions WHERE begins_within_tx)
  THEN '{Barred.BEGUN}' ELSE refused END"""
"""Of a row of a part, once all sessions are known."""
_NUMBERS = ("end", "parse", "bind", "execute", "tx", "xid", "place")
FEW = 250
"""Values of a column that few have; parts have a dictionary of them then, and each is looked up once."""
_SORTED_AS_NUMBERS = {
    "kind": "SELECT kind FROM {parts} UNION SELECT unnest(['connect', 'disconnect'])",
    "statement": "SELECT statement FROM {parts}",
    "fingerprint": "SELECT fingerprint FROM {parts}",
    "sqlstate": "SELECT state FROM {parts} UNION SELECT state FROM late",
    "user": "SELECT usr FROM {parts}",
    "database": "SELECT db FROM {parts}",
    "application": "SELECT app FROM {parts}",
    "refused": "SELECT refused FROM {parts} UNION SELECT unnest([{known}])",
}
"""Columns of a trace that often have few values, and the query of all that they have."""


def values_queries(parts: str) -> dict[str, str]:
    """Return queries of the distinct values of columns of a trace, one more than FEW at most."""
    known = ", ".join(map(literal, (Barred.LOGIN, Barred.OURS, Barred.BEGUN)))
    return {
        name: f"SELECT DISTINCT * FROM ({query.format(parts=f'read_parquet({parts})', known=known)}) LIMIT {FEW + 2}"
        for name, query in _SORTED_AS_NUMBERS.items()
    }


def implied_end(end: int, starts: Sequence[int], *, are_logged: bool) -> str:
    """Return the expression of when a session ended whose end is not in a log that ends at `end`.

    It did not outlive its server, which began anew at each of `starts`. In a log without any disconnection nothing is
    known after its last statement; sessions that all lasted until the log's end would be far more than there ever were.
    """
    if not are_logged:
        return f"least(last_end, {end})"
    return f"coalesce(list_min(list_filter({list(starts)}::BIGINT[], lambda one: one > last_end)), {end})"


def final_query(parts: str, begin: int, left: str, values: Mapping[str, Sequence[str]]) -> str:
    """Return the query of all rows of a trace that begins at `begin`, in microseconds since 1970.

    `parts` are the Parquet files of its rows, as SQL for read_parquet. `left` is the expression of `implied_end`.
    `values` has by column all that it holds besides NULL. Where that is FEW values at most, they are numbers while the
    rows are sorted, since a sort moves each text that it holds, and what does not fit into memory goes through the
    disk.
    """
    few = {name: f"[{', '.join(map(literal, each))}]" for name, each in values.items() if 0 < len(each) <= FEW}
    columns = ", ".join(
        f'list_position({few[one.name]}, "{one.name}")::UTINYINT AS "{one.name}"'
        if one.name in few
        else f'"{one.name}"::{one.type} AS "{one.name}"'
        for one in TRACE
    )
    restored = ", ".join(
        f'{few[one.name]}["{one.name}"] AS "{one.name}"' if one.name in few else f'"{one.name}"' for one in TRACE
    )
    numbers = ", ".join(f'nullif(part."{name}", -1) AS "{name}"' for name in _NUMBERS)
    return f"""
WITH numbered AS (
  SELECT *, row_number() OVER (ORDER BY first_t, sid) - 1 AS session FROM sessions
), sent AS (
  SELECT session, seq + (NOT connected)::INTEGER AS seq, kind, due - {begin} AS due_us, {numbers}, statement, sql,
    params, fingerprint, coalesce(part.state, late.state) AS sqlstate, usr, db, app, false AS implied,
    CASE WHEN kind = 'connect' AND late.state IS NOT NULL THEN coalesce(refused, '{Barred.LOGIN}')
      WHEN begins_within_tx AND part.tx = 0 THEN coalesce(refused, '{Barred.BEGUN}') ELSE refused END AS refused,
    commits.place AS commit_pos, keyed_rows.keys AS keys
  FROM read_parquet({parts}) AS part JOIN numbered USING (sid) LEFT JOIN
    (SELECT sid, seq, min(state) AS state FROM late GROUP BY sid, seq) AS late USING (sid, seq)
    LEFT JOIN (SELECT xid, max(place) AS place FROM commits GROUP BY xid) AS commits ON commits.xid = part.xid
    LEFT JOIN keyed_rows ON keyed_rows.sid = part.sid AND keyed_rows.seq = part.seq
), edges AS (
  SELECT session, 0 AS seq, 'connect' AS kind,
    least(first_due, greatest(start_us, {begin})) - {begin} AS due_us, usr, db, app,
  FROM numbered JOIN people USING (sid) WHERE NOT connected
  UNION ALL
  SELECT session, seqs + (NOT connected)::INTEGER, 'disconnect', {left} - {begin}, usr, db, app
  FROM numbered JOIN people USING (sid) WHERE NOT ended
), whole AS (
  SELECT session, seq, kind, due_us, "end" - {begin} AS end_us, parse AS parse_us, bind AS bind_us,
    execute AS execute_us, place, statement, sql, params, tx, xid, commit_pos, fingerprint, sqlstate,
    usr AS "user", db AS "database", nullif(app, '') AS application, implied, refused, keys
  FROM sent
  UNION ALL
  SELECT session, seq, kind, due_us, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    usr, db, nullif(app, ''), true, CASE WHEN app LIKE 'pgdyno%' THEN {literal(Barred.OURS)} END,
    NULL
  FROM edges
)
SELECT {restored} FROM (SELECT {columns} FROM whole ORDER BY due_us, session, seq)"""
