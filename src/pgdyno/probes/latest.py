"""The newest rows as the few short texts that a progress line has room for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.units import bytes_text

_PERCENT = (("server", "server_cpu_pct"), ("driver", "driver_cpu_pct"), ("foreign", "foreign_cpu_pct"))


def number(row: SampleRow, column: str) -> float | None:
    """Return one value of a row as a number, None when it is NULL or text."""
    value = row.values[TABLES[row.table].column_names().index(column) - 1]
    return float(value) if isinstance(value, int | float) else None


def latest_text(rows: Sequence[SampleRow]) -> Mapping[str, str]:
    """Return names and values for people; what is not known is left out. CPU is in percent of one core."""
    first = {row.table: row for row in reversed(rows)}
    found: dict[str, str] = {}
    if "cpu" in first:
        for name, column in _PERCENT:
            percent = number(first["cpu"], column)
            if percent is not None:
                found[name] = f"{percent:.0f}%"
        steal = number(first["cpu"], "steal_pct")
        if steal:
            found["steal"] = f"{steal:.0f}%"
    if "sessions" in first:
        active, waiting = number(first["sessions"], "active"), number(first["sessions"], "waiting")
        found["active"] = f"{active:.0f}" if not waiting else f"{active:.0f} ({waiting:.0f} waiting)"
    if "wal" in first:
        wal, interval_s = number(first["wal"], "bytes"), number(first["wal"], "interval_s")
        if wal is not None and interval_s:
            found["wal"] = f"{bytes_text(wal / interval_s)}/s"
    return found
