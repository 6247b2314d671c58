"""Where the pages that the load touches fit: shared_buffers, RAM twice, RAM once, or not in RAM. Pure.

The four classes are those of the field report on double buffering (001): PostgreSQL reads through the page cache, so
that data up to half of the RAM may be there twice. Bounds are narrowed by what was seen; where they span more than
one class and nothing decides, the class is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from pgdyno.model.evidence import WorkingSet, WorkingSetClass
from pgdyno.model.facts import Unknown

HIT_FROM = 0.99
"""Hit ratio from which the cache is said to hold what is touched: the rest are new and rare pages."""
ENOUGH_BLOCKS = 10_000
"""Fewer blocks asked for in the window tell nothing."""
FROM_CACHE_BELOW = 0.05
FROM_DEVICE_FROM = 0.5
"""Bytes read from devices over bytes that missed shared_buffers: below, the page cache gave them; above, disks did."""


class _Seen(Enum):
    """What a window showed of the blocks that were asked for."""

    HITS = auto()
    MISSES = auto()
    FROM_PAGE_CACHE = auto()
    FROM_DISK = auto()


@dataclass(frozen=True, slots=True)
class WorkingSetSigns:
    """What is known: sizes in bytes, counts of the window. None is not known."""

    shared_buffers: int
    memory: int
    database_bytes: int | None = None
    touched_bytes: int | None = None
    """Sizes of the tables and indexes that were read or written in the window."""
    blocks_hit: float | None = None
    blocks_read: float | None = None
    block_size: int = 8192
    device_read_bytes: float | None = None
    evictions: float | None = None
    buffers_used_bytes: int | None = None
    """What pg_buffercache says is used of shared_buffers."""
    cache_was_filled: bool | None = None
    """Whether more blocks were read since the start than the cache holds."""


def classify_size(size: int, shared_buffers: int, memory: int) -> WorkingSetClass:
    """Return the class of a working set of known size."""
    if size <= shared_buffers:
        return WorkingSetClass.SHARED_BUFFERS
    if 2 * size <= memory:
        return WorkingSetClass.RAM_TWICE
    return WorkingSetClass.RAM_ONCE if size <= memory else WorkingSetClass.EXCEEDS


def working_set(signs: WorkingSetSigns) -> WorkingSet | Unknown:
    """Estimate the working set; unknown, with the bounds, when nothing says which class it is."""
    high, methods = _upper_bound(signs)
    low = 0
    seen = _window(signs)
    if seen is _Seen.HITS:
        held = signs.shared_buffers if signs.buffers_used_bytes is None else signs.buffers_used_bytes
        high = held if high is None else min(high, held)
        methods.append("blocks were found in shared_buffers")
    elif seen is not None and (high is None or high > signs.shared_buffers):
        low = signs.shared_buffers
        methods.append("blocks missed shared_buffers although it was full")
    elif seen is not None:
        methods.append("blocks missed shared_buffers all the same, as cold pages and scans of big tables do")
    if seen is _Seen.FROM_PAGE_CACHE:
        high = max(low, signs.memory if high is None else min(high, signs.memory))
        methods.append("the page cache gave them")
    if high is None:
        return Unknown("neither sizes nor a window of at least 10,000 blocks say how much the load touches")
    if seen is _Seen.FROM_DISK:
        beyond = max(signs.shared_buffers, signs.memory - signs.shared_buffers)
        if high > beyond:
            return WorkingSet(WorkingSetClass.EXCEEDS, beyond, high, ", ".join([*methods, "disks gave them"]))
        # What is smaller than the RAM was read because it was cold, or another program read: it does not grow by that.
        methods.append("disks were read all the same, for cold pages or by other programs")
    method = ", ".join(methods)
    lowest = classify_size(low + 1 if low else 0, signs.shared_buffers, signs.memory)
    highest = classify_size(high, signs.shared_buffers, signs.memory)
    if lowest is highest:
        return WorkingSet(highest, low, high, method)
    return Unknown(
        f"it lies between {_size(low)} and {_size(high)} ({method}), which may be "
        f'"{lowest.value}" as well as "{highest.value}"; a sampled window under load tells more'
    )


def _upper_bound(signs: WorkingSetSigns) -> tuple[int | None, list[str]]:
    known = {
        "the size of all databases": signs.database_bytes,
        "the size of the tables and indexes that were touched": signs.touched_bytes,
    }
    found = {method: size for method, size in known.items() if size is not None}
    if not found:
        return None, []
    method = min(found, key=lambda name: found[name])
    return found[method], [method]


def _window(signs: WorkingSetSigns) -> _Seen | None:
    if signs.blocks_hit is None or signs.blocks_read is None:
        return None
    asked = signs.blocks_hit + signs.blocks_read
    if asked < ENOUGH_BLOCKS:
        return None
    if signs.blocks_hit / asked >= HIT_FROM:
        return _Seen.HITS
    if signs.evictions == 0 or (signs.evictions is None and not signs.cache_was_filled):
        return None  # a cold cache misses too, until it is full
    if signs.device_read_bytes is None:
        return _Seen.MISSES
    from_device = signs.device_read_bytes / (signs.blocks_read * signs.block_size)
    if from_device < FROM_CACHE_BELOW:
        return _Seen.FROM_PAGE_CACHE
    return _Seen.FROM_DISK if from_device >= FROM_DEVICE_FROM else _Seen.MISSES


def _size(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MB"
