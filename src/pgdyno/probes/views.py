"""Which SQL reads which statistics view on which PostgreSQL, and the rows that two readings of a view make.

The files are `postgres/<view>.<oldest server_version_num>.sql`: the newest that the server is not too old for is
used, so that support for a new version is a new file. A column has the name of the sample table's column that it
fills; one that a version lacks is absent, and its column holds NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue

ViewRow = Mapping[str, SampleValue]
"""One row of a view: cumulative counters, gauges and keys under the names of the sample table's columns."""

VIEWS = ("server", "database", "checkpointer", "wal", "io", "locks", "activity", "replication", "statements")
_NUMBERS = (int, float)
_GAUGES = frozenset({"backends", "query"})
"""Columns of counter tables that are not counters."""
_COUNTER_VIEWS = ("database", "checkpointer", "wal", "io")
_GAUGE_VIEWS = ("locks", "replication")


@dataclass(frozen=True, slots=True)
class ViewsReading:
    """The views at `t`, by name. A view that failed is missing and `failures` says why; no views at all: no session."""

    t: float
    views: Mapping[str, Sequence[ViewRow]]
    failures: Mapping[str, str]

    def value(self, view: str, column: str) -> float | int | None:
        """Return a number of the first row of a view, None when there is none."""
        rows = self.views.get(view)
        value = rows[0].get(column) if rows else None
        return value if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class ViewFile:
    """One SQL file: the view, the oldest `server_version_num` it is for, and its text."""

    view: str
    min_version_num: int
    sql: str


def load_views() -> list[ViewFile]:
    """Return all SQL files of the package."""
    found = []
    for entry in files("pgdyno.probes").joinpath("postgres").iterdir():
        if entry.name.endswith(".sql"):
            view, version, _ = entry.name.split(".")
            found.append(ViewFile(view, int(version), entry.read_text()))
    return found


def queries_for(version_num: int, available: Iterable[ViewFile]) -> dict[str, str]:
    """Return the SQL of each view that this server has; a view that is too new for it is missing."""
    chosen: dict[str, ViewFile] = {}
    for file in sorted(available, key=lambda file: file.min_version_num):
        if file.min_version_num <= version_num:
            chosen[file.view] = file
    return {view: file.sql for view, file in chosen.items()}


def server_rows(before: ViewsReading | None, after: ViewsReading) -> list[SampleRow]:
    """Return the rows of `after`; tables of counters have none when there is no earlier reading of the view."""
    found: list[SampleRow] = []
    for view in _GAUGE_VIEWS:
        found += gauge_rows(view, after.t, after.views.get(view, ()))
    if "activity" in after.views:
        found += session_rows(after.t, after.views["activity"])
    for view in _COUNTER_VIEWS:
        found += _deltas(view, before, after)
    return found


def statement_rows(before: ViewsReading, after: ViewsReading) -> list[SampleRow]:
    """Return the statements that ran between two readings of `statements`, those that took longest first."""
    return top_statements(_deltas("statements", before, after))


def _deltas(view: str, before: ViewsReading | None, after: ViewsReading) -> list[SampleRow]:
    if before is None or view not in before.views or view not in after.views or after.t <= before.t:
        return []
    return delta_rows(view, after.t, after.t - before.t, before.views[view], after.views[view])


def gauge_rows(table: str, t: float, rows: Iterable[ViewRow]) -> list[SampleRow]:
    """Return the rows of a table that holds gauges only."""
    names = TABLES[table].column_names()[1:]
    return [SampleRow(table, t, tuple(row.get(name) for name in names)) for row in rows]


def delta_rows(
    table: str, t: float, interval_s: float, before: Sequence[ViewRow], after: Sequence[ViewRow]
) -> list[SampleRow]:
    """Return the rows of a table of counters for the time between two readings of its view.

    `table` is the name of a sample table. `after` are the rows of the view at `t`, in seconds since the epoch, and
    `before` those of `interval_s` seconds earlier. Rows of the two readings are matched by the table's key columns; one
    that is new counts from 0. Nothing is returned when a counter went down, because it was reset in between, nor for a
    keyed row that did nothing.
    """
    columns = TABLES[table].columns
    keys = [column.name for column in columns if column.key]
    counters = [c.name for c in columns if not c.key and c.name != "interval_s" and c.name not in _GAUGES]
    earlier = {tuple(row.get(key) for key in keys): row for row in before}
    if not keys and not earlier:
        return []
    found = []
    for row in after:
        was = earlier.get(tuple(row.get(key) for key in keys), {})
        if keys and was == row:
            continue
        gains = {name: _gain(was.get(name), row.get(name)) for name in counters}
        if any(gain < 0 for gain in gains.values() if gain is not None):
            return []
        if keys and not any(gains.values()):
            continue
        values = {**row, **gains, "interval_s": interval_s}
        found.append(SampleRow(table, t, tuple(values.get(column.name) for column in columns)))
    return found


def was_reset(table: str, before: Sequence[ViewRow], after: Sequence[ViewRow]) -> bool:
    """Tell whether a counter of an unkeyed view went down between two readings."""
    names = [column.name for column in TABLES[table].columns if column.name not in _GAUGES]
    for was, now in zip(before, after, strict=False):
        if was == now:
            continue  # as most rows of pg_stat_io, each second
        for name in names:
            old, new = _number(was.get(name)), _number(now.get(name))
            if old is not None and new is not None and new < old:
                return True
    return False


def session_rows(t: float, activity: Iterable[ViewRow]) -> list[SampleRow]:
    """Return the row of table `sessions` and the rows of table `waits` that one reading of `activity` makes."""
    counts = dict.fromkeys(TABLES["sessions"].column_names()[1:], 0)
    waits: dict[tuple[str, str], int] = {}
    for row in activity:
        sessions = cast(int, row["sessions"])
        if row["backend_type"] == "other client":
            counts["foreign_busy"] += sessions
            continue
        if row["backend_type"] != "client backend":
            counts["autovacuum_workers"] += sessions
            continue
        counts["total"] += sessions
        state, event_type = str(row["state"]), row["wait_event_type"]
        if state == "active":
            counts["active"] += sessions
            counts["waiting"] += sessions if event_type is not None else 0
            wait = (str(event_type), str(row["wait_event"])) if event_type is not None else ("CPU", "CPU")
            waits[wait] = waits.get(wait, 0) + sessions
        elif state == "idle":
            counts["idle"] += sessions
        elif state.startswith("idle in transaction"):
            counts["idle_in_transaction"] += sessions
    found = [SampleRow("sessions", t, tuple(counts.values()))]
    return found + [SampleRow("waits", t, (*wait, sessions)) for wait, sessions in sorted(waits.items())]


def top_statements(rows: Sequence[SampleRow], limit: int = 30) -> list[SampleRow]:
    """Keep the statements that took longest and add up all others in a row with queryid 0."""
    names = TABLES["statements"].column_names()[1:]
    time = names.index("total_exec_time_ms")
    ordered = sorted(rows, key=lambda row: -(_number(row.values[time]) or 0))
    top, others = ordered[:limit], ordered[limit:]
    if not others:
        return top
    first = names.index("calls")
    sums = [sum(_number(row.values[index]) or 0 for row in others) for index in range(first, len(names))]
    head: tuple[SampleValue, ...] = ("0", f"{len(others)} other statements", others[0].values[2])
    return [*top, SampleRow("statements", others[0].t, (*head, *sums))]


def _number(value: SampleValue) -> float | int | None:
    return value if isinstance(value, _NUMBERS) else None


def _gain(before: SampleValue, after: SampleValue) -> float | int | None:
    now = _number(after)
    return None if now is None else now - (_number(before) or 0)
