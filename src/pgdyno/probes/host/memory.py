"""/proc/meminfo and /proc/vmstat: memory, swap, major faults, processes killed for lack of memory (proc(5))."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.samples import SampleValue

_GAUGES = (
    "MemTotal",
    "MemAvailable",
    "MemFree",
    "Cached",
    "Buffers",
    "AnonPages",
    "Shmem",
    "PageTables",
    "Dirty",
    "Writeback",
    "HugePages_Total",
    "HugePages_Free",
)
_COUNTERS = ("pswpin", "pswpout", "pgmajfault", "oom_kill")


def parse_vmstat(text: str) -> dict[str, int]:
    """Parse the counters of /proc/vmstat that we keep; those that the kernel lacks are missing (oom_kill: 4.13)."""
    # Of its 200 lines four are searched for: three times a second all of them would be a part of what we cost.
    found = ((name, f"\n{text}".partition(f"\n{name} ")[2].partition("\n")[0]) for name in _COUNTERS)
    return {name: int(value) for name, value in found if value}


def row(
    meminfo: Mapping[str, int],
    before: Mapping[str, int] | None,
    after: Mapping[str, int],
    interval_s: float | None,
    page_size: int,
) -> tuple[SampleValue, ...]:
    """Return the values of table `memory`; `before` and `after` are vmstat, `before` None for the first row.

    `meminfo` has the sizes of now in bytes, and the numbers of huge pages, by the kernel's names. `interval_s` are the
    seconds since `before`, None for the first row; `page_size` is the host's, in bytes.
    """
    gains = [_gain(name, before, after) for name in _COUNTERS]
    swap_in, swap_out, faults, kills = gains
    return (
        interval_s,
        *(meminfo.get(name) for name in _GAUGES),
        meminfo["SwapTotal"] - meminfo["SwapFree"] if {"SwapTotal", "SwapFree"} <= meminfo.keys() else None,
        None if swap_in is None else swap_in * page_size,
        None if swap_out is None else swap_out * page_size,
        faults,
        kills,
    )


def _gain(name: str, before: Mapping[str, int] | None, after: Mapping[str, int]) -> int | None:
    if before is None or name not in before or name not in after:
        return None
    return after[name] - before[name]
