"""Cut a part out of a trace: by time, user, database, application, to what reads alone, or without its values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.trace.fingerprints import check_parser, tree, without_values
from pgdyno.trace.parquet import connection, read_meta, trace_source, work_folder, write_meta, write_parquet
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import TRACE, TraceMeta
from pgdyno.trace.session_state import CONTROL_LIKE, STATE_LIKE, Sent, needed
from pgdyno.trace.side_tables import STATEMENT
from pgdyno.trace.whole import require_own_file

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

_BEGINS_WITHIN = "(coalesce(tx > before_tx, true))"
"""Its transaction begins in the time: `before_tx` is the ordinal of the last one of its session that began before."""
_READING = frozenset(
    {"SelectStmt", "VariableShowStmt", "TransactionStmt", "DeallocateStmt", "PrepareStmt", "ExecuteStmt"}
)
_READING_ALSO = frozenset({"VariableSetStmt", "DiscardStmt", "ClosePortalStmt", "FetchStmt", "DeclareCursorStmt"})
_BATCH = 5000
_NAMING = r'(?i)^\s*(prepare|execute|deallocate)\s+(?:prepare\s+)?("(?:[^"]|"")+"|[^\s"(;]+)'
"""A statement of SQL that prepares under a name, or uses or closes what was prepared."""


@dataclass(frozen=True, slots=True)
class CutOptions:
    """What is kept; an empty list keeps all."""

    from_s: float | None = None
    """Seconds after the begin of the trace."""
    to_s: float | None = None
    users: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    read_only: bool = False
    mask: bool = False


def cut_trace(trace: Path, out: Path, options: CutOptions) -> TraceMeta:
    """Write a part of a trace as a trace of its own; return its facts.

    A session that is cut in time gets a connect or a disconnect that is made up, and begins with what of its earlier
    statements later ones need: its settings, and statements that SQL prepared. Temporary tables, cursors and what it
    listens to are not made again; the sessions that began before are counted. The rest of a transaction that began
    before is left out, and counted: without its begin each statement would be committed by itself. What writes is kept
    by --read-only as a row that is refused, so that the order of what is left stays known. Raises UsageError where
    nothing is left.
    """
    meta = read_meta(trace)
    begin, end = _bounds(meta, options)
    if options.read_only or options.mask:
        check_parser()
    with work_folder(out) as folder, connection(folder) as db, trace_source(trace, db) as source:
        require_own_file(trace, meta)
        cut = _choose(db, source, options, begin, end)
        cut -= _carry(db, begin)
        _judge(db, options)
        _follow(db)
        query = _rows(begin, end, options)
        db.execute(f"CREATE VIEW kept AS {query}")
        statements, sessions, errors, transactions, older = db.execute(
            f"SELECT count(*) FILTER ({STATEMENT}), count(DISTINCT session),"
            f" count(*) FILTER ({STATEMENT} AND sqlstate IS NOT NULL),"
            f" count(DISTINCT (session, tx)) FILTER ({STATEMENT}),"
            " count(DISTINCT session) FILTER (kind = 'connect' AND implied) FROM kept"
        ).fetchall()[0]
        if not statements:
            raise UsageError(f'nothing of trace "{trace}" is left', hint="pgdyno trace show lists what it holds.")
        refused = db.execute(
            f"SELECT refused, count(*) FROM kept WHERE {STATEMENT} AND refused IS NOT NULL GROUP BY 1 ORDER BY 1"
        ).fetchall()
        digest = write_parquet(db, "SELECT * FROM kept ORDER BY due_us, session, seq", out)
    began = datetime.fromisoformat(meta.begins_at) + timedelta(microseconds=begin)
    found = replace(
        meta,
        begins_at=began.isoformat(timespec="microseconds"),
        seconds=(end - begin) / 1e6,
        sessions=sessions,
        statements=statements,
        transactions=transactions,
        errors=errors,
        refused={str(reason): int(count) for reason, count in refused},
        masked=meta.masked or options.mask,
        sequences=meta.sequences if begin == 0 else {},
        lost=replace(
            meta.lost,
            cut_statements=meta.lost.cut_statements + cut,
            cut_sessions=older if begin else meta.lost.cut_sessions,
        ),
        digest=digest,
    )
    write_meta(out, found)
    return found


def _bounds(meta: TraceMeta, options: CutOptions) -> tuple[int, int]:
    whole = round(meta.seconds * 1e6)
    begin = min(round((options.from_s or 0) * 1e6), whole)
    end = whole if options.to_s is None else min(round(options.to_s * 1e6), whole)
    if begin >= end:
        raise UsageError(
            f"from {begin / 1e6:g} s to {end / 1e6:g} s nothing is left of {meta.seconds:g} s",
            hint="Times are seconds from the beginning of the trace.",
        )
    return begin, end


def _choose(db: Connection, source: str, options: CutOptions, begin: int, end: int) -> int:
    """Make the view of the rows, and the table of the sessions that have a statement in the time.

    Returns how many statements in the time are of transactions that began before; the table `begun` says which.
    """
    clauses, values = ["true"], list[list[str]]()
    for column, asked in (
        ("user", options.users),
        ("database", options.databases),
        ("application", options.applications),
    ):
        if asked:
            clauses.append(f"list_contains(?::VARCHAR[], coalesce(\"{column}\", ''))")
            values.append(list(asked))
    db.execute(f"CREATE VIEW trace AS SELECT * FROM {source}")
    db.execute(
        "CREATE TABLE begun AS SELECT session, max(tx) AS before_tx FROM trace"
        f" WHERE {STATEMENT} AND due_us < {begin} GROUP BY session"
    )
    within = (
        f"FROM trace LEFT JOIN begun USING (session) WHERE {STATEMENT} AND due_us >= {begin} AND due_us < {end}"
        f" AND {' AND '.join(clauses)}"
    )
    db.execute(
        "CREATE TABLE chosen AS SELECT row_number() OVER (ORDER BY min(session)) - 1 AS number, session"
        f" {within} AND {_BEGINS_WITHIN} GROUP BY session",
        values,
    )
    (cut,) = db.execute(f"SELECT count(*) {within} AND NOT {_BEGINS_WITHIN}", values).fetchall()[0]
    return int(cut)


def _carry(db: Connection, begin: int) -> int:
    """Make the table of statements that were sent before, in time or in a transaction, and that sessions need.

    Returns how many of them are in the time: in the rest of a transaction, which is left out but for them.
    """
    db.execute("CREATE TABLE carried (session INTEGER, seq INTEGER)")
    if not begin:
        return 0
    before = (
        f"FROM trace JOIN chosen USING (session) LEFT JOIN begun USING (session) {{also}} WHERE {STATEMENT}"
        f" AND (due_us < {begin} OR NOT {_BEGINS_WITHIN})"
    )
    may_count = (
        "kind IN ('simple', 'extended') AND sqlstate IS NULL AND refused IS NULL AND regexp_matches(sql, ?, 'i')"
    )
    db.execute(
        f"CREATE TABLE changing AS SELECT DISTINCT session, tx {before.format(also='')} AND {may_count}", [STATE_LIKE]
    )
    rows = db.cursor()
    same = "SEMI JOIN changing ON changing.session = trace.session AND changing.tx IS NOT DISTINCT FROM trace.tx"
    rows.execute(
        "SELECT * FROM (SELECT session, trace.seq, tx, coalesce(sql, '') AS text, sqlstate IS NOT NULL AS failed,"
        f" coalesce({may_count}, false) AS may_be_sent {before.format(also=same)})"
        " WHERE may_be_sent OR failed OR regexp_matches(text, ?, 'i') ORDER BY session, seq",
        [STATE_LIKE, CONTROL_LIKE],
    )
    kept = needed(Sent(*row) for row in iter(rows.fetchone, None))
    while batch := list(islice(kept, _BATCH)):
        sessions, places = ([one[n] for one in batch] for n in (0, 1))
        db.execute("INSERT INTO carried SELECT unnest(?::INTEGER[]), unnest(?::INTEGER[])", [sessions, places])
    within = f"SELECT count(*) FROM trace JOIN carried USING (session, seq) WHERE due_us >= {begin}"
    return int(db.execute(within).fetchall()[0][0])


def _judge(db: Connection, options: CutOptions) -> None:
    """Make the table of distinct texts: without their values where asked for, and whether they write."""
    db.execute("CREATE TABLE texts (sql VARCHAR, shown VARCHAR, writes BOOLEAN)")
    if not (options.read_only or options.mask):
        return
    texts = db.cursor()
    texts.execute(f"SELECT DISTINCT sql FROM trace JOIN chosen USING (session) WHERE {STATEMENT} AND sql IS NOT NULL")
    while batch := [text for (text,) in texts.fetchmany(_BATCH)]:
        db.execute(
            "INSERT INTO texts SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::BOOLEAN[])",
            [
                batch,
                [without_values(text) if options.mask else text for text in batch],
                [options.read_only and not reads_alone(text) for text in batch],
            ],
        )


def _follow(db: Connection) -> None:
    """Make the table of statements that execute or close what SQL prepared to write, which is not sent.

    Their texts do not say what they do; sent again, each of them would fail.
    """
    db.execute(
        "CREATE TABLE naming AS SELECT session, trace.seq, lower(regexp_extract(trace.sql, $1, 1)) AS verb,"
        " regexp_extract(trace.sql, $1, 2) AS told,"
        " CASE WHEN starts_with(told, '\"') THEN told[2:-2] ELSE lower(told) END AS name,"
        " coalesce(texts.writes, false) AS writes FROM trace JOIN chosen USING (session)"
        " JOIN texts ON texts.sql = trace.sql"
        f" WHERE {STATEMENT} AND sqlstate IS NULL AND regexp_matches(trace.sql, $1)",
        [_NAMING],
    )
    db.execute(
        "CREATE TABLE followed AS SELECT one.session, one.seq FROM naming AS one ASOF JOIN"
        " (FROM naming WHERE verb = 'prepare') AS made ON made.session = one.session AND made.name = one.name"
        " AND made.seq < one.seq WHERE one.verb <> 'prepare' AND made.writes"
    )


def reads_alone(text: str) -> bool:
    """Tell whether a text cannot change a table by itself; what does not parse is not trusted.

    Functions that a SELECT calls may write: those of PostgreSQL that do are known, of others nothing is.
    """
    found = tree(text)
    if found is None:
        return not text.strip()
    statements = {name for name in found.nodes if name.endswith("Stmt")} - {"RawStmt"}
    locks = "LockingClause" in found.nodes or "IntoClause" in found.nodes
    return statements <= _READING | _READING_ALSO and not locks and not found.functions & _WRITING


_WRITING = frozenset({"nextval", "setval", "lo_create", "lo_put", "lo_unlink", "lo_from_bytea", "lowrite", "lo_creat"})


def _rows(begin: int, end: int, options: CutOptions) -> str:
    """Return the query of the rows that are kept, with sessions and times counted again."""
    mask = "list_transform(params, lambda one: CASE WHEN one IS NOT NULL THEN '?' END)" if options.mask else "params"
    mine = {
        "session": "number",
        "seq": "row_number() OVER (PARTITION BY number ORDER BY trace.seq) - 1",
        "due_us": f"least(greatest(due_us, {begin}), {end}) - {begin}",
        "end_us": f"greatest(end_us, {begin}) - {begin}",
        "sql": "coalesce(texts.shown, trace.sql)",
        "params": mask,
        **({"keys": "NULL"} if options.mask else {}),
        "refused": f"coalesce(refused, CASE WHEN texts.writes OR followed.seq IS NOT NULL THEN '{Barred.WRITES}' END)",
        "implied": f"implied OR (kind IN ('connect', 'disconnect') AND (due_us < {begin} OR due_us > {end}))",
    }
    columns = ", ".join(
        f'({mine[one.name]})::{one.type} AS "{one.name}"' if one.name in mine else f'trace."{one.name}"'
        for one in TRACE
    )
    inside = f"due_us >= {begin} AND due_us < {end}"
    return (
        f"SELECT {columns} FROM trace JOIN chosen USING (session) LEFT JOIN begun USING (session)"
        " LEFT JOIN texts ON texts.sql = trace.sql"
        " LEFT JOIN followed ON followed.session = trace.session AND followed.seq = trace.seq"
        " LEFT JOIN carried ON carried.session = trace.session AND carried.seq = trace.seq"
        f" WHERE kind IN ('connect', 'disconnect') OR carried.seq IS NOT NULL OR ({inside} AND {_BEGINS_WITHIN})"
    )
