"""Rules of thumb for the configurations from which a search starts, computed from facts as advisors do.

A search that begins with the current values and one or two sound guesses needs fewer trials than one that begins
blind. The rules are those on which advisors agree (shared_buffers a quarter of memory, effective_cache_size three
quarters, random_page_cost 1.1 on flash); where they differ by a factor of twenty, as for work_mem, a modest share of
memory stands here and the joint memory budget decides.
"""

from __future__ import annotations

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.knobs.expressions import Quantity, QuantityKind
from pgdyno.model.facts import Facts, Unknown

MB, GB = 1 << 20, 1 << 30
MINUTE_US = 60_000_000
_TIMES = frozenset({"checkpoint_timeout"})


def rules_of_thumb(facts: Facts, *, connections: int, read_only: bool, bold: bool) -> dict[str, float | str]:
    """Return values by rule, a cautious or a bold set; empty where memory or cores are unknown.

    Sizes are in bytes, times in microseconds, choices are words, the rest are numbers. `facts` have memory, cores and
    free disk, and `connections` is the number of sessions that share them. Where the load is `read_only`, the rules of
    writes are left out; `bold` chooses the set.
    """
    ram, cores = facts.host.memory_limit_bytes, facts.host.cores
    if isinstance(ram, Unknown) or isinstance(cores, Unknown):
        return {}
    idle_cores = max(0, cores - connections)
    rules: dict[str, float | str] = {
        "shared_buffers": ram * (0.40 if bold else 0.25),
        "effective_cache_size": ram * 0.75,
        "work_mem": min(ram * (0.10 if bold else 0.03) / max(connections, 1), (512 if bold else 64) * MB),
        "hash_mem_multiplier": 2.0,
        "maintenance_work_mem": min(ram / 16, 2 * GB),
        "random_page_cost": 1.1,
        "effective_io_concurrency": 200.0 if bold else 64.0,
        "max_parallel_workers": float(cores),
        "max_parallel_workers_per_gather": float(min(4, idle_cores)) if bold else float(min(2, idle_cores)),
        "max_worker_processes": float(max(8, cores)),
        "io_workers": float(max(3, cores // 2 if bold else cores // 4)),
        "huge_pages": "try",
    }
    rules |= {"transparent_hugepage.enabled": "never", "cpu.governor": "performance"}
    if bold:
        # Handing a read to a worker pays only where there are cores for workers.
        rules |= {"block.scheduler": "none", "jit": "off", "io_method": "sync" if cores <= 4 else "io_uring"}
    return rules if read_only else rules | _write_rules(facts, bold=bold)


def _write_rules(facts: Facts, *, bold: bool) -> dict[str, float | str]:
    free = facts.host.data_disk_free_bytes
    log_bytes = 0.0 if isinstance(free, Unknown) else min((16 if bold else 4) * GB, free / 8)
    return {
        # 512 and 64 MiB: the tuning guides for Linux on IBM Z, 2017 and 2023
        "vm.dirty_bytes": 512.0 * MB,
        "vm.dirty_background_bytes": 64.0 * MB,
        "wal_buffers": 64.0 * MB if bold else -1.0,
        "wal_compression": "lz4" if bold else "off",
        "max_wal_size": log_bytes,
        "min_wal_size": log_bytes / 4,
        "checkpoint_completion_target": 0.9,
        "checkpoint_timeout": 15.0 * MINUTE_US,
        "bgwriter_lru_maxpages": 1000.0 if bold else 200.0,
        "autovacuum_vacuum_cost_limit": 2000.0,
    }


def value_nearest(dimension: Dimension, rule: float | str) -> Value:
    """Return the value of a dimension that comes nearest to a rule; a word that it lacks becomes its default."""
    if isinstance(rule, str):
        return dimension.clip(rule)
    if dimension.kind == "choice":
        return dimension.default
    if rule in dimension.special:
        return dimension.clip(rule)
    kind: QuantityKind = "time" if dimension.name in _TIMES else "bytes"
    number = rule if dimension.unit is None else Quantity(rule, kind).in_units(dimension.unit)
    return dimension.nearest_level(number)
