"""SQL that reads a segment of csvlog or jsonlog, and says of each line what it is to a statement. Pure.

Words of the server are matched at the begin of a message only, so that a statement's text cannot pass for a line.
"""

from __future__ import annotations

from collections.abc import Mapping

CSV_COLUMNS = (23, 24, 26)
"""Columns of a csvlog: PostgreSQL 12, 13, and 14 and later."""

_CSV = {
    "log_time": 0, "usr": 1, "db": 2, "session_id": 5, "line_num": 6, "tag": 7, "vxid": 9, "txid": 10, "sev": 11,
    "state": 12, "msg": 13, "detail": 14, "context": 18, "query": 19, "app": 22, "backend": 23,
}  # fmt: skip
_JSON = {
    "log_time": "timestamp", "usr": "user", "db": "dbname", "session_id": "session_id", "line_num": "line_num",
    "tag": "ps", "vxid": "vxid", "txid": "txid", "sev": "error_severity", "state": "state_code", "msg": "message",
    "detail": "detail", "context": "context", "query": "statement", "app": "application_name",
    "backend": "backend_type",
}  # fmt: skip

_BEGIN = r"(?i)^\s*(?:begin|start\s+transaction)\b"
_END = (
    r"(?i)^\s*(?:(?:commit|end|rollback|abort)(?:\s+(?:work|transaction))?(?:\s+and\s+(?:no\s+)?chain)?"
    r"|prepare\s+transaction\s[^;]*)\s*;?\s*$"
)
_EITHER = r"(?i)^\s*(?:begin|start|commit|end|rollback|abort|prepare)\b"
"""What most texts are not: one look tells that neither pattern fits."""
_COMMON = " OR ".join(f"starts_with(sql, '{word} ')" for word in ("SELECT", "UPDATE", "INSERT"))
"""Most texts, which need no pattern at all."""
_TEXTS = "('S', 'T', 'X', 'U', 'E')"
SEVERITIES = (
    "LOG",
    "ERROR",
    "FATAL",
    "PANIC",
    "WARNING",
    "NOTICE",
    "INFO",
    *(f"DEBUG{n}" for n in range(1, 6)),
    "DEBUG",
)
"""What a message can be, in English."""
_SEVERITIES = ", ".join(f"'{one}'" for one in SEVERITIES)
_OTHER_DURATION = r"^\pL[\pL ]* ?:? ?[0-9]+\.[0-9]{3} \pL"
"""`Dauer: 0.087 ms`: a duration in the language of a role or database whose lc_messages is another one."""


def csv_source(path: str, columns: int, longest: int) -> str:
    """Return the FROM of a segment of csvlog with so many columns, and records up to so many bytes."""
    names = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(columns))
    chosen = ", ".join(
        f"c{number} AS {name}" if number < columns else f"NULL::VARCHAR AS {name}" for name, number in _CSV.items()
    )
    reader = (
        f"read_csv('{path}', auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"',"
        f" new_line = '\\n', columns = {{{names}}}, parallel = false, max_line_size = {longest})"
    )
    return f"(SELECT {chosen} FROM {reader})"


def json_source(path: str, longest: int) -> str:
    """Return the FROM of a segment of jsonlog with records up to so many bytes."""
    names = ", ".join(f"'{name}': 'VARCHAR'" for name in _JSON.values())
    chosen = ", ".join(f'"{theirs}" AS {name}' for name, theirs in _JSON.items())
    reader = (
        f"read_json('{path}', auto_detect = false, format = 'newline_delimited', columns = {{{names}}},"
        f" maximum_object_size = {longest})"
    )
    return f"(SELECT {chosen} FROM {reader})"


def events_query(source: str, offsets: Mapping[str, int]) -> str:
    """Return the query of the lines of a source; `offsets` has the seconds east of UTC by the zone's abbreviation."""
    zones = " ".join(f"WHEN '{name}' THEN {seconds * 1_000_000}" for name, seconds in offsets.items())
    return f"""
WITH given AS (
  SELECT usr, db, app, tag, state, msg, detail, context, query, backend, sev,
    TRY_CAST('0x' || replace(session_id, '.', '') AS BIGINT) AS sid,
    TRY_CAST(line_num AS BIGINT) AS n,
    epoch_us(TRY_CAST(substr(log_time, 1, 23) AS TIMESTAMP)) AS local, substr(log_time, 25) AS zone,
    CASE substr(log_time, 25) {zones} END AS east,
    TRY_CAST(substr(vxid, instr(vxid, '/') + 1) AS BIGINT) AS vx,
    TRY_CAST(txid AS BIGINT) AS xid,
    sev = 'LOG' AND context IS NULL AS is_told, is_told AND starts_with(msg, 'duration: ') AS is_timed
  FROM {source}
), timed AS (
  SELECT * EXCLUDE (local, zone, east), local - east AS t, CASE WHEN east IS NULL THEN zone END AS zone,
    CASE WHEN is_timed THEN instr(msg, ' ms') END AS ms
  FROM given
), worded AS (
  SELECT *,
    CASE WHEN is_timed THEN TRY_CAST(replace(substr(msg, 11, ms - 11), '.', '') AS BIGINT) END AS dur,
    CASE WHEN NOT is_timed THEN msg WHEN substr(msg, ms, 5) = ' ms  ' THEN substr(msg, ms + 5) END AS rest
  FROM timed
), kinds AS (
  SELECT *,
    CASE
      WHEN usr IS NULL AND sev = 'LOG' AND starts_with(msg, 'database system was ') THEN 'R'
      WHEN backend NOT IN ('client backend', 'walsender', 'not initialized') OR usr IS NULL THEN '.'
      WHEN sev = 'ERROR' OR (sev IN ('FATAL', 'PANIC') AND query IS NOT NULL) THEN 'E'
      WHEN sev = 'FATAL' AND tag = 'startup' THEN 'L'
      WHEN sev NOT IN ({_SEVERITIES}) THEN 'A'
      WHEN NOT coalesce(is_told, false) THEN '.' -- what a function says (RAISE LOG) has a context
      WHEN dur IS NOT NULL THEN CASE
        WHEN starts_with(rest, 'statement: ') THEN 'T'
        WHEN starts_with(rest, 'execute ') THEN 'U'
        WHEN starts_with(rest, 'bind ') THEN 'B'
        WHEN starts_with(rest, 'parse <unnamed>: ') THEN 'P'
        WHEN starts_with(rest, 'parse ') THEN 'N'
        WHEN starts_with(rest, 'fastpath function call: ') THEN 'F'
        -- log_duration logs that of a parse and of a bind without texts: their statement follows by log_statement
        WHEN rest IS NULL AND length(msg) = ms + 2 AND NOT coalesce(regexp_matches(tag, '^(?:PARSE|BIND)'), false)
        THEN 'D' ELSE '.' END
      WHEN starts_with(rest, 'statement: ') THEN 'S'
      WHEN starts_with(rest, 'execute ') THEN 'X'
      WHEN starts_with(rest, 'connection authorized: ') OR starts_with(rest, 'replication connection authorized: ')
        THEN 'C'
      WHEN starts_with(rest, 'disconnection: ') THEN 'Q'
      WHEN regexp_matches(msg, '{_OTHER_DURATION}') THEN 'A'
      ELSE '.'
    END AS kind
  FROM worded
), texts AS (
  SELECT * EXCLUDE (rest, app),
    -- the name of a session is not its own yet when its connection is logged
    CASE WHEN kind = 'C' AND coalesce(app, '') = '' AND contains(msg, ' application_name=') THEN split_part(
      split_part(substr(msg, instr(msg, ' application_name=') + 18), ' SSL enabled (', 1), ' GSS (', 1)
      ELSE app END AS app,
    CASE kind WHEN 'P' THEN '<unnamed>' WHEN 'N' THEN substr(rest, 7, instr(rest, ': ') - 7)
      WHEN 'B' THEN substr(rest, 6, instr(rest, ': ') - 6)
      WHEN 'U' THEN substr(rest, 9, instr(rest, ': ') - 9) WHEN 'X' THEN substr(rest, 9, instr(rest, ': ') - 9)
      END AS label,
    CASE WHEN kind = 'E' THEN query WHEN kind IN ('T', 'S') THEN substr(rest, 12) WHEN kind = 'F' THEN rest
      WHEN kind IN ('P', 'N', 'B', 'U', 'X') THEN substr(rest, instr(rest, ': ') + 2) END AS sql
  FROM kinds
)
SELECT sid, n, t, zone, usr, db, app, coalesce(vx, -1) AS vx, coalesce(nullif(xid, 0), -1) AS xid, kind,
  CASE WHEN kind = 'E' AND regexp_matches(tag, '^(?:idle|PARSE|BIND)') THEN 0 ELSE coalesce(dur, -1) END AS dur,
  label, sql,
  CASE WHEN kind IN ('B', 'U', 'X') THEN detail WHEN kind = 'E' THEN context END AS detail,
  CASE WHEN kind IN ('E', 'L') THEN state END AS state, CASE WHEN kind = 'E' THEN tag END AS tag,
  CASE WHEN kind NOT IN {_TEXTS} OR {_COMMON} OR NOT regexp_matches(sql, '{_EITHER}') THEN 0
    WHEN regexp_matches(sql, '{_BEGIN}') THEN 1 WHEN length(sql) < 300 AND regexp_matches(sql, '{_END}') THEN 2
    ELSE 0 END AS ctl,
  CASE WHEN kind IN ('P', 'B', 'E', 'S', 'X') AND sql IS NOT NULL THEN (hash(sql) >> 2)::BIGINT + 1 ELSE 0 END AS h,
  backend IS NOT DISTINCT FROM 'walsender' AS is_walsender
FROM texts"""
