"""Two snapshots, or one since its reset, as `Statistics` of the cluster. Pure; columns of every supported version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.model.evidence import Statistics
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.counters import (
    Growth,
    database_growth,
    keyed_growth,
    row_growth,
    total,
    total_rate,
    window_of,
)
from pgdyno.probes.evidence.snapshot import Snapshot

_NO_IO = Unknown("pg_stat_io came with 16")
_NOT_BACKENDS = frozenset({"checkpointer", "background writer", "startup", "walsender", "walreceiver", "walwriter"})


class TableGrowths:
    """What the listed tables grew by, by database: computed once for all who ask, as there may be ten thousand."""

    def __init__(self, first: Snapshot | None, last: Snapshot) -> None:
        self._first = first
        self.listed: Mapping[str, list[dict[str, Any]]] = last.get("tables") or {}
        self._known: dict[str, list[tuple[Any, Any]] | Unknown] = {}

    def of(self, database: str) -> list[tuple[Any, Any]] | Unknown:
        """Return (row, growth) of each of its tables; one that was made in the window counts from 0."""
        if database not in self._known:
            self._known[database] = self._grown(database, self.listed[database])
        return self._known[database]

    def _grown(self, database: str, rows: list[dict[str, Any]]) -> list[tuple[Any, Any]] | Unknown:
        if self._first is None:
            return keyed_growth(("schema", "name"), (), rows, is_complete=True)
        before = self._first.get("tables", {}).get(database)
        if before is None:
            return Unknown(f'the tables of database "{database}" were not listed at the window\'s beginning')
        is_complete = not before or len(before) >= before[0].get("tables", 0)
        return keyed_growth(("schema", "name"), before, rows, is_complete=is_complete)


def statistics(first: Snapshot | None, last: Snapshot, grown: TableGrowths | None = None) -> Statistics | Unknown:
    """Return what the views counted between two snapshots; `first` None: since the statistics were reset.

    A restart, or counters that were reset in between, make the window unknown. `grown` is of these snapshots.
    """
    window = window_of(first, last)
    if isinstance(window, Unknown):
        return window
    databases = database_growth(first, last)
    if isinstance(databases, Unknown):
        return databases
    parts = [growth for _, growth in databases]
    checkpointer = row_growth("checkpointer", "checkpointer_reset", first, last)
    wal = wal_growth(first, last)
    read, written = total_rate(parts, "tup_returned"), rows_written_rate(parts)
    hit, missed = total_rate(parts, "blks_hit"), total_rate(parts, "blks_read")
    commits = total_rate(parts, "xact_commit")
    return Statistics(
        window=window,
        commits_s=commits,
        rollbacks_s=total_rate(parts, "xact_rollback"),
        rows_read_s=read,
        rows_written_s=written,
        write_share=share(written, read, "no row was touched"),
        hit_ratio=share(hit, missed, "no block was asked for"),
        blocks_read_s=missed,
        temp_bytes_s=total_rate(parts, "temp_bytes"),
        deadlocks=_count(total(parts, "deadlocks")),
        checkpoints_timed=_counter(checkpointer, "timed"),
        checkpoints_requested=_counter(checkpointer, "requested"),
        buffers_checkpoint=_counter(checkpointer, "buffers_written"),
        buffers_backend=_buffers_backend(checkpointer, first, last),
        buffers_clean=_counter(checkpointer, "buffers_clean"),
        maxwritten_clean=_counter(checkpointer, "maxwritten_clean"),
        evictions_s=_evictions(first, last, window.seconds),
        wal_bytes_s=wal if isinstance(wal, Unknown) else wal.rate("bytes"),
        wal_bytes_per_commit=_ratio(wal if isinstance(wal, Unknown) else wal.rate("bytes"), commits, "commits"),
        full_page_image_share=_image_share(wal, last),
        wal_buffers_full=_counter(wal, "buffers_full"),
        session_busy_ratio=_ratio(
            total_rate(parts, "active_time_ms"), total_rate(parts, "session_time_ms"), "time of sessions"
        ),
        analytic_share=analytic_share(grown or TableGrowths(first, last)),
        amounts={} if first is not None else _amounts(parts, wal),
    )


_COUNTED = {
    "commits_s": ("xact_commit",),
    "rollbacks_s": ("xact_rollback",),
    "rows_read_s": ("tup_returned",),
    "rows_written_s": ("tup_inserted", "tup_updated", "tup_deleted"),
    "blocks_read_s": ("blks_read",),
    "temp_bytes_s": ("temp_bytes",),
}


def _amounts(parts: Sequence[Growth], wal: Growth | Unknown) -> dict[str, float]:
    """Return what was counted since the resets, each database's and the WAL's own: no rate over the longest of them."""
    sums = {rate: [total(parts, name) for name in names] for rate, names in _COUNTED.items()}
    found = {
        rate: sum(one for one in counted if not isinstance(one, Unknown))
        for rate, counted in sums.items()
        if not any(isinstance(one, Unknown) for one in counted)
    }
    written = wal if isinstance(wal, Unknown) else wal.of("bytes")
    return found if isinstance(written, Unknown) else {**found, "wal_bytes_s": written}


def wal_growth(first: Snapshot | None, last: Snapshot) -> Growth | Unknown:
    """Return the growth of pg_stat_wal (14+); 13 has the position in the WAL, which needs two snapshots."""
    if last.get("version_num", 0) < 140_000 and first is None:
        return Unknown("13 has no pg_stat_wal; two readings of the WAL position are needed")
    return row_growth("wal", "wal_reset", first, last)


def rows_written_rate(parts: list[Growth]) -> float | Unknown:
    """Return rows inserted, updated and deleted per second."""
    rates = [total_rate(parts, name) for name in ("tup_inserted", "tup_updated", "tup_deleted")]
    known = [rate for rate in rates if not isinstance(rate, Unknown)]
    return sum(known) if len(known) == len(rates) else Unknown("the server does not show the counters of its databases")


def share(part: float | Unknown, rest: float | Unknown, nothing: str) -> float | Unknown:
    """Return part / (part + rest); unknown with a reason when both are 0."""
    if isinstance(part, Unknown):
        return part
    if isinstance(rest, Unknown):
        return rest
    return part / (part + rest) if part + rest > 0 else Unknown(f"{nothing} in the window")


def analytic_share(tables: TableGrowths) -> float | Unknown:
    """Return rows read by sequential scans over all rows read from user tables, of the databases that were listed."""
    scanned = indexed = 0.0
    if not tables.listed:
        return Unknown("the tables of no database were listed")
    for database in tables.listed:
        grown = tables.of(database)
        if isinstance(grown, Unknown):
            return grown
        for _, gain in grown:
            scanned += gain.get("seq_rows", 0.0)
            indexed += gain.get("index_rows", 0.0) + gain.get("bitmap_rows", 0.0)
    return share(scanned, indexed, "no row of a user's table was read")


def _counter(growth: Growth | Unknown, name: str) -> int | Unknown:
    return growth if isinstance(growth, Unknown) else _count(growth.of(name))


def _count(value: float | Unknown) -> int | Unknown:
    return value if isinstance(value, Unknown) else round(value)


def _ratio(part: float | Unknown, whole: float | Unknown, what: str) -> float | Unknown:
    if isinstance(part, Unknown):
        return part
    if isinstance(whole, Unknown):
        return whole
    return part / whole if whole > 0 else Unknown(f"there were no {what} in the window")


def _image_share(wal: Growth | Unknown, last: Snapshot) -> float | Unknown:
    """Return the largest part of the WAL that full-page images can be: each holds at most one block."""
    if isinstance(wal, Unknown):
        return wal
    images, volume = wal.of("full_page_images", "13 does not count full-page images"), wal.of("bytes")
    block = float(last["server"][0]["block_size"])
    if isinstance(images, Unknown):
        return images
    if isinstance(volume, Unknown) or volume <= 0:
        return Unknown("no WAL was written in the window")
    return min(1.0, images * block / volume)


def _buffers_backend(checkpointer: Growth | Unknown, first: Snapshot | None, last: Snapshot) -> int | Unknown:
    """Return blocks that sessions wrote or added themselves: pg_stat_bgwriter to 16, pg_stat_io from 17 on."""
    if last.get("version_num", 0) < 170_000:
        return _counter(checkpointer, "buffers_backend")
    rows = io_growth(first, last)
    if isinstance(rows, Unknown):
        return rows
    block = float(last["server"][0]["block_size"])
    volume: float = sum(
        gain.get("write_bytes", 0.0) + gain.get("extend_bytes", 0.0)
        for row, gain in rows
        if row["object"] == "relation" and row["backend_type"] not in _NOT_BACKENDS
    )
    return round(volume / block)


def _evictions(first: Snapshot | None, last: Snapshot, seconds: float) -> float | Unknown:
    rows = io_growth(first, last)
    if isinstance(rows, Unknown):
        return rows
    if first is None:
        since = (last.get("server") or [{}])[0].get("io_reset")
        if since is None:
            return Unknown("the server does not say since when it counts")
        seconds = last["server"][0]["t"] - since
    count = sum(gain.get("evictions", 0.0) for row, gain in rows if row["object"] == "relation")
    return count / seconds if seconds > 0 else Unknown("the window has no length")


def io_growth(first: Snapshot | None, last: Snapshot) -> list[tuple[Any, Any]] | Unknown:
    """Return (row, growth) of each row of pg_stat_io."""
    rows = last.get("io")
    if not rows:
        return _NO_IO if last.get("version_num", 0) < 160_000 else Unknown("pg_stat_io could not be read")
    before = () if first is None else first.get("io", ())
    return keyed_growth(("backend_type", "object", "context"), before, rows, is_complete=True)
