"""What a trace holds, as figures: over time, by class, by error; nothing that a user typed unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.owner.temporary import temporary
from pgdyno.trace.fingerprints import without_values
from pgdyno.trace.parquet import connection, fetched, read_meta, trace_source
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import TraceMeta
from pgdyno.trace.tape_maker import LOCKED, unseen_timeouts
from pgdyno.trace.whole import require_own_file

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

SLICES = 60
TOP = 20
_LONGEST = 300
_SENT = "kind IN ('simple', 'parse', 'extended')"
_BUSY = """CASE WHEN coalesce(parse_us, bind_us, execute_us) IS NOT NULL
  THEN coalesce(parse_us, 0) + coalesce(bind_us, 0) + coalesce(execute_us, 0) END"""
_PREPARED_BEFORE = """
SELECT count(DISTINCT session) FROM trace WHERE kind = 'extended' AND statement <> ''
  AND session IN (SELECT session FROM trace WHERE kind = 'connect' AND implied)
  AND NOT EXISTS (SELECT 1 FROM trace AS made WHERE made.kind = 'parse' AND made.session = trace.session
    AND made.statement = trace.statement AND made.seq < trace.seq)
"""
UNPREPARED = """
WITH named AS (
  SELECT session, seq, "user", "database", sql, regexp_extract(
      sql, '^\\s*(execute|prepare)\\s+(?:"([^"]+)"|([a-z_][a-z0-9_$]*))', ['word', 'quoted', 'plain'], 'i') AS said
  FROM {trace} WHERE kind IN ('simple', 'extended') AND sqlstate IS NULL AND refused IS NULL
    AND session IN (SELECT session FROM {trace} WHERE kind = 'connect' AND implied)
), told AS (
  SELECT * EXCLUDE (said), lower(said.word) AS word,
    CASE WHEN said.quoted <> '' THEN said.quoted ELSE lower(said.plain) END AS name FROM named WHERE said.word <> ''
)
SELECT * EXCLUDE (word) FROM told WHERE word = 'execute' AND NOT EXISTS (SELECT 1 FROM told AS made
  WHERE made.word = 'prepare' AND made.session = told.session AND made.name = told.name AND made.seq < told.seq)
"""
"""Query of what executes by SQL a statement that its session, older than the log, had prepared before it."""
_LOCKED = f"""
SELECT session, seq, sqlstate, sql FROM {{trace}} WHERE {_SENT} AND refused IS NULL AND sql IS NOT NULL
  AND session IN (SELECT session FROM {{trace}} WHERE sqlstate = '{LOCKED}')
  AND (sqlstate = '{LOCKED}'
    OR (sqlstate IS NULL AND regexp_matches(sql, '(?i)\\block_timeout\\b|^\\s*discard\\s+all\\b')))
ORDER BY session, seq
"""
PIPELINES = f"""
SELECT session, tx, max(seq) AS last FROM {{trace}}
WHERE {_SENT} AND refused IS NULL AND sql IS NOT NULL
  AND session NOT IN (SELECT session FROM {{trace}} WHERE sql ILIKE '%and%chain%')
GROUP BY session, tx
HAVING count(*) FILTER (kind = 'extended') > 1 AND count(*) FILTER (kind = 'simple') = 0
  AND NOT bool_or(regexp_matches(sql, '(?i)^(?:\\s|/\\*[^*]*\\*/|--[^\\n]*\\n)*(?:begin|start)\\b'))
  AND coalesce(min(seq) FILTER (sqlstate IS NOT NULL) = max(seq), true)
"""
"""Query of the transactions of several statements that none begins: what is sent without a Sync between is one.

Their virtual transaction proves it. Where a log has none, each such statement has a transaction of its own in a trace.
An error ends a pipeline: what goes on after one has had a BEGIN that is not in the log.
"""


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """A part of the time of a trace."""

    at_s: float
    statements: int
    sessions: int
    """That sent something in it."""
    busy: float | None
    """Statements that ran at once, on average; of those that ended in it. None where the log has no durations."""


@dataclass(frozen=True, slots=True)
class TracedClass:
    """Statements that differ in constants alone."""

    fingerprint: str | None
    """None for texts that do not parse."""
    calls: int
    errors: int
    seconds: float | None
    """None where the log has no duration of any."""
    share: float | None
    """Of the server's time, 0 to 1."""
    mean_ms: float | None
    p99_ms: float | None
    sql: str
    """One of its texts; without constants unless they were asked for."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles of a time in milliseconds; None where there was none."""

    p50: float | None
    p90: float | None
    p99: float | None


_UNKNOWN = Spread(None, None, None)


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What `trace show` tells."""

    meta: TraceMeta
    slices: tuple[TraceSlice, ...]
    classes: tuple[TracedClass, ...]
    distinct_classes: int
    server_seconds: float | None
    """None where the log has no durations."""
    most_sessions: int
    """Connected at once."""
    most_at_once: int | None
    """Statements that ran at once; None, as of both times below, where the log has no durations."""
    think: Spread
    """From the end of a statement to the next of its session."""
    transaction: Spread
    """From its first statement to the end of its last."""
    errors: dict[str, int]
    refused: dict[str, int]
    kinds: dict[str, int]
    users: dict[str, int]
    databases: dict[str, int]
    applications: dict[str, int]
    implied: int
    """Sessions whose begin or end is made up."""
    joined_in_tx: int = 0
    """Sessions whose first transaction had begun before the log."""
    joined_prepared: int = 0
    """Sessions that use statements that they had prepared before it."""
    joined_unprepared: int = 0
    """Sessions that execute by SQL what SQL had prepared before it: nobody knows what that was."""
    pipelined: int = 0
    """Transactions that were pipelines: their statements are committed together."""
    unseen_timeouts: int = 0
    """Statements that got no lock in time, by a lock_timeout that no log has: of role, database or server."""


def summarize(trace: Path, *, values: bool = False) -> TraceSummary:
    """Read a trace twice or more, in flat memory. Raises UsageError for what is no trace."""
    meta = read_meta(trace)
    of = "temporary files"
    with temporary("trace") as folder, connection(folder, of=of) as db, trace_source(trace, db) as source:
        require_own_file(trace, meta)
        db.execute(f"CREATE TEMP VIEW trace AS SELECT * FROM {source}")
        seconds = max(meta.seconds, 0.001)
        logged = _one(db, f"SELECT sum({_BUSY}) / 1e6 FROM trace")
        total = None if logged is None else float(logged)
        return TraceSummary(
            meta=meta,
            slices=_slices(db, seconds, has_durations=total is not None),
            classes=_classes(db, total, values),
            distinct_classes=int(_one(db, f"SELECT count(DISTINCT fingerprint) FROM trace WHERE {_SENT}")),
            server_seconds=total,
            most_sessions=_most(
                db,
                "SELECT due_us AS moment, 1 AS step FROM trace WHERE kind = 'connect'"
                " UNION ALL SELECT due_us, -1 FROM trace WHERE kind = 'disconnect'",
            ),
            most_at_once=None
            if total is None
            else _most(
                db,
                f"SELECT due_us AS moment, 1 AS step FROM trace WHERE {_SENT} AND end_us > due_us"
                f" UNION ALL SELECT end_us, -1 FROM trace WHERE {_SENT} AND end_us > due_us",
            ),
            think=_UNKNOWN
            if total is None
            else _spread(
                db,
                "SELECT due_us - lag(end_us) OVER (PARTITION BY session ORDER BY seq) AS t FROM trace"
                f" WHERE {_SENT} OR kind = 'connect'",
            ),
            transaction=_UNKNOWN
            if total is None
            else _spread(
                db,
                f"SELECT max(end_us) - min(due_us) AS t FROM trace WHERE {_SENT} GROUP BY session, tx",
            ),
            errors=_counts(db, "sqlstate", f"{_SENT} AND sqlstate IS NOT NULL"),
            refused=_counts(db, "refused", f"{_SENT} AND refused IS NOT NULL"),
            kinds=_counts(db, "kind", "true"),
            users=_counts(db, '"user"', _SENT),
            databases=_counts(db, "database", _SENT),
            applications=_counts(db, "application", _SENT),
            implied=int(_one(db, "SELECT count(DISTINCT session) FROM trace WHERE implied")),
            joined_in_tx=int(_one(db, f"SELECT count(DISTINCT session) FROM trace WHERE refused = '{Barred.BEGUN}'")),
            joined_prepared=int(_one(db, _PREPARED_BEFORE)),
            joined_unprepared=int(
                _one(db, f"SELECT count(DISTINCT session) FROM ({UNPREPARED.format(trace='trace')})")
            ),
            pipelined=int(_one(db, f"SELECT count(*) FROM ({PIPELINES.format(trace='trace')})")),
            unseen_timeouts=sum(1 for _ in locked_unseen(db, source)),
        )


def locked_unseen(db: Connection, trace: str) -> Iterator[tuple[int, int]]:
    """Give session and seq of what got no lock in time, by a lock_timeout that no statement of its session had set."""
    return unseen_timeouts(fetched(db, _LOCKED.format(trace=trace)))


def _one(db: Connection, query: str) -> Any:  # noqa: ANN401 - a value of SQL
    return db.execute(query).fetchall()[0][0]


def _counts(db: Connection, column: str, where: str) -> dict[str, int]:
    found = db.execute(
        f"SELECT coalesce({column}, 'none'), count(*) FROM trace WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 50"
    ).fetchall()
    return {str(name): int(count) for name, count in found}


def _slices(db: Connection, seconds: float, *, has_durations: bool) -> tuple[TraceSlice, ...]:
    width = seconds / SLICES
    found = db.execute(
        f"SELECT least(greatest(floor(due_us / {width * 1e6}), 0), {SLICES - 1})::INTEGER AS place, count(*),"
        f" count(DISTINCT session), coalesce(sum({_BUSY}), 0) / 1e6 / {width} FROM trace WHERE {_SENT} GROUP BY 1"
    ).fetchall()
    by_place = {place: (count, sessions, busy) for place, count, sessions, busy in found}
    return tuple(
        TraceSlice(place * width, int(count), int(sessions), float(busy) if has_durations else None)
        for place in range(SLICES)
        for count, sessions, busy in (by_place.get(place, (0, 0, 0.0)),)
    )


def _classes(db: Connection, total: float | None, values: bool) -> tuple[TracedClass, ...]:
    found = db.execute(
        f"SELECT fingerprint, count(*), count(sqlstate), sum({_BUSY}) / 1e6,"
        f" avg({_BUSY}) FILTER (sqlstate IS NULL) / 1e3,"
        f" approx_quantile({_BUSY}, 0.99) FILTER (sqlstate IS NULL) / 1e3,"
        f" min(left(sql, 20000)) FROM trace WHERE {_SENT} GROUP BY 1 ORDER BY 4 DESC NULLS LAST, 2 DESC, 1 LIMIT {TOP}"
    ).fetchall()
    return tuple(
        TracedClass(
            fingerprint, int(calls), int(errors), None if seconds is None else float(seconds),
            None if seconds is None else float(seconds) / total if total else 0.0,
            None if mean is None else float(mean), None if p99 is None else float(p99), _shown(sql or "", values),
        )
        for fingerprint, calls, errors, seconds, mean, p99, sql in found
    )  # fmt: skip


def _shown(sql: str, values: bool) -> str:
    text = " ".join((sql if values else without_values(sql)).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def _most(db: Connection, steps: str) -> int:
    """Return the highest sum of steps; at one moment what ends goes before what begins."""
    sums = f"SELECT sum(step) OVER (ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS s FROM ({steps})"
    return int(_one(db, f"SELECT max(s) FROM ({sums})") or 0)


def _spread(db: Connection, times: str) -> Spread:
    found = _one(db, f"SELECT approx_quantile(t, [0.5, 0.9, 0.99]) FROM ({times}) WHERE t >= 0")
    return Spread(*(round(float(one) / 1e3, 3) for one in found)) if found else Spread(None, None, None)
