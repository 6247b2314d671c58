"""The critical path of a chain: which jobs its window hangs on, and how much later the others could end. Pure.

By dependencies and calendar alone: jobs that waited for a free place ended later than this says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.studies.batch.chain import Chain, in_order

_SAME_S = 1e-6


@dataclass(frozen=True, slots=True)
class Placed:
    """A job's earliest start and end, and its slack, in seconds since the chain began."""

    key: str
    start_s: float
    end_s: float
    slack_s: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """`path` in its order, `end_s` the earliest end of the window, and every job with its slack."""

    path: tuple[str, ...]
    end_s: float
    jobs: Mapping[str, Placed]


def critical_path(chain: Chain, seconds: Mapping[str, float]) -> CriticalPath:
    """Return the path for these durations by key; a job without one (skipped, not run) takes no time."""
    ordered = in_order(chain)
    starts, ends = dict[str, float](), dict[str, float]()
    for job in ordered:
        starts[job.key] = max((job.starts_s, *(ends[other] for other in job.after)))
        ends[job.key] = starts[job.key] + seconds.get(job.key, 0.0)
    window = max(ends.values(), default=0.0)
    latest = dict.fromkeys(ends, window)
    for job in reversed(ordered):
        must_start = latest[job.key] - seconds.get(job.key, 0.0)
        for other in job.after:
            latest[other] = min(latest[other], must_start)
    placed = {key: Placed(key, starts[key], end, max(0.0, latest[key] - end)) for key, end in ends.items()}
    path = list[str]()
    at = max((key for key in ends if key in seconds), key=ends.__getitem__, default=None)
    jobs = chain.jobs
    while at is not None:
        path.append(at)
        before = max(jobs[at].after, key=ends.__getitem__, default=None)
        at = before if before is not None and ends[before] >= starts[at] - _SAME_S else None
    return CriticalPath(tuple(reversed(path)), window, placed)
