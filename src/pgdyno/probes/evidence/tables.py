"""Tables and statements of two snapshots: who does the I/O, what grew, which statements take the time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.model.evidence import Statement, TableActivity, TinyRequests
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.counters import keyed_growth, reason, window_of
from pgdyno.probes.evidence.snapshot import Snapshot
from pgdyno.probes.evidence.statistics import TableGrowths

TABLES_KEPT = 50
STATEMENTS_KEPT = 30
TINY_MS = 1.0
"""A request is tiny below this mean time: a round trip over a network takes about as long (0.1 to 1 ms)."""
TINY_ROWS = 1.5
ONE_READING = Unknown("one reading tells no growth; --window SECONDS makes two")


def tables(
    first: Snapshot | None, last: Snapshot, growths: TableGrowths | None = None
) -> tuple[TableActivity, ...] | Unknown:
    """Return the tables with most I/O, those that grew most and those without autovacuum, most I/O first.

    Shares are of all blocks of all tables of the databases that were listed, those not returned included. `growths`
    are of these snapshots.
    """
    window = window_of(first, last)
    if isinstance(window, Unknown):
        return window
    if not last.get("tables"):
        return Unknown(f"the tables could not be listed: {reason(last, 'tables')}")
    growths = growths or TableGrowths(first, last)
    grown: list[tuple[str, Any, Any]] = []
    fetched = missed = 0.0
    for database, rows in last["tables"].items():
        found = growths.of(database)
        if isinstance(found, Unknown):
            return found
        grown += [(database, row, gain) for row, gain in found]
        if rows:
            was = ((first or {}).get("tables", {}).get(database) or [{}])[0]
            all_fetched = rows[0]["all_fetched"] - was.get("all_fetched", 0)
            fetched += all_fetched
            missed += all_fetched - (rows[0]["all_hit"] - was.get("all_hit", 0))
    earlier = {
        (database, row["schema"], row["name"]): row
        for database, rows in (first or {}).get("tables", {}).items()
        for row in rows
    }
    is_window = first is not None
    made = [
        _table(database, row, gain, (fetched, missed), earlier.get((database, row["schema"], row["name"])), is_window)
        for database, row, gain in grown
    ]
    made.sort(key=lambda table: (-table.io_share, -table.bytes, table.name))
    fastest = sorted(made, key=lambda table: 0 if isinstance(table.growth_bytes, Unknown) else -table.growth_bytes)
    unvacuumed = [table for table in sorted(made, key=lambda one: -one.bytes) if table.autovacuum_off]
    kept = {id(table) for table in [*made[:TABLES_KEPT], *fastest[:10], *unvacuumed[:TABLES_KEPT]]}
    return tuple(table for table in made if id(table) in kept)


def _table(
    database: str,
    row: Mapping[str, Any],
    gain: Mapping[str, float],
    blocks: tuple[float, float],
    was: Mapping[str, Any] | None,
    is_window: bool,
) -> TableActivity:
    fetched, missed = blocks
    indexes = {}
    for name, (count, _) in row["indexes"].items():
        before = was.get("indexes", {}).get(name, (0, 0))[0] if was else 0
        indexes[name] = _part(count - before, fetched)
    growth: int | Unknown = ONE_READING
    if is_window and was is not None:
        is_measured = row["is_measured"] and was.get("is_measured")
        grew = row["bytes"] + row["index_bytes"] - was["bytes"] - was["index_bytes"]
        growth = int(grew) if is_measured else Unknown("the size of this table was estimated, not measured")
    elif is_window:
        growth = int(row["bytes"] + row["index_bytes"])
    rows = row["live"] + row["dead"]
    return TableActivity(
        schema=row["schema"],
        name=row["name"],
        database=database,
        bytes=int(row["bytes"]),
        index_bytes=int(row["index_bytes"]),
        io_share=_part(gain["fetched"], fetched),
        read_share=_part(gain["fetched"] - gain["hit"], missed),
        indexes={name: value for name, value in indexes.items() if value >= 0},
        growth_bytes=growth,
        writes=round(gain["writes"]),
        seq_scans=round(gain["seq_scans"]),
        dead_share=row["dead"] / rows if rows else Unknown("the table has no row that statistics know of"),
        tablespace=row["tablespace"],
        autovacuumed_at=row.get("autovacuumed_at"),
        autovacuum_off=row.get("autovacuum_off") is True,
    )


def _part(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def statements(first: Snapshot | None, last: Snapshot) -> tuple[Statement, ...] | Unknown:
    """Return the statements that took most time; shares are of the time of all statements."""
    found = _statement_growth(first, last)
    if isinstance(found, Unknown):
        return found
    grown, all_ms, _ = found
    made = [
        Statement(
            query=row["query"],
            calls=round(gain["calls"]),
            mean_ms=gain["time_ms"] / gain["calls"],
            time_share=_part(gain["time_ms"], all_ms),
            rows_per_call=gain["rows"] / gain["calls"],
            reads_per_call=gain.get("blocks_read", 0.0) / gain["calls"],
            temp_blocks_per_call=(gain.get("temp_read", 0.0) + gain.get("temp_written", 0.0)) / gain["calls"],
            database=row["database"] or "",
        )
        for row, gain in grown
        if gain["calls"] > 0
    ]
    return tuple(sorted(made, key=lambda each: -each.time_share)[:STATEMENTS_KEPT])


def tiny_requests(first: Snapshot | None, last: Snapshot) -> TinyRequests | Unknown:
    """Return how much of the load are requests of one row and less than a millisecond (004: avoid many small ones)."""
    window = window_of(first, last)
    if isinstance(window, Unknown):
        return window
    found = _statement_growth(first, last)
    if isinstance(found, Unknown):
        return found
    grown, all_ms, all_calls = found
    if all_calls <= 0:
        return Unknown("no statement ran in the window")
    tiny = [
        gain
        for _, gain in grown
        if gain["calls"] > 0
        and gain["time_ms"] / gain["calls"] < TINY_MS
        and 0 < gain["rows"] / gain["calls"] <= TINY_ROWS
    ]
    calls = sum(gain["calls"] for gain in tiny)
    return TinyRequests(
        calls_s=calls / window.seconds if first is not None else Unknown("one reading tells no rate of statements"),
        calls_share=_part(calls, all_calls),
        time_share=_part(sum(gain["time_ms"] for gain in tiny), all_ms),
        mean_ms=sum(gain["time_ms"] for gain in tiny) / calls if calls else Unknown("there were none"),
        calls=calls,
    )


def _statement_growth(first: Snapshot | None, last: Snapshot) -> tuple[list[tuple[Any, Any]], float, float] | Unknown:
    rows = last.get("statements")
    if rows is None:
        return Unknown(reason(last, "statements"))
    before = [] if first is None else first.get("statements")
    if before is None:
        return Unknown("pg_stat_statements could not be read at the window's beginning")
    keys = ("queryid", "database")
    grown = keyed_growth(keys, before, rows, is_complete=first is None or len(before) < 200)
    if isinstance(grown, Unknown):
        return Unknown(
            f"pg_stat_statements was reset within the window, gave entries up, or holds more than the "
            f"{len(before)} that were read"
            if len(before) >= 200
            else "pg_stat_statements was reset within the window, or gave entries up"
        )
    was = before[0] if before else {"all_time_ms": 0.0, "all_calls": 0.0}
    if not rows:
        return grown, 0.0, 0.0
    return grown, rows[0]["all_time_ms"] - was["all_time_ms"], rows[0]["all_calls"] - was["all_calls"]
