"""How large max_wal_size must be for checkpoints to come by time, and what that costs. Pure arithmetic.

The server starts a checkpoint by WAL once `max_wal_size / (1 + checkpoint_completion_target)` of WAL was written since
the last one began (CalculateCheckpointSegments of xlog.c); up to 10 the divisor was `2 + target`, because those
versions kept the WAL of two checkpoints.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from datetime import datetime

from pgdyno.model.evidence import Checkpoint
from pgdyno.model.facts import Unknown

MB = 1 << 20
GB = 1 << 30
ABOUT_HALF = 0.55
"""A file system holds a little less than its device: the half of a 512 GiB volume still counts as 256 GB."""


def wanted_bytes(rate_bytes_s: float, timeout_s: float, target: float, major: int) -> float:
    """Return the least max_wal_size at which checkpoints come by time at this rate of WAL."""
    return rate_bytes_s * timeout_s * cycles(target, major)


def cycles(target: float, major: int) -> float:
    """Return how many checkpoint distances max_wal_size holds: 1 + target from 11, 2 + target before."""
    return (1 if major >= 11 else 2) + target


def power_of_two(size: float, least: int = 64 * MB) -> int:
    """Return the smallest power of two that holds so many bytes."""
    found = least
    while found < size:
        found *= 2
    return found


def cap_bytes(file_system_bytes: float, wanted: int) -> int | None:
    """Return what a file system of this size allows when it is less than wanted: half, in whole GB or 64 MB."""
    if wanted <= ABOUT_HALF * file_system_bytes:
        return None
    half = file_system_bytes / 2
    step = GB if half >= 2 * GB else 64 * MB
    return int(half // step * step)


def rate_of_log(checkpoints: Sequence[Checkpoint]) -> float | None:
    """Return bytes of WAL a second from the distances of the log's checkpoints, None when it does not show them.

    The median over the pairs of checkpoints that follow each other by at least a second: the distance of the later one
    over the time between their ends. Where checkpoints came by WAL, only those count: they show the rate at load.
    """
    rates, at_load = [], []
    for before, after in itertools.pairwise(checkpoints):
        began, ended, distance = _moment(before.at), _moment(after.at), after.distance_bytes
        if began is None or ended is None or isinstance(distance, Unknown):
            continue
        seconds = (ended - began).total_seconds()
        if seconds >= 1:
            rates.append(distance / seconds)
            if after.cause == "wal":
                at_load.append(distance / seconds)
    return statistics.median(at_load or rates) if rates else None


def _moment(text: str | Unknown) -> datetime | None:
    if isinstance(text, Unknown):
        return None
    try:
        return datetime.strptime(text[:19].replace("T", " "), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
