"""One reading of the host at one moment, and the rows that two of them make."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pgdyno.linux.host_texts import FILES, SPEEDS, HostTexts, read_texts
from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.linux.small_files import read_small
from pgdyno.model.samples import SampleRow
from pgdyno.probes.host import cpu, disk, memory, net, pressure

T = TypeVar("T")

PROC = Path("/proc")
SYS = Path("/sys")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class HostCounters:
    """Every counter of the host at `t`. A part is None when it could not be read; `failures` says why, by table."""

    t: float
    shares: cpu.CpuShares
    cpu: cpu.CpuTimes | None
    meminfo: dict[str, int] | None
    vmstat: dict[str, int] | None
    pressure: dict[tuple[str, str], int] | None
    disks: dict[str, disk.Disk] | None
    interfaces: dict[str, net.Interface] | None
    failures: dict[str, str]
    page_size: int = PAGE_SIZE
    speeds: dict[str, float] = field(default_factory=dict)
    """Mbit/s of the interfaces that tell it."""


def read_host(
    t: float, shares: cpu.CpuShares, *, proc: Path = PROC, sys: Path = SYS, read: Callable[[str], str] = read_small
) -> HostCounters:
    """Read this machine now. What cannot be read is named in `failures` and costs only itself.

    `t` is now, in seconds since the epoch, and `shares` says whose CPU time it was up to now. `proc` and `sys` are
    where /proc and /sys are; `read` returns the text of a file by its path, and raises OSError where it cannot be read.
    """
    return parse_host(t, shares, read_texts(proc, sys, read))


def parse_host(t: float, shares: cpu.CpuShares, host: HostTexts) -> HostCounters:
    """Make a reading of what a host said at `t`; errors as `read_host`."""
    failures: dict[str, str] = {}

    def attempt(table: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (OSError, ValueError, KeyError, IndexError, ArithmeticError) as error:
            failures[table] = str(error) or type(error).__name__
            return None

    return HostCounters(
        t=t,
        shares=shares,
        cpu=attempt("cpu", lambda: cpu.parse(host.text("stat"), host.ticks_per_s)),
        meminfo=attempt("memory", lambda: parse_meminfo(host.text("meminfo"))),
        vmstat=attempt("memory", lambda: memory.parse_vmstat(host.text("vmstat"))),
        pressure=attempt("pressure", lambda: _parse_pressure(host)),
        disks=attempt("disk", lambda: disk.parse(host.text("diskstats"), host.devices)),
        interfaces=attempt("net", lambda: net.parse(host.text("net/dev"))),
        failures=failures,
        page_size=host.page_size,
        speeds=attempt("net", lambda: net.parse_speeds(host.texts.get(SPEEDS, ""))) or {},
    )


def unread_host(t: float, reason: str) -> HostCounters:
    """Return the reading of a host that could not be reached at `t`: every table is missing, for this reason."""
    return parse_host(t, cpu.CpuShares(None, 0.0, 0.0), HostTexts({}, dict.fromkeys(FILES, reason), None, 1, 1))


def rows(before: HostCounters | None, after: HostCounters) -> list[SampleRow]:
    """Return the rows of all host tables for the time between two readings; only gauges when there is no first one."""
    interval_s = None if before is None else after.t - before.t
    found: list[SampleRow] = []
    if after.meminfo is not None:
        was = None if before is None else before.vmstat
        values = memory.row(after.meminfo, was, after.vmstat or {}, interval_s, after.page_size)
        found.append(SampleRow("memory", after.t, values))
    if before is None or interval_s is None or interval_s <= 0:
        return found
    if before.cpu is not None and after.cpu is not None:
        values = cpu.row(before.cpu, after.cpu, before.shares, after.shares, interval_s)
        found.append(SampleRow("cpu", after.t, values))
    if before.pressure is not None and after.pressure is not None:
        found.append(SampleRow("pressure", after.t, pressure.row(before.pressure, after.pressure, interval_s)))
    if before.disks is not None and after.disks is not None:
        found += [SampleRow("disk", after.t, values) for values in disk.rows(before.disks, after.disks, interval_s)]
    if before.interfaces is not None and after.interfaces is not None:
        each = net.rows(before.interfaces, after.interfaces, interval_s)
        found += [SampleRow("net", after.t, values) for values in each]
    return found


def _parse_pressure(host: HostTexts) -> dict[tuple[str, str], int]:
    stalls: dict[tuple[str, str], int] = {}
    for resource in pressure.RESOURCES:
        stalls |= pressure.parse(resource, host.text(f"pressure/{resource}"))
    return stalls
