"""What waits for what: rings, an order, and the critical path. Jobs of a chain and phases of a migration alike. Pure.

By dependencies and earliest starts alone: what waited for a free place ended later than a critical path says.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Waits = Mapping[str, Sequence[str]]
"""By each name those that it waits for, in the order in which they are to stay where nothing else decides."""
_SAME_S = 1e-6


@dataclass(frozen=True, slots=True)
class Placed:
    """The earliest start and end of one, and its slack, in seconds since the first began."""

    key: str
    start_s: float
    end_s: float
    slack_s: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """`path` in its order, `end_s` the earliest end of the whole, and everything with its slack."""

    path: tuple[str, ...]
    end_s: float
    jobs: Mapping[str, Placed]


def ring_of(after: Waits) -> tuple[str, ...]:
    """Return names that wait for each other in a ring, the first again at the end; empty where there is none."""
    left = {key: set(waits) for key, waits in after.items()}
    waiting = _waiting(after)
    free = [key for key, waits in left.items() if not waits]
    while free:
        done = free.pop()
        del left[done]
        for key in waiting[done]:
            left[key].discard(done)
            if not left[key]:
                free.append(key)
    if not left:
        return ()
    way = dict.fromkeys([next(iter(left))])  # in their order, and found at once
    at = next(iter(way))
    while (at := min(left[at])) not in way:
        way[at] = None
    names = list(way)
    return (at, *reversed(names[names.index(at) :]))


def ordered(after: Waits) -> list[str]:
    """Return the names so that each comes after those that it waits for, else in the order in which they are given."""
    places = {key: place for place, key in enumerate(after)}
    names, left = list(after), {key: set(waits) for key, waits in after.items()}
    waiting = _waiting(after)
    free = [places[key] for key, waits in left.items() if not waits]
    found = list[str]()
    heapq.heapify(free)
    while free:
        done = names[heapq.heappop(free)]
        found.append(done)
        for key in waiting[done]:
            left[key].discard(done)
            if not left[key]:
                heapq.heappush(free, places[key])
    return found


def critical_path(
    after: Waits, seconds: Mapping[str, float], starts: Mapping[str, float] | None = None
) -> CriticalPath:
    """Return the path for these durations; what has none takes no time. `starts` are earliest starts of a calendar."""
    names, earliest = ordered(after), starts or {}
    begins, ends = dict[str, float](), dict[str, float]()
    for key in names:
        begins[key] = max((earliest.get(key, 0.0), *(ends[other] for other in after[key])))
        ends[key] = begins[key] + seconds.get(key, 0.0)
    window = max(ends.values(), default=0.0)
    latest = dict.fromkeys(ends, window)
    for key in reversed(names):
        must_start = latest[key] - seconds.get(key, 0.0)
        for other in after[key]:
            latest[other] = min(latest[other], must_start)
    placed = {key: Placed(key, begins[key], end, max(0.0, latest[key] - end)) for key, end in ends.items()}
    path = list[str]()
    at = max((key for key in ends if key in seconds), key=ends.__getitem__, default=None)
    while at is not None:
        path.append(at)
        before = max(after[at], key=ends.__getitem__, default=None)
        at = before if before is not None and ends[before] >= begins[at] - _SAME_S else None
    return CriticalPath(tuple(reversed(path)), window, placed)


def _waiting(after: Waits) -> dict[str, list[str]]:
    """Return by each name those that wait for it."""
    found: dict[str, list[str]] = {key: [] for key in after}
    for key, waits in after.items():
        for other in waits:
            found[other].append(key)
    return found
