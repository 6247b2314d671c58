"""Locks by mode over a window: mean and greatest number held and awaited. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pgdyno.model.run_evidence import LockFigures
from pgdyno.model.sample_tables import named
from pgdyno.model.samples import SampleRow

FIRST = ("RowExclusiveLock", "AccessShareLock", "ExclusiveLock")
"""The modes that a load's own statements and transactions take; listed even when none was seen."""


def lock_figures(rows: Iterable[SampleRow], from_s: float, to_s: float) -> tuple[LockFigures, ...]:
    """Return one row for each mode, means over all seconds in which sessions were sampled; empty without any.

    The observer's own session is not among them, which the query sees to.
    """
    inside = [row for row in rows if from_s < row.t <= to_s + 0.5]
    moments = sum(1 for row in inside if row.table == "sessions")
    if not moments:
        return ()
    held: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    awaited: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in inside:
        if row.table == "locks":
            locks = named(row)
            held[str(locks["mode"])][row.t] += float(locks["granted"] or 0)
            awaited[str(locks["mode"])][row.t] += float(locks["waiting"] or 0)
    modes = [*FIRST, *sorted({*held} - {*FIRST})]
    return tuple(
        LockFigures(
            mode,
            sum(held[mode].values()) / moments,
            max(held[mode].values(), default=0.0),
            sum(awaited[mode].values()) / moments,
            max(awaited[mode].values(), default=0.0),
        )
        for mode in modes
    )
