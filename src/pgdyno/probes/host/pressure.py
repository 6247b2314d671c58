"""/proc/pressure/{cpu,memory,io}: pressure stall information (Documentation/accounting/psi.rst of Linux 4.20)."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.samples import SampleValue

RESOURCES = ("cpu", "memory", "io")
_COLUMNS = (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))

Stalls = Mapping[tuple[str, str], int]
"""Microseconds stalled since boot, by resource and by `some` or `full`."""


def parse(resource: str, text: str) -> dict[tuple[str, str], int]:
    """Parse one file of /proc/pressure into its `total` counters."""
    totals = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        values = dict(field.split("=") for field in fields)
        totals[resource, kind] = int(values["total"])
    return totals


def row(before: Stalls, after: Stalls, interval_s: float) -> tuple[SampleValue, ...]:
    """Return the values of table `pressure`: the share of the interval that was stalled, in percent."""
    shares = (
        (after[key] - before[key]) / (interval_s * 1e4) if key in before and key in after else None for key in _COLUMNS
    )
    return (interval_s, *(None if share is None else min(100.0, share) for share in shares))
