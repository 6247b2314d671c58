"""/proc/diskstats: the columns of `iostat -x` for each whole device (Documentation/admin-guide/iostats.rst)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pgdyno.model.samples import SampleValue

_SECTOR_KB = 0.5  # /proc/diskstats counts sectors of 512 bytes, whatever the device's own size is


@dataclass(frozen=True, slots=True)
class Requests:
    """Cumulative requests of one kind: completed, merged, kB and milliseconds, queue included."""

    done: int
    merged: int
    kb: float
    ms: int


@dataclass(frozen=True, slots=True)
class Disk:
    """The counters of one device since boot. `discards` is None before Linux 4.18, `flushes` before 5.5."""

    reads: Requests
    writes: Requests
    discards: Requests | None
    flushes: Requests | None
    busy_ms: int
    weighted_ms: int


def parse(text: str, whole: Collection[str] | None = None) -> dict[str, Disk]:
    """Parse /proc/diskstats into the devices that did anything since boot.

    `whole` holds the names of whole devices, as /sys/block lists them, so that partitions are not counted twice;
    None keeps every line.
    """
    disks = {}
    for line in text.splitlines():
        _, _, name, *fields = line.split()
        counts = [int(field) for field in fields]
        if any(counts) and (whole is None or name.replace("/", "!") in whole):
            disks[name] = _disk(counts)
    return disks


def _disk(counts: list[int]) -> Disk:
    return Disk(
        reads=_requests(counts[0:4]),
        writes=_requests(counts[4:8]),
        discards=_requests(counts[11:15]) if len(counts) >= 15 else None,
        flushes=Requests(counts[15], 0, 0.0, counts[16]) if len(counts) >= 17 else None,
        busy_ms=counts[9],
        weighted_ms=counts[10],
    )


def _requests(counts: list[int]) -> Requests:
    done, merged, sectors, ms = counts
    return Requests(done, merged, sectors * _SECTOR_KB, ms)


def rows(before: Mapping[str, Disk], after: Mapping[str, Disk], interval_s: float) -> list[tuple[SampleValue, ...]]:
    """Return the values of table `disk`, one row for each device that is in both readings."""
    return [_row(name, before[name], disk, interval_s) for name, disk in after.items() if name in before]


def _row(name: str, before: Disk, after: Disk, interval_s: float) -> tuple[SampleValue, ...]:
    reads = _rates(before.reads, after.reads, interval_s)
    writes = _rates(before.writes, after.writes, interval_s)
    discards = _rates(before.discards, after.discards, interval_s)
    flushes = _rates(before.flushes, after.flushes, interval_s)
    return (
        name,
        interval_s,
        *reads,
        *writes,
        discards[0],
        discards[1],
        discards[3],
        flushes[0],
        flushes[3],
        (after.weighted_ms - before.weighted_ms) / (interval_s * 1e3),
        min(100.0, (after.busy_ms - before.busy_ms) / (interval_s * 10)),
    )


def _rates(before: Requests | None, after: Requests | None, interval_s: float) -> tuple[float | None, ...]:
    """Return requests/s, kB/s, merged/s, ms per request, kB per request."""
    if before is None or after is None:
        return (None,) * 5
    done, kb = after.done - before.done, after.kb - before.kb
    each_ms = (after.ms - before.ms) / done if done else None
    merged = (after.merged - before.merged) / interval_s
    return (done / interval_s, kb / interval_s, merged, each_ms, kb / done if done else None)
