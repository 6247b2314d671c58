"""How memory is divided: shared_buffers by working set, effective_cache_size, and the worst case of work_mem. Pure."""

from __future__ import annotations

import math

from pgdyno.model.evidence import WorkingSetClass

MB = 1 << 20
GB = 1 << 30
NODES = 2
"""Sorts or hashes that one process holds at a time, as in the memory check of the knobs."""
PROCESS_BYTES = 8 * MB
BUFFER_OVERHEAD = 0.025
CACHED = (WorkingSetClass.SHARED_BUFFERS, WorkingSetClass.RAM_TWICE)
"""Working sets of which every page is in a cache, whatever shared_buffers has."""
SMALL_SHARES = {WorkingSetClass.RAM_ONCE: 0.10, WorkingSetClass.EXCEEDS: 0.05}
"""Shares of memory where the page cache serves better than shared_buffers: 1 GB of 22 GB in the field report."""


def nominal_bytes(memory: int) -> int:
    """Return the installed size that the kernel's MemTotal stands for: 125.9 GiB of a machine with 128 GiB is 128.

    The kernel keeps some percent for itself. Only a size less than 3 % below a round one is rounded up.
    """
    step = 1 << max(0, math.floor(math.log2(memory)) - 4)
    nominal = math.ceil(memory / step) * step
    return nominal if memory >= 0.97 * nominal else memory


def rounded_bytes(size: float) -> int:
    """Return a size rounded down to 64 MB from 1 GB on, to 8 MB from 64 MB on, below that to 128 kB."""
    step = 64 * MB if size >= GB else 8 * MB if size >= 64 * MB else 128 << 10
    return int(size // step * step)


def buffers_bytes(memory: int, limited_by_ram: bool, kind: WorkingSetClass | None) -> int:
    """Return the start value of shared_buffers: a quarter, or 5 to 10 % where the page cache must do the work.

    Never above half of the memory.
    """
    base = nominal_bytes(memory) if limited_by_ram else memory
    share = SMALL_SHARES.get(kind, 0.25) if kind is not None else 0.25
    return min(rounded_bytes(base * share), memory // 2)


def cache_bytes(memory: int, limited_by_ram: bool) -> int:
    """Return effective_cache_size: three quarters of the memory."""
    base = nominal_bytes(memory) if limited_by_ram else memory
    return rounded_bytes(base * 0.75)


def query_bytes(work_mem: float, multiplier: float, workers: float, sessions: float) -> float:
    """Return the worst case in bytes: work_mem x hash_mem_multiplier x nodes x (workers + 1) x sessions.

    `work_mem` is in bytes, `multiplier` is hash_mem_multiplier. `workers` are the parallel workers of each session, 0
    to leave them out, and `sessions` those that run a query at the same time.
    """
    return work_mem * multiplier * NODES * (workers + 1) * sessions


def reserve_bytes(memory: int) -> float:
    """Return what is left to the kernel and its page cache: a tenth, at least 256 MB, at most a quarter."""
    return max(0.1 * memory, min(256 * MB, memory / 4))
