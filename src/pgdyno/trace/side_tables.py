"""SQL of a comparison: what is read of the trace and of its sides, and what explains answers that differ. Pure.

A side is the capture itself, a replay's outcome, or the log that a server wrote of a replay, built as a trace. Sessions
of a log are found again by what they sent: the same statements in the same order, in the order in which they began.
"""

from __future__ import annotations

from pgdyno.trace.error_causes import IN_FAILED, KEYS, RACES, ROW_WORDS

STATEMENT = "kind IN ('simple', 'parse', 'extended')"
SENT = f"{STATEMENT} AND refused IS NULL AND sql IS NOT NULL"
_LOGGED = """CASE WHEN coalesce(parse_us, bind_us, execute_us) IS NOT NULL
    THEN least(coalesce(parse_us, 0) + coalesce(bind_us, 0) + coalesce(execute_us, 0), 2147483647)::INTEGER END"""
_FINGERPRINT = "coalesce(('0x' || fingerprint)::UBIGINT, 0)"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ENDED = "sent_us IS NOT NULL AND done_us IS NOT NULL"
"""Rows of an outcome that were sent, and answered or lost."""
SETUP = (
    # an SQLSTATE as a number: 0 is success
    f"""CREATE TEMP MACRO state_number(state) AS CASE WHEN state IS NULL THEN 0 ELSE 1 + list_sum(list_transform(
      [1, 2, 3, 4, 5], lambda i: strpos('{_DIGITS}', substr(state, i, 1)) * (37 ** (5 - i))::INTEGER)) END::INTEGER""",
    "CREATE TEMP MACRO short(micros) AS least(greatest(micros, 0), 2147483647)::INTEGER",
)


def statements(trace: str) -> str:
    """Return the view of all statements that were to be sent."""
    return f"""CREATE TEMP VIEW statements AS
SELECT session, seq, coalesce(tx, -1 - seq) AS tx, kind = 'parse' AS is_parse, due_us, end_us, {_LOGGED} AS logged,
  {_FINGERPRINT} AS fp, sqlstate, sql, params FROM {trace} WHERE {SENT}"""


def texts(trace: str) -> str:
    """Return the table of one text for each fingerprint."""
    return f"""CREATE TEMP TABLE texts AS SELECT {_FINGERPRINT} AS fp, any_value(sql) AS sql
FROM {trace} WHERE {SENT} AND fingerprint IS NOT NULL GROUP BY fp"""


def outcome_side(name: str, outcome: str) -> str:
    """Return the side that is an outcome: time from sending to answer, and how late it was sent."""
    return f"""CREATE TEMP VIEW side_{name} AS
SELECT session, seq, CASE WHEN sqlstate IS NULL THEN short(done_us - sent_us) END AS service,
  short(sent_us - due_us) AS lag, sent_us AS sent, done_us AS done, sqlstate, rows
FROM {outcome} WHERE {ENDED}"""


def log_side(name: str, log: str) -> str:
    """Return the side that is a server's log of a replay: sessions with the same statements are the same."""
    return f"""CREATE TEMP TABLE side_{name} AS
WITH logged AS (
  SELECT session, seq, {_LOGGED} AS service, due_us, end_us, sqlstate, kind = 'parse' AS is_parse,
    {_FINGERPRINT} AS fp FROM {log} WHERE {SENT}
), found AS (
  SELECT *, row_number() OVER (PARTITION BY session ORDER BY seq) AS place FROM logged
), wanted AS (
  SELECT session, seq, is_parse, due_us, fp, row_number() OVER (PARTITION BY session ORDER BY seq) AS place
  FROM statements
), of_log AS (
  SELECT session, what, n, row_number() OVER (PARTITION BY what, n ORDER BY first, session) AS nth FROM (
    SELECT session, bit_xor(hash(place, is_parse, fp)) AS what, count(*) AS n, min(due_us) AS first
    FROM found GROUP BY session)
), of_trace AS (
  SELECT session, what, n, row_number() OVER (PARTITION BY what, n ORDER BY first, session) AS nth FROM (
    SELECT session, bit_xor(hash(place, is_parse, fp)) AS what, count(*) AS n, min(due_us) AS first
    FROM wanted GROUP BY session)
), pairs AS (
  SELECT of_trace.session AS session, of_log.session AS other FROM of_trace JOIN of_log USING (what, n, nth)
)
SELECT wanted.session, wanted.seq, CASE WHEN sqlstate IS NULL THEN service END AS service, 0 AS lag,
  found.due_us AS sent, coalesce(end_us, found.due_us) AS done, sqlstate, NULL::BIGINT AS rows
FROM pairs JOIN wanted USING (session) JOIN found ON found.session = pairs.other AND found.place = wanted.place"""


UNLIKE = """CREATE TEMP TABLE unlike AS SELECT t.session, t.seq, t.tx, t.fp, t.sqlstate AS captured, b.sqlstate AS came,
  g.in_control FROM given AS g JOIN statements AS t ON t.session = g.session AND t.seq = g.seq
  JOIN side_b AS b ON b.session = g.session AND b.seq = g.seq"""
"""Answers of B that are not the captured ones; `given` has their keys."""
_VALUES = r"""coalesce(t.params, regexp_extract_all(t.sql, '''(?:[^'']|'''')*''|\b[0-9]+\b'))"""
_NAMES_ROWS = rf"(?i)\b(?:{'|'.join(ROW_WORDS)})\b"
_OF_RACES, _OF_KEYS = (", ".join(f"'{state}'" for state in sorted(states)) for states in (RACES, RACES | KEYS))
RACING = f"SELECT count(*) FROM unlike WHERE captured IN ({_OF_KEYS}) OR came IN ({_OF_KEYS})"
"""Whether values have to be looked at."""
EVIDENCE = (
    f"""CREATE TEMP TABLE values_ AS SELECT u.session, u.seq, u.tx, u.fp, u.captured, u.came, {_VALUES} AS bound
      FROM unlike AS u JOIN statements AS t ON t.session = u.session AND t.seq = u.seq""",
    f"""CREATE TEMP TABLE races AS SELECT session, seq, tx, fp, unnest(bound) AS value,
      generate_subscripts(bound, 1) AS place FROM values_
      WHERE captured IN ({_OF_RACES}) OR came IN ({_OF_RACES})""",
    """CREATE TEMP TABLE spans AS
      SELECT t.session, t.tx, min(b.sent) AS begins, max(b.done) AS ends, min(t.due_us) AS due, max(t.end_us) AS ended
      FROM statements AS t JOIN side_b AS b ON b.session = t.session AND b.seq = t.seq
      SEMI JOIN (SELECT session, tx FROM statements WHERE fp IN (SELECT fp FROM races)) AS asked
        ON asked.session = t.session AND asked.tx = t.tx
      GROUP BY t.session, t.tx""",
    f"""CREATE TEMP TABLE others AS
      SELECT t.session, t.fp, begins, ends, due, ended, unnest({_VALUES}) AS value,
        generate_subscripts({_VALUES}, 1) AS place
      FROM statements AS t JOIN spans ON spans.session = t.session AND spans.tx = t.tx
      WHERE t.fp IN (SELECT fp FROM races)""",
    """CREATE TEMP TABLE overlapping AS
      SELECT DISTINCT r.session, r.seq FROM races AS r JOIN spans AS m ON m.session = r.session AND m.tx = r.tx
        JOIN others AS o ON o.fp = r.fp AND o.place = r.place AND o.value = r.value AND o.session <> r.session
      WHERE (o.begins <= m.ends AND m.begins <= o.ends) OR (o.due <= m.ended AND m.due <= o.ended)
        OR (o.begins < m.begins) <> (o.due < m.due)""",
    r"""CREATE TEMP TABLE keyed AS
      SELECT v.session, v.seq FROM values_ AS v JOIN (
        SELECT session, min(seq) AS first FROM statements
        WHERE fp IN (SELECT fp FROM texts WHERE regexp_matches(sql, '(?i)\breturning\b')) GROUP BY session
      ) AS given_keys ON given_keys.session = v.session AND given_keys.first < v.seq
      WHERE len(list_filter(v.bound, lambda one: regexp_matches(one, '^[0-9]+$'))) > 0""",
)
"""What explains races and keys: who else used the same values at the same time, who had been given keys."""
NO_EVIDENCE = (
    "CREATE TEMP TABLE overlapping (session INTEGER, seq INTEGER)",
    "CREATE TEMP TABLE keyed (session INTEGER, seq INTEGER)",
)
SUSPECTS = f"""
WITH leaders AS (
  SELECT *, CASE WHEN came = '{IN_FAILED}' THEN first_value(seq) OVER (PARTITION BY session, tx ORDER BY seq)
    ELSE seq END AS leader FROM unlike
)
SELECT CASE WHEN l.captured IS NULL THEN 'new' WHEN l.came IS NULL THEN 'missing' ELSE 'changed' END AS answer,
  coalesce(l.captured, '') AS captured, coalesce(l.came, '') AS came, coalesce(f.captured, '') AS first_captured,
  coalesce(f.came, '') AS first_came, coalesce(regexp_matches(x.sql, '{_NAMES_ROWS}'), false) AS names_rows,
  v.session IS NOT NULL AS overlaps, k.session IS NOT NULL AS has_keys, l.in_control, count(*) AS n,
  printf('%016x', l.fp) AS fingerprint
FROM leaders AS l JOIN unlike AS f ON f.session = l.session AND f.seq = l.leader
  LEFT JOIN texts AS x ON x.fp = f.fp
  LEFT JOIN overlapping AS v ON v.session = l.session AND v.seq = l.leader
  LEFT JOIN keyed AS k ON k.session = l.session AND k.seq = l.leader
GROUP BY ALL ORDER BY ALL"""
"""What `error_causes.Suspect` holds."""
ROW_NAMING = f"SELECT fp FROM texts WHERE regexp_matches(sql, '{_NAMES_ROWS}')"
"""Fingerprints of statements that name rows by what a database chooses."""
