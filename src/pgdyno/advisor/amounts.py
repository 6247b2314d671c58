"""The absolute amounts below which a share says nothing: on an idle server every share is large of next to nothing.

These bounds are pgdyno's own. The figures that have none of their own here are judged by amounts in their rules:
queues and waits of devices, sessions that wait for locks, seconds of statements, rates of commits.
"""

from __future__ import annotations

from pgdyno.model.evidence import Statistics, TableActivity
from pgdyno.model.facts import Unknown
from pgdyno.units import bytes_text, plural

MB = 1 << 20
TABLE_BYTES = 8 * MB
"""A smaller table is read in milliseconds, whatever share of it is dead or new."""
READ_BYTES = 64 * MB
"""Blocks from outside of shared_buffers: starting a server and filling its cache reads as much."""
WAL_BYTES = 64 * MB
"""Four segments: the images of a quiet server's few checkpoints are not worth a change."""
SPILLED_BYTES = 16 * MB
SWAPPED_BYTES = MB
"""256 pages: what a process reads again that has slept for long, on a host with memory to spare."""
FULL_TIMES = 10
"""Events that a server counts, and that single occasions bring: full WAL buffers, a background writer at its limit."""
DISK_READS_S = 5.0
ROWS_WRITTEN = 10_000
"""Since the statistics were reset, or in an hour at the rate of a sampled window."""
HOUR_S = 3600.0


def total(rate: str, counted: Statistics) -> float | None:
    """Return the amount that was counted of a rate, by its name; None where the rate is unknown."""
    amount = counted.amount(rate)
    return None if isinstance(amount, Unknown) else amount


def too_little_wal(counted: Statistics) -> str | None:
    """Return in words that the window has too little WAL for a share of it; None where it has enough, or is unknown."""
    amount = total("wal_bytes_s", counted)
    if amount is None or amount >= WAL_BYTES:
        return None
    return f"only {bytes_text(amount)} of WAL were written in the window"


def too_few_rows(counted: Statistics) -> str | None:
    """Return in words that too few rows were written for a share of them; None where enough were, or it is unknown."""
    amount = total("rows_written_s", counted)
    if amount is None or counted.window.seconds <= 0:
        return None
    in_an_hour = amount if counted.window.is_mean_of_all else amount / counted.window.seconds * HOUR_S
    return None if in_an_hour >= ROWS_WRITTEN else f"{plural(round(amount), 'row')} in the window"


def is_small(table: TableActivity) -> bool:
    """Tell whether a table is too small for shares of it to matter."""
    return table.bytes + table.index_bytes < TABLE_BYTES
