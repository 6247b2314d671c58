"""The memory that a configuration can demand at worst, against what the host or its cgroup has.

    demand = shared + sessions + workers + autovacuum
    shared     = shared_buffers x 1.025 + wal_buffers + SLRU buffers + min_dynamic_shared_memory
                 + 9 MB + (46 kB + 0.5 kB x io_max_concurrency) x max_connections
    sessions   = connections x (8 MB + temp_buffers + work_mem x hash_mem_multiplier x 2)
    workers    = min(max_parallel_workers, max_worker_processes, connections x max_parallel_workers_per_gather)
                 x (8 MB + work_mem x hash_mem_multiplier x 2)
    autovacuum = autovacuum_max_workers x autovacuum_work_mem, or maintenance_work_mem where that is -1

The shape follows the PostgreSQL documentation, 19.4 Resource Consumption: work_mem counts for each sort or hash of
each process, temp_buffers for each session, autovacuum_work_mem for each worker. The shares of `shared` were measured
by the project with `postgres -C shared_memory_size` on 15 to 18 (128 MB to 64 GB of buffers, 10 to 2000 connections);
io_max_concurrency (18) is 64 by itself, or as many buffers as each process has when those are fewer. Two full nodes
at one time and 8 MB for a process of its own are assumptions, stated here because no tool states its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.knobs.current import effective_bytes, effective_number
from pgdyno.model.facts import Facts
from pgdyno.units import bytes_text, plural

MB = 1 << 20
GB = 1 << 30
NODES = 2
PROCESS_BYTES = 8 * MB
BUFFER_OVERHEAD = 0.025
SHARED_FIXED_BYTES = 9 * MB
SHARED_PER_CONNECTION_BYTES = 46 << 10
IO_HANDLE_BYTES = 512
IO_HANDLES_MOST = 64
_BLOCK_BYTES = 8192
RESERVE_SHARE = 0.1
RESERVE_LEAST_BYTES = 256 * MB
VACUUM_CAP_BYTES = GB
"""Up to 16, the memory of one vacuum ends at 1 GB whatever the setting."""

_AUTOMATIC_SLRU = ("commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers")
_FIXED_SLRU = ("multixact_member_buffers", "multixact_offset_buffers", "notify_buffers", "serializable_buffers")
MEMORY_KNOBS = (
    "shared_buffers",
    "work_mem",
    "hash_mem_multiplier",
    "temp_buffers",
    "maintenance_work_mem",
    "autovacuum_work_mem",
    "autovacuum_max_workers",
    "max_connections",
    "max_parallel_workers",
    "max_parallel_workers_per_gather",
    "max_worker_processes",
    "min_dynamic_shared_memory",
    "wal_buffers",
    *_AUTOMATIC_SLRU,
    *_FIXED_SLRU,
)

AMOUNTS = (
    "shared_buffers",
    "work_mem",
    "temp_buffers",
    "maintenance_work_mem",
    "autovacuum_work_mem",
    "min_dynamic_shared_memory",
    "wal_buffers",
)
"""Those of them that are sizes, and are searched or may be: half of one is half of its memory."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The worst case in bytes, by part, with the counts that made it."""

    shared: float
    sessions: float
    workers: float
    autovacuum: float
    session_count: int
    worker_count: int

    @property
    def total(self) -> float:
        """Return the whole demand in bytes."""
        return self.shared + self.sessions + self.workers + self.autovacuum

    def sentence(self) -> str:
        """Return the parts with their numbers, for people."""
        return (
            f"shared {bytes_text(self.shared)}, {plural(self.session_count, 'session')} {bytes_text(self.sessions)}, "
            f"{self.worker_count} parallel workers {bytes_text(self.workers)}, "
            f"autovacuum {bytes_text(self.autovacuum)}"
        )


def demand(configuration: Mapping[str, str], facts: Facts, *, connections: int) -> Demand:
    """Return the memory that a configuration can demand at worst with so many concurrent sessions."""
    per_process = PROCESS_BYTES + _query_bytes(configuration, facts)
    workers = _worker_count(configuration, facts, connections)
    temp_buffers = effective_bytes("temp_buffers", configuration, facts) or 0.0
    return Demand(
        shared=shared_bytes(configuration, facts),
        sessions=connections * (per_process + temp_buffers),
        workers=workers * per_process,
        autovacuum=_autovacuum_bytes(configuration, facts),
        session_count=connections,
        worker_count=workers,
    )


def reserve_bytes(limit_bytes: float) -> float:
    """Return what is left to the kernel, its page cache and other programs: a tenth, at least 256 MB, at most 1/4."""
    return max(RESERVE_SHARE * limit_bytes, min(RESERVE_LEAST_BYTES, limit_bytes / 4))


def shared_bytes(configuration: Mapping[str, str], facts: Facts) -> float:
    """Return the size of the server's shared memory, close to `shared_memory_size` of 15 and later."""
    buffers = effective_bytes("shared_buffers", configuration, facts) or 0.0
    connections = effective_number("max_connections", configuration, facts) or 0.0
    return (
        buffers * (1 + BUFFER_OVERHEAD)
        + _wal_buffers(buffers, configuration, facts)
        + _slru_bytes(buffers, configuration, facts)
        + (effective_bytes("min_dynamic_shared_memory", configuration, facts) or 0.0)
        + SHARED_FIXED_BYTES
        + (SHARED_PER_CONNECTION_BYTES + IO_HANDLE_BYTES * _io_handles(buffers, configuration, facts)) * connections
    )


def _query_bytes(configuration: Mapping[str, str], facts: Facts) -> float:
    work_mem = effective_bytes("work_mem", configuration, facts) or 0.0
    return work_mem * (effective_number("hash_mem_multiplier", configuration, facts) or 1.0) * NODES


def _worker_count(configuration: Mapping[str, str], facts: Facts, connections: int) -> int:
    per_gather = effective_number("max_parallel_workers_per_gather", configuration, facts) or 0
    pools = [
        effective_number(name, configuration, facts) or 0 for name in ("max_parallel_workers", "max_worker_processes")
    ]
    return int(min(connections * per_gather, *pools))


def _wal_buffers(buffers: float, configuration: Mapping[str, str], facts: Facts) -> float:
    size = effective_bytes("wal_buffers", configuration, facts) or 0.0
    if size >= 0:
        return size
    segment = effective_bytes("wal_segment_size", configuration, facts) or 16.0 * MB
    return min(max(buffers / 32, 64 << 10), segment)


def _io_handles(buffers: float, configuration: Mapping[str, str], facts: Facts) -> float:
    """Return the handles of asynchronous I/O that each process has; 0 before 18."""
    handles = effective_number("io_max_concurrency", configuration, facts)
    if handles is None or handles >= 0:
        return handles or 0.0
    processes = (effective_number("max_connections", configuration, facts) or 0.0) + 20
    return min(IO_HANDLES_MOST, max(1.0, buffers / _BLOCK_BYTES / processes))


def _slru_bytes(buffers: float, configuration: Mapping[str, str], facts: Facts) -> float:
    total = sum(effective_bytes(name, configuration, facts) or 0.0 for name in _FIXED_SLRU)
    for name in _AUTOMATIC_SLRU:
        size = effective_bytes(name, configuration, facts)
        if size is not None:
            total += size or min(max(buffers / 512, 128 << 10), 8 * MB)
    return total


def _autovacuum_bytes(configuration: Mapping[str, str], facts: Facts) -> float:
    each = effective_bytes("autovacuum_work_mem", configuration, facts)
    if each is None or each < 0:
        each = effective_bytes("maintenance_work_mem", configuration, facts) or 0.0
    if facts.server.major < 17:
        each = min(each, VACUUM_CAP_BYTES)
    return each * (effective_number("autovacuum_max_workers", configuration, facts) or 0.0)
