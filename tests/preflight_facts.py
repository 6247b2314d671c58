"""Facts for the pure checks of the preflight: a plan and a host, of which a test changes what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import HugePool, ProcessLimits, SharedSegment, StartHost
from pgdyno.server.snapshot import SettingState

MB, GB = 1 << 20, 1 << 30
UNKNOWN = Unknown("nobody knows")
_UNITS = {
    "shared_buffers": "8kB",
    "huge_page_size": "kB",
    "max_wal_size": "MB",
    "min_wal_size": "MB",
    "wal_keep_size": "MB",
}
_VALUES = {
    "archive_mode": "off",
    "autovacuum_worker_slots": "16",
    "huge_page_size": "0",
    "huge_pages": "try",
    "io_method": "worker",
    "max_connections": "100",
    "max_files_per_process": "1000",
    "max_wal_senders": "10",
    "max_wal_size": "1024",
    "max_worker_processes": "8",
    "min_wal_size": "80",
    "reserved_connections": "0",
    "server_version_num": "180004",
    "shared_buffers": "16384",
    "shared_memory_type": "mmap",
    "superuser_reserved_connections": "3",
    "wal_keep_size": "0",
    "wal_level": "replica",
}


def plan(asked: Mapping[str, str] | None = None, *, restart: bool = True, **now: str | None) -> StartPlan:
    """A plan on a server with these settings; None takes one away."""
    values = {name: value for name, value in {**_VALUES, **now}.items() if value is not None}
    return StartPlan(Configuration.of(asked or {}), {n: state(n, v) for n, v in values.items()}, {}, restart)


def state(name: str, value: str, source: str = "default") -> SettingState:
    kind = "integer" if value.isdigit() else "enum"
    return SettingState(name, value, value, _UNITS.get(name), kind, "postmaster", "x", source, None, None, False)


def host(**changes: object) -> StartHost:
    """A host of 16 GB with an empty pool of huge pages of 2 MB."""
    plain = StartHost(
        memory={"MemTotal": 16 * GB, "MemAvailable": 12 * GB, "Hugepagesize": 2 * MB},
        memory_limit=16 * GB,
        pools={2 * MB: pool()},
        segment=SharedSegment(150 * MB, None),
        limits=ProcessLimits(1024, None, None, "the running server"),
        sysctl={"vm/overcommit_memory": "0", "kernel/pid_max": "32768", "kernel/osrelease": "6.1.0-1-amd64"},
        pids_limit=None,
        semaphore_sets=0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the fields are named by the tests


def pool(total: int = 0, free: int | None = None, reserved: int = 0, **changes: int) -> HugePool:
    """A pool of pages of 2 MB."""
    kept = HugePool(2 * MB, total, total if free is None else free, reserved, surplus=0, overcommit=0)
    return replace(kept, **changes)
