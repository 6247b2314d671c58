"""What a server's statements did between two readings of pg_stat_statements, or why that cannot be told. Pure.

A period counts only when nothing was lost in it: a reset, an eviction or a restart leaves counters that begin again,
and a count that did not fall is no proof that it never began again (zubkov-andrei/pg_profile issue 116).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdyno.stats.arrays import Floats, Ints

_M2_SLACK = 1e-6
"""Of the sum of squares so much may be missing by rounding: it is a difference of two large numbers."""


class VoidCause(StrEnum):
    """Why nothing can be said of the time between two readings."""

    RESTARTED = "the server was started anew"
    RESET = "pg_stat_statements was reset"
    EVICTED = "pg_stat_statements was full and gave up entries"
    GONE = "an entry of pg_stat_statements went away"
    FELL = "a counter of pg_stat_statements fell"
    BEGUN_ANEW = "an entry of pg_stat_statements began anew"
    MIXED = "two readings of an entry do not belong together"
    LATE = "a reading came late, or the clock was set"
    CLOSED = "the window for restarts was about to close"


@dataclass(frozen=True, slots=True, eq=False)
class StatementSnapshot:
    """One reading: columns of equal length, in the order of `ids`, which are ascending and stand for keys.

    A key is (dbid, userid, queryid, toplevel); who reads gives each a number for as long as the study lasts. Times in
    milliseconds, `sd_ms` is stddev_exec_time; `blocks` are shared ones that were hit or read; `since` is stats_since in
    seconds since the epoch (NaN before PostgreSQL 17). `dealloc` and `reset_at` are those of pg_stat_statements_info
    (None before 14). `at` is the server's clock, `started_at` when its postmaster began, both in seconds since the
    epoch. `own_ms` is the time of the reader's own role, which is in no column. `loaded_at` is when the server read its
    configuration files.
    """

    at: float
    started_at: float
    ids: Ints
    calls: Floats
    exec_ms: Floats
    sd_ms: Floats
    plans: Floats
    plan_ms: Floats
    rows: Floats
    since: Floats
    blocks: Floats
    dealloc: int | None = None
    reset_at: float | None = None
    own_ms: float = 0.0
    loaded_at: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StatementDeltas:
    """What was done between two readings `seconds` apart: the statements that ended in between, and no others.

    `time_ms` is execution and planning; `m2` the sum of squared deviations of the execution times from their mean
    within this time (ms^2). A statement counts whole, and at its end.
    """

    seconds: float
    ids: Ints
    calls: Floats
    time_ms: Floats
    exec_ms: Floats
    m2: Floats
    plans: Floats
    rows: Floats
    blocks: Floats
    own_ms: float = 0.0


def deltas(before: StatementSnapshot, after: StatementSnapshot) -> StatementDeltas | VoidCause:
    """Return what was done between two readings, or why that cannot be told.

    An entry that the first reading lacks is new, and counts from zero.
    """
    whole = _whole_cause(before, after)
    if whole is not None:
        return whole
    place = np.searchsorted(after.ids, before.ids)
    found = place < after.ids.size
    if not found.all() or not (after.ids[place] == before.ids).all():
        return VoidCause.GONE
    was = {name: _at(after.ids.size, place, getattr(before, name)) for name in _COUNTERS}
    gains = {name: getattr(after, name) - was[name] for name in _COUNTERS}
    if any((gain < 0).any() for gain in gains.values()):
        return VoidCause.FELL
    with np.errstate(invalid="ignore"):
        if (np.abs(after.since[place] - before.since) > 0).any():  # NaN, where it is not known, is no difference
            return VoidCause.BEGUN_ANEW
    m2 = _squares_between(before, after, place, gains["calls"], gains["exec_ms"])
    if m2 is None:
        return VoidCause.MIXED
    busy = (gains["calls"] > 0) | (gains["plans"] > 0)
    return StatementDeltas(
        seconds=after.at - before.at,
        ids=after.ids[busy],
        calls=gains["calls"][busy],
        time_ms=(gains["exec_ms"] + gains["plan_ms"])[busy],
        exec_ms=gains["exec_ms"][busy],
        m2=m2[busy],
        plans=gains["plans"][busy],
        rows=gains["rows"][busy],
        blocks=gains["blocks"][busy],
        own_ms=max(0.0, after.own_ms - before.own_ms),
    )


_COUNTERS = ("calls", "exec_ms", "plans", "plan_ms", "rows", "blocks")


def _whole_cause(before: StatementSnapshot, after: StatementSnapshot) -> VoidCause | None:
    if after.started_at != before.started_at:
        return VoidCause.RESTARTED
    if after.reset_at != before.reset_at:
        return VoidCause.RESET
    if after.dealloc != before.dealloc:
        return VoidCause.EVICTED
    return None if after.at > before.at else VoidCause.LATE


def _at(size: int, place: Ints, values: Floats) -> Floats:
    spread = np.zeros(size)
    spread[place] = values
    return spread


def _squares_between(
    before: StatementSnapshot, after: StatementSnapshot, place: Ints, calls: Floats, exec_ms: Floats
) -> Floats | None:
    """Return the sum of squares of the calls in between by Chan's formula for parts; None when it is below zero.

    M2_w = M2_b - M2_a - (m_w - m_a)^2 n_a n_w / (n_a + n_w), with M2 = sd^2 n: pg_stat_statements keeps the standard
    deviation of a population. Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979.
    """
    size = after.ids.size
    n_a, t_a = _at(size, place, before.calls), _at(size, place, before.exec_ms)
    m2_a, m2_b = _at(size, place, before.sd_ms) ** 2 * n_a, after.sd_ms**2 * after.calls
    m2: Floats = m2_b - m2_a
    both = (n_a > 0) & (calls > 0)
    apart = exec_ms[both] / calls[both] - t_a[both] / n_a[both]
    m2[both] -= apart**2 * n_a[both] * calls[both] / (n_a[both] + calls[both])
    if (m2 < -_M2_SLACK * (m2_b + m2_a + 1e-6)).any():
        return None
    return np.asarray(np.maximum(m2, 0.0), dtype=np.float64)
