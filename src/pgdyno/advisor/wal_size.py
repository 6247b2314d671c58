"""How large max_wal_size must be for checkpoints to come by time, and what that costs. Pure arithmetic.

The server starts a checkpoint by WAL once `max_wal_size / (1 + checkpoint_completion_target)` of WAL was written since
the last one began (CalculateCheckpointSegments of xlog.c); up to 10 the divisor was `2 + target`, because those
versions kept the WAL of two checkpoints.
"""

from __future__ import annotations

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
