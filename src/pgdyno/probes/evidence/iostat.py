"""The text that iostat -x prints, of any machine and version: columns by name, averaged over its reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown

NOT_PRINTED = Unknown("iostat did not print this column")
_COLUMNS: dict[str, tuple[str, float]] = {
    "r/s": ("reads_s", 1.0),
    "w/s": ("writes_s", 1.0),
    "rkb/s": ("read_kb_s", 1.0),
    "rmb/s": ("read_kb_s", 1024.0),
    "rsec/s": ("read_kb_s", 0.5),
    "kb_read/s": ("read_kb_s", 1.0),
    "wkb/s": ("write_kb_s", 1.0),
    "wmb/s": ("write_kb_s", 1024.0),
    "wsec/s": ("write_kb_s", 0.5),
    "kb_wrtn/s": ("write_kb_s", 1.0),
    "r_await": ("read_await_ms", 1.0),
    "w_await": ("write_await_ms", 1.0),
    "aqu-sz": ("queue", 1.0),
    "avgqu-sz": ("queue", 1.0),
    "rareq-sz": ("read_request_kb", 1.0),
    "wareq-sz": ("write_request_kb", 1.0),
    "svctm": ("service_ms", 1.0),
    "%util": ("util_pct", 1.0),
}
"""Column names of sysstat 9 to 12.6, in small letters, with what they fill and the factor to kB (512-byte sectors)."""
_BEYOND = 1e15
"""No device does so much of anything; sums and squares of more have no end."""
_FIELDS = tuple(field.name for field in fields(DeviceActivity) if field.name != "device")
_READ_WEIGHTED = {"read_await_ms": "reads_s", "read_request_kb": "reads_s"}
_WRITE_WEIGHTED = {"write_await_ms": "writes_s", "write_request_kb": "writes_s"}


def parse_iostat(text: str, *, skips_first: bool | None = None) -> list[tuple[DeviceActivity, ...]]:
    """Return the device rows of each report, in order; a row that was cut leaves its last columns unknown.

    The first of several reports holds averages since boot and is left out (`skips_first` None: when there are more
    and the first is not one of `iostat -y`, which nothing tells; False keeps it).
    """
    reports: list[list[DeviceActivity]] = []
    header: list[str] | None = None
    for raw in text.splitlines():
        words = raw.replace(",", ".").split()
        if words and words[0].rstrip(":").lower() == "device":
            header = [word.lower() for word in words[1:]]
            reports.append([])
        elif not words:
            header = None if reports and reports[-1] else header
        elif header is not None:
            row = _row(words, header)
            if row is not None:
                reports[-1].append(row)
    kept = [tuple(report) for report in reports if report]
    drops = len(kept) > 1 if skips_first is None else skips_first
    return kept[1:] if drops and len(kept) > 1 else kept


def _row(words: Sequence[str], header: Sequence[str]) -> DeviceActivity | None:
    values: dict[str, float | Unknown] = dict.fromkeys(_FIELDS, NOT_PRINTED)
    device, cells = words[0], words[1:]
    if not cells or not _is_number(cells[0]):
        return None
    for name, cell in zip(header, cells, strict=False):
        if name in _COLUMNS and _is_number(cell):
            target, factor = _COLUMNS[name]
            values[target] = float(cell) * factor
    return DeviceActivity(device, **values)


def _is_number(word: str) -> bool:
    try:
        return 0 <= float(word) < _BEYOND and word[0] in "0123456789."
    except ValueError:
        return False


def mean_devices(reports: Iterable[Sequence[DeviceActivity]]) -> tuple[DeviceActivity, ...]:
    """Return one row a device over reports of equal length: times and sizes of requests weighted by requests."""
    rows: dict[str, list[DeviceActivity]] = {}
    for report in reports:
        for row in report:
            rows.setdefault(row.device, []).append(row)
    return tuple(_mean(name, each) for name, each in rows.items())


def _mean(device: str, rows: Sequence[DeviceActivity]) -> DeviceActivity:
    if len(rows) == 1:
        return rows[0]
    values: dict[str, float | Unknown] = {}
    for name in _FIELDS:
        weight = _READ_WEIGHTED.get(name) or _WRITE_WEIGHTED.get(name)
        values[name] = _weighted(rows, name, weight)
    return DeviceActivity(device, **values)


def _weighted(rows: Sequence[DeviceActivity], name: str, weight: str | None) -> float | Unknown:
    summed = weights = 0.0
    for row in rows:
        value = getattr(row, name)
        by = 1.0 if weight is None else getattr(row, weight)
        if isinstance(value, Unknown) or isinstance(by, Unknown):
            return NOT_PRINTED
        summed, weights = summed + value * by, weights + by
    return summed / weights if weights else 0.0


@dataclass(frozen=True, slots=True)
class DeviceTotals:
    """Sums over devices; waits are means over requests, so that a busy device weighs more than an idle one."""

    requests_s: float
    kb_s: float
    read_await_ms: float | Unknown
    write_await_ms: float | Unknown
    queue: float | Unknown


@dataclass(frozen=True, slots=True)
class IostatComparison:
    """Two reports; `shares` is each device's part of the kB/s afterwards."""

    before: DeviceTotals
    after: DeviceTotals
    shares: dict[str, float]


def compare(before: Sequence[DeviceActivity], after: Sequence[DeviceActivity]) -> IostatComparison:
    """Compare the sums of two sets of devices, such as one volume before and two after a table has moved."""
    was, now = totals(before), totals(after)
    shares = {row.device: _sum(row.read_kb_s, row.write_kb_s) / now.kb_s for row in after} if now.kb_s else {}
    return IostatComparison(was, now, shares)


def totals(rows: Sequence[DeviceActivity]) -> DeviceTotals:
    """Return the sums over devices. An unknown rate counts as none."""
    return DeviceTotals(
        requests_s=sum(_sum(row.reads_s, row.writes_s) for row in rows),
        kb_s=sum(_sum(row.read_kb_s, row.write_kb_s) for row in rows),
        read_await_ms=_weighted(rows, "read_await_ms", "reads_s") if rows else NOT_PRINTED,
        write_await_ms=_weighted(rows, "write_await_ms", "writes_s") if rows else NOT_PRINTED,
        queue=_total([row.queue for row in rows]),
    )


def _sum(*values: float | Unknown) -> float:
    return sum(value for value in values if not isinstance(value, Unknown))


def _total(values: Sequence[float | Unknown]) -> float | Unknown:
    known = [value for value in values if not isinstance(value, Unknown)]
    return sum(known) if len(known) == len(values) and known else NOT_PRINTED
