"""The newest rows as the few figures that a progress line and a dashboard have room for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pgdyno.model.live import LivePoint
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.units import bytes_text

_PERCENT = (("server", "server_cpu_pct"), ("driver", "driver_cpu_pct"), ("foreign", "foreign_cpu_pct"))


_BUSY = ("usr_pct", "sys_pct", "irq_pct")


def number(row: SampleRow, column: str) -> float | None:
    """Return one value of a row as a number, None when it is NULL or text."""
    value = row.values[_place(row.table, column)]
    return float(value) if isinstance(value, int | float) else None


@lru_cache(maxsize=64)
def _place(table: str, column: str) -> int:
    return TABLES[table].column_names().index(column) - 1


def latest_text(rows: Sequence[SampleRow]) -> Mapping[str, str]:
    """Return names and values for people; what is not known is left out. CPU is in percent of one core."""
    first = {row.table: row for row in reversed(rows)}
    found: dict[str, str] = {}
    if "cpu" in first:
        for name, column in _PERCENT:
            percent = number(first["cpu"], column)
            if percent is not None:
                found[name] = f"{percent:.0f} %"
        steal = number(first["cpu"], "steal_pct")
        if steal:
            found["steal"] = f"{steal:.0f} %"
    if "sessions" in first:
        active, waiting = number(first["sessions"], "active"), number(first["sessions"], "waiting")
        found["active"] = f"{active:.0f}" if not waiting else f"{active:.0f} ({waiting:.0f} waiting)"
    if "wal" in first:
        wal, interval_s = number(first["wal"], "bytes"), number(first["wal"], "interval_s")
        if wal is not None and interval_s:
            found["wal"] = f"{bytes_text(wal / interval_s)}/s"
    return found


def latest_point(rows: Sequence[SampleRow], t: float) -> LivePoint:
    """Return the host's and the server's figures for a dashboard; a load's are for who drives it.

    Of several disks the one with the most requests is shown: a sum would count a logical volume and its disks twice.
    """
    first = {row.table: row for row in reversed(rows)}
    return LivePoint(
        t,
        cpu_pct=_sum(first.get("cpu"), _BUSY),
        memory_pct=_memory_pct(first.get("memory")),
        active=number(first["sessions"], "active") if "sessions" in first else None,
        **_busiest_disk([row for row in rows if row.table == "disk"]),
    )


def _memory_pct(row: SampleRow | None) -> float | None:
    if row is None:
        return None
    total, available = number(row, "total_bytes"), number(row, "available_bytes")
    return 100 * (1 - available / total) if total and available is not None else None


def _busiest_disk(rows: Sequence[SampleRow]) -> dict[str, float]:
    found = []
    for row in rows:
        requests, kilobytes = _sum(row, ("r_per_s", "w_per_s")), _sum(row, ("rkb_per_s", "wkb_per_s"))
        if requests is not None and kilobytes is not None:
            found.append((requests, kilobytes * 1024 / 1e6))
    return dict(zip(("iops", "disk_mb_per_s"), max(found), strict=True)) if found else {}


def _sum(row: SampleRow | None, columns: Sequence[str]) -> float | None:
    """Return the sum of the columns, None where one of them is not known."""
    values = [] if row is None else [number(row, column) for column in columns]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
