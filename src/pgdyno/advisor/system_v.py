"""Limits of System V objects: the table of the source, its formula, and the rows that contradict themselves. Pure.

shmmax = (1025 x GB - 500) MiB      fits the rows from 4 to 24 GB exactly, and goes on above
shmall = shmmax / page size         in pages of this kernel, 4 or 64 KiB
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

GIB, MIB = 1 << 30, 1 << 20
TABLE_PAGE = 4096
SEMAPHORE_NAMES = ("SEMMSL", "SEMMNS", "SEMOPM", "SEMMNI")


@dataclass(frozen=True, slots=True)
class SharedMemoryRow:
    """A row of the table: shmall in pages of 4 KiB, shmmax in bytes, shmmni segments."""

    memory_gb: int
    shmall: int
    shmmni: int
    shmmax: int

    @property
    def is_consistent(self) -> bool:
        """Return False when all memory that may be shared is less than one segment may have."""
        return self.shmall * TABLE_PAGE >= self.shmmax


@cache
def shared_memory_rows() -> tuple[SharedMemoryRow, ...]:
    """Return the table, by memory size."""
    return tuple(SharedMemoryRow(**row) for row in _table()["shared_memory"])


@cache
def semaphore_floor() -> tuple[int, int, int, int]:
    """Return SEMMSL, SEMMNS, SEMOPM, SEMMNI."""
    per_array, total, operations, arrays = _table()["semaphores"]["floor"]
    return per_array, total, operations, arrays


@cache
def message_floors() -> Mapping[str, int]:
    """Return the floors of message queues by sysctl."""
    return dict(_table()["messages"]["floor"])


def shared_memory_floors(ram_bytes: int, page_size: int) -> dict[str, int]:
    """Return the floors of kernel.shmmax, shmall and shmmni for a memory size and a kernel's page size.

    Below 4 GB it goes in a straight line through the first two rows, and below 2 GB in proportion.
    """
    size = ram_bytes / GIB
    first, second = shared_memory_rows()[:2]
    if size >= second.memory_gb:
        shmmax = round((1025 * size - 500) * MIB)
    elif size >= first.memory_gb:
        share = (size - first.memory_gb) / (second.memory_gb - first.memory_gb)
        shmmax = round(first.shmmax + share * (second.shmmax - first.shmmax))
    else:
        shmmax = round(first.shmmax * size / first.memory_gb)
    return {"kernel.shmmax": shmmax, "kernel.shmall": math.ceil(shmmax / page_size), "kernel.shmmni": first.shmmni}


def parse_semaphores(text: str) -> tuple[int, int, int, int] | None:
    """Return the four numbers of kernel.sem; None for other text."""
    words = text.split()
    if len(words) != len(SEMAPHORE_NAMES) or not all(word.isdigit() for word in words):
        return None
    per_array, total, operations, arrays = (int(word) for word in words)
    return per_array, total, operations, arrays


def _table() -> dict[str, Any]:
    text = resources.files("pgdyno.advisor").joinpath("data/system_v_limits.toml").read_text("utf-8")
    return tomllib.loads(text)
