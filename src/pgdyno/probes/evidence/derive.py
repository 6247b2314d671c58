"""An observation and the files beside it as `Evidence`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.classes import Utilization
from pgdyno.model.evidence import (
    Concurrency,
    DeviceActivity,
    Evidence,
    HostActivity,
    LogEvidence,
    Settled,
    Statement,
    Statistics,
    TableActivity,
    TinyRequests,
    WorkingSet,
)
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory, Purpose
from pgdyno.probes.counter_scope import devices_hold
from pgdyno.probes.evidence.bottleneck import bottleneck
from pgdyno.probes.evidence.concurrency import concurrency, knee
from pgdyno.probes.evidence.counters import database_growth, window_of
from pgdyno.probes.evidence.host_activity import UPPER, device_activity, host_activity
from pgdyno.probes.evidence.iostat import mean_devices, parse_iostat
from pgdyno.probes.evidence.log_lines import seconds_of
from pgdyno.probes.evidence.observation import Observation
from pgdyno.probes.evidence.own_work import OwnWork, without_own
from pgdyno.probes.evidence.sadf import parse_sadf
from pgdyno.probes.evidence.snapshot import Snapshot
from pgdyno.probes.evidence.statistics import TableGrowths, io_growth, statistics
from pgdyno.probes.evidence.tables import statements, tables, tiny_requests
from pgdyno.probes.evidence.wal_rate import wal_rate
from pgdyno.probes.evidence.working_set import WorkingSetSigns, working_set
from pgdyno.probes.evidence.workload_class import classify

T = TypeVar("T")
ONE_LOOK = Unknown("the sessions were looked at once, which is not a window; --window SECONDS watches the load")


@dataclass(frozen=True, slots=True)
class Files:
    """What came as files: the log, read, and the texts of iostat and sadf, None when there is none."""

    log: LogEvidence | Unknown = field(default_factory=lambda: Unknown("no log was read"))
    iostat: str | None = None
    sadf: str | None = None
    wal_device: str | None = None
    matrix: Sequence[tuple[int, float]] = ()
    """Numbers of clients with their throughput, as measured on this target."""


def derive(seen: Observation, inventory: Inventory, files: Files, work: OwnWork | None = None) -> Evidence:
    """Make evidence. A snapshot of a capture that is damaged leaves what rests on it unknown.

    `seen` are the readings of the server and host that `inventory` describes; the texts of sadf and iostat in `files`
    come before what was read of the host. `work` are the studies of ours that ran there, None for none; our databases
    are left out in any case.
    """
    seen = _without_own(seen)
    last = seen.last
    if not isinstance(last, Unknown):
        newest = last
        window = _whole(lambda: window_of(seen.first, newest))
        last = window if isinstance(window, Unknown) else last
    if isinstance(last, Unknown):
        numbers: Statistics | Unknown = last
        found_tables: tuple[TableActivity, ...] | Unknown = last
        found_statements: tuple[Statement, ...] | Unknown = last
        tiny: TinyRequests | Unknown = last
    else:
        grown = TableGrowths(seen.first, last)
        numbers = (work or OwnWork()).left_out(_whole(lambda: statistics(seen.first, last, grown)))
        found_tables = _whole(lambda: tables(seen.first, last, grown))
        found_statements = _whole(lambda: statements(seen.first, last))
        tiny = _whole(lambda: tiny_requests(seen.first, last))
    host, devices, devices_from = _host(seen, inventory, files)
    rate, rate_source = wal_rate(
        numbers, files.log, devices, inventory, wal_device=files.wal_device, devices_from=devices_from
    )
    sessions = _whole(lambda: concurrency(seen.activity))
    if len(seen.activity) == 1 and not isinstance(sessions, Unknown):
        sessions = replace(sessions, active_mean=ONE_LOOK, active_max=ONE_LOOK, lock_waiters_mean=ONE_LOOK, waits={})
    if files.matrix and not isinstance(sessions, Unknown):
        sessions = replace(sessions, knee_clients=knee(files.matrix))
    kind = numbers if isinstance(numbers, Unknown) else classify(numbers)
    watched = sessions if len(seen.activity) > 1 else ONE_LOOK
    told = _whole(lambda: _start_after_boot(seen))
    start_after_boot = None if isinstance(told, Unknown) else told
    cpus = inventory.host.processor.cpus
    limit = bottleneck(
        host,
        devices,
        watched,
        moments=len(seen.activity),
        cpus=cpus if isinstance(cpus, int) else None,
        own_devices=_devices_have_data(inventory),
    )
    return Evidence(
        log=files.log,
        statistics=numbers,
        host=host,
        devices=devices,
        tables=found_tables,
        statements=found_statements,
        concurrency=sessions,
        working_set=last
        if isinstance(last, Unknown)
        else _whole(lambda: _working_set(seen.first, last, grown, devices, inventory)),
        workload=kind if isinstance(kind, Unknown) else kind[0],
        workload_reason="" if isinstance(kind, Unknown) else kind[1],
        wal_rate_bytes_s=rate,
        wal_rate_source=rate_source,
        settled=_whole(lambda: settled(seen.last, files.log, inventory)),
        kernel_oom_kills=seen.kernel_log
        if isinstance(seen.kernel_log, Unknown)
        else oom_kills(seen.kernel_log, start_after_boot),
        kernel_oom_since="since boot" if start_after_boot is None else "since this server started",
        tiny_requests=tiny,
        bottleneck=limit,
        utilization=utilization(host, limit, watched, inventory),
    )


def _without_own(seen: Observation) -> Observation:
    last = seen.last if isinstance(seen.last, Unknown) else without_own(seen.last)
    return replace(seen, first=None if seen.first is None else without_own(seen.first), last=last)


def _start_after_boot(seen: Observation) -> float | Unknown:
    """Return when the server started, in seconds after the host's boot."""
    if isinstance(seen.last, Unknown) or not seen.host:
        return Unknown("server or host were not read")
    started = (seen.last.get("server") or [{}])[0].get("started_at")
    booted = re.search(r"^btime (\d+)$", seen.host[-1][1].texts.get("stat", ""), re.MULTILINE)
    if not isinstance(started, int | float) or booted is None:
        return Unknown("one of the two times is not told")
    return started - int(booted[1]) - 1  # btime is a whole second


def _whole(make: Callable[[], T | Unknown]) -> T | Unknown:
    try:
        return make()
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Unknown(f"the snapshot cannot be understood: {type(error).__name__} {error}")


def _host(
    seen: Observation, inventory: Inventory, files: Files
) -> tuple[HostActivity | Unknown, tuple[DeviceActivity, ...] | Unknown, str]:
    """Return host and devices: files that somebody named come before our own readings of another moment."""
    readings = seen.readings()
    host: HostActivity | Unknown = host_activity(readings, inventory) if readings else seen.host_missing
    devices: tuple[DeviceActivity, ...] | Unknown = device_activity(readings) if readings else seen.host_missing
    source = "the host's devices over the window"
    if files.sadf is not None:
        parsed = parse_sadf(files.sadf, inventory.host.memory.page_size)
        host, devices = (parsed, parsed) if isinstance(parsed, Unknown) else parsed
        source = "the sadf file"
    if files.iostat is not None:
        devices = mean_devices(parse_iostat(files.iostat)) or Unknown("the file is not what iostat -x prints")
        source = "the iostat file"
    return host, devices, source


def _working_set(
    first: Snapshot | None,
    last: Snapshot,
    grown: TableGrowths,
    devices: Sequence[DeviceActivity] | Unknown,
    inventory: Inventory,
) -> WorkingSet | Unknown:
    server, memory = inventory.server, inventory.host.memory
    if isinstance(server, Unknown):
        return server
    block = int(last["server"][0]["block_size"])
    buffers = server.text("shared_buffers")
    limit = memory.ram_bytes if isinstance(memory.limit_bytes, Unknown) else memory.limit_bytes
    if isinstance(buffers, Unknown) or isinstance(limit, Unknown):
        return Unknown("shared_buffers or the memory of the host is unknown")
    sizes = (
        Unknown("not listed")
        if isinstance(server.databases, Unknown)
        else [database.size_bytes for database in server.databases]
    )
    known = [] if isinstance(sizes, Unknown) else [size for size in sizes if isinstance(size, int)]
    used = (last.get("buffers") or [{}])[0].get("used")
    shared = int(buffers) * block
    signs = WorkingSetSigns(
        shared_buffers=shared,
        memory=limit,
        database_bytes=sum(known) if not isinstance(sizes, Unknown) and known and len(known) == len(sizes) else None,
        block_size=block,
        buffers_used_bytes=None if used is None else int(used) * block,
        cache_was_filled=sum(row["blks_read"] for row in last["databases"]) * block >= shared,
    )
    if first is None:
        return working_set(signs)
    return working_set(_with_window(signs, first, last, grown, devices, inventory))


def _with_window(
    signs: WorkingSetSigns,
    first: Snapshot,
    last: Snapshot,
    tables_grown: TableGrowths,
    devices: Sequence[DeviceActivity] | Unknown,
    inventory: Inventory,
) -> WorkingSetSigns:
    grown = database_growth(first, last)
    if isinstance(grown, Unknown) or not grown:
        return signs
    seconds = grown[0][1].seconds
    asked = {name: growth.values["blks_hit"] + growth.values["blks_read"] for name, growth in grown}
    io = io_growth(first, last)
    return replace(
        signs,
        touched_bytes=_touched(tables_grown, asked),
        blocks_hit=sum(growth.values["blks_hit"] for _, growth in grown),
        blocks_read=sum(growth.values["blks_read"] for _, growth in grown),
        device_read_bytes=_read_bytes(devices, inventory, seconds),
        evictions=None if isinstance(io, Unknown) else sum(gain.get("evictions", 0.0) for _, gain in io),
    )


def _touched(tables_grown: TableGrowths, asked: dict[str, float]) -> int | None:
    """Return the size of what was touched; None when databases whose tables were not listed did a part of it."""
    listed = tables_grown.listed
    elsewhere = sum(blocks for name, blocks in asked.items() if name not in listed and name)
    if not listed or elsewhere > 0.01 * sum(asked.values()):
        return None
    size = 0
    for database in listed:
        grown = tables_grown.of(database)
        if isinstance(grown, Unknown):
            return None
        size += sum(int(row["bytes"] + row["index_bytes"]) for row, gain in grown if gain["fetched"] > 0)
    return size or None


def _read_bytes(devices: Sequence[DeviceActivity] | Unknown, inventory: Inventory, seconds: float) -> float | None:
    """Return bytes read in the window from the disks below the data, else from all disks; None when they hold none."""
    if isinstance(devices, Unknown):
        return None
    if not _devices_have_data(inventory):
        return None
    place = inventory.host.place(Purpose.DATA)
    below = frozenset[str]() if place is None or isinstance(place.disks, Unknown) else place.disks
    rows = [row for row in devices if row.device in below]
    rows = rows or [row for row in devices if not row.device.startswith(UPPER)]
    rates = [row.read_kb_s for row in rows]
    known = [rate for rate in rates if not isinstance(rate, Unknown)]
    return sum(known) * 1024 * seconds if known and len(known) == len(rates) else None


def _devices_have_data(inventory: Inventory) -> bool:
    place = inventory.host.place(Purpose.DATA)
    point = None if place is None or isinstance(place.mount_point, Unknown) else place.mount_point
    mount = None if point is None else inventory.host.mount(point)
    return devices_hold(None if mount is None else mount.filesystem, own_host=True)


_KILLED = re.compile(
    r"(?:^\[ *(?P<at>\d+\.\d+)\][^\n]*?)?"
    r"(?:Memory cgroup out of memory|[Oo]ut of memory)(?: \([^)]*\))?:? Killed process \d+ \((?P<name>.*?)\)",
    re.MULTILINE,
)
_OURS = ("postgres", "postmaster", "edb-postgres", "edb-postmaster")


def oom_kills(text: str, since: float | None = None) -> int:
    """Return how many processes of PostgreSQL the log says were killed; kernels up to 5.x and later word it alike.

    `since`, in seconds after boot, leaves out what was before; lines without a time count.
    """
    found = [match for match in _KILLED.finditer(text) if match["name"] in _OURS]
    return sum(since is None or match["at"] is None or float(match["at"]) >= since for match in found)


BUSY_PCT = 50.0
"""CPU busy from here on is high utilization: a second load of the same size would not fit."""


def utilization(
    host: HostActivity | Unknown,
    found: BottleneckVerdict | Unknown,
    sessions: Concurrency | Unknown,
    inventory: Inventory,
) -> Utilization | Unknown:
    """Return high when something was the bottleneck, half of the CPU was busy, or sessions used half of the CPUs.

    `host` and `sessions` are means over a window, `found` is the bottleneck in it, and `inventory` tells the number of
    CPUs. Unknown where neither the host nor the sessions tell anything, and nothing was found to be the bottleneck.
    """
    if not isinstance(found, Unknown) and found.resource is not Resource.NONE:
        return Utilization.HIGH
    signs = []
    if not isinstance(host, Unknown) and not isinstance(host.idle_pct, Unknown):
        iowait = 0.0 if isinstance(host.iowait_pct, Unknown) else host.iowait_pct
        signs.append(100.0 - host.idle_pct - iowait >= BUSY_PCT)
    cpus = inventory.host.processor.cpus
    if not isinstance(sessions, Unknown) and not isinstance(sessions.active_mean, Unknown) and isinstance(cpus, int):
        signs.append(sessions.active_mean >= cpus / 2)
    if not signs:
        return Unknown("neither the host nor the sessions were watched over a window")
    return Utilization.HIGH if any(signs) else Utilization.LOW


def settled(last: Snapshot | Unknown, log: LogEvidence | Unknown, inventory: Inventory) -> Settled | Unknown:
    """Return when settings last may have changed. The log's times are of log_timezone, all others of the epoch."""
    if isinstance(last, Unknown):
        return last
    row = (last.get("server") or [{}])[0]
    started, loaded = row.get("started_at"), row.get("loaded_at")
    if not isinstance(started, int | float) or not isinstance(loaded, int | float):
        return Unknown("this reading does not tell when the server last read its configuration")
    zone = _zone(inventory)
    if isinstance(log, Unknown) or zone is None:
        return Settled(started, loaded)
    began = _epoch(log.began, zone)
    changed = {name: at for name, text in log.changed.items() if (at := _epoch(text, zone)) is not None}
    if began is None or len(changed) < len(log.changed):
        return Settled(started, loaded)
    return Settled(started, loaded, began, changed)


def _zone(inventory: Inventory) -> ZoneInfo | None:
    server = inventory.server
    name = server if isinstance(server, Unknown) else server.text("log_timezone")
    if isinstance(name, Unknown):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _epoch(at: str | Unknown, zone: ZoneInfo) -> float | None:
    seconds = seconds_of(at)
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone).timestamp()
