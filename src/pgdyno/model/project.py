"""A benchmark project: scenarios with a goal and a criterion that is fixed before the first run, and what came of them.

Pure. Days are calendar days; shares and gains are percentages that are computed from rows, never typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.model.verdict import LATENCIES, RUN_METRICS

PHASES = ("scope workshop", "design workshop", "proof of concept")
"""What comes before the measuring, unless the project names other phases."""
DELIVERABLES = (
    "system management model",
    "implementation plan with migration strategy",
    "cost estimate of the transition",
    "support plan",
)
GOALS: Mapping[str, str] = {
    "performance": "assess the general performance",
    "oltp": "carry the transactions of the business",
    "batch": "carry the batch work of the business",
    "sizing": "find the right size of the system",
    "migration": "migrate within the agreed window",
    "scalability": "grow with the business",
    "support": "assess the support of the platform's makers",
}
"""The goals that a project can have, by the word that its scenarios name."""


class CriterionStatus(StrEnum):
    """What the measured figures say of a criterion."""

    MET = "met"
    MISSED = "missed"
    NOT_RESOLVED = "not resolved"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a scenario has to reach. `metric` is one of `ROW_METRICS`, or a figure of the scenario's studies.

    `arm` names the side of a comparison whose runs count; empty for all. Exactly one bound or both are given.
    """

    text: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    arm: str = ""


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A figure that was measured elsewhere: a value, a count of a whole, or before and after. `count` weighs it."""

    name: str
    value: float | None = None
    count: float | None = None
    of: float | None = None
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """What the overall conclusion quotes of a scenario: a metric of its rows, with the words for what it measures."""

    text: str
    metric: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. `studies` are ids in the store; `days` and `runs` are for what was done without pgdyno."""

    name: str
    description: str
    goal: str
    criterion: Criterion
    planned_days: float
    serves: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()
    rows: tuple[ProjectRow, ...] = ()
    headline: Headline | None = None
    days: float | None = None
    runs: int | None = None
    notes: tuple[str, ...] = ()
    conclusion: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a checklist: a phase or a deliverable, when it was done (empty: not yet), and where it is."""

    name: str
    done: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that one host needed: busy cores, and memory that was not available to others."""

    host: str
    cores: float | None
    memory_bytes: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Project:
    """A project as its file has it. `headroom_pct` of a recommended size stays free at the measured peak."""

    name: str
    background: str
    scenarios: tuple[Scenario, ...]
    phases: tuple[Item, ...]
    deliverables: tuple[Item, ...]
    statements: Mapping[str, str]
    peaks: tuple[Peak, ...] = ()
    headroom_pct: float = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with the bounds between which it lies; `how` says what it is, `runs` which runs it comes from."""

    value: float
    lo: float
    hi: float
    how: str
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Amendment:
    """A later edit of something that was fixed. `at` is None for an edit that is not on record yet."""

    at: str | None
    by: str
    scenario: str
    field: str
    old: str
    new: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was fixed, when and by whom, with its hash and every later edit."""

    at: str
    by: str
    sha256: str
    amendments: tuple[Amendment, ...] = ()


def judge(criterion: Criterion, measured: Measured | None) -> CriterionStatus:
    """Return the standing: met or missed only when the whole range of the figure says so."""
    if measured is None:
        return CriterionStatus.OPEN
    low = -math.inf if criterion.at_least is None else criterion.at_least
    high = math.inf if criterion.at_most is None else criterion.at_most
    if low <= measured.lo and measured.hi <= high:
        return CriterionStatus.MET
    return CriterionStatus.MISSED if measured.hi < low or measured.lo > high else CriterionStatus.NOT_RESOLVED


def row_metric(rows: Sequence[ProjectRow], metric: str) -> Measured | None:
    """Compute a metric of rows; None when no row has what it needs."""
    value = ROW_METRICS[metric][1](rows)
    return None if value is None else Measured(value, value, value, ROW_METRICS[metric][0])


def _values(rows: Sequence[ProjectRow]) -> list[float]:
    return [row.value for row in rows if row.value is not None]


def _share(rows: Sequence[ProjectRow]) -> float | None:
    parts = [(row.count, row.of) for row in rows if row.count is not None and row.of]
    return 100 * sum(count for count, _ in parts) / sum(of for _, of in parts) if parts else None


def _sides(rows: Sequence[ProjectRow]) -> list[tuple[float, float, float | None]]:
    return [(row.before, row.after, row.count) for row in rows if row.before and row.after is not None]


def _saved(rows: Sequence[ProjectRow]) -> float | None:
    sides = _sides(rows)
    return 100 * (1 - sum(after for _, after, _ in sides) / sum(before for before, _, _ in sides)) if sides else None


def _mean_saved(rows: Sequence[ProjectRow]) -> float | None:
    gains = [100 * (1 - after / before) for before, after, _ in _sides(rows)]
    return sum(gains) / len(gains) if gains else None


def _weighted_saved(rows: Sequence[ProjectRow]) -> float | None:
    gains = [(100 * (1 - after / before), count) for before, after, count in _sides(rows) if count]
    return sum(gain * count for gain, count in gains) / sum(count for _, count in gains) if gains else None


def _grown(rows: Sequence[ProjectRow]) -> float | None:
    saved = _saved(rows)
    return None if saved is None else -saved


def _worst_remainder(rows: Sequence[ProjectRow]) -> float | None:
    return max((100 * after / before for before, after, _ in _sides(rows)), default=None)


def _spread(rows: Sequence[ProjectRow]) -> float | None:
    values = [value for value in _values(rows) if value > 0]
    return 100 * (max(values) / min(values) - 1) if len(values) > 1 else None


RowMetric = tuple[str, Callable[[Sequence[ProjectRow]], float | None]]
ROW_METRICS: Mapping[str, RowMetric] = {
    "share": ("counts over wholes, all rows together", _share),
    "total": ("sum of the rows", lambda rows: sum(_values(rows)) if _values(rows) else None),
    "largest": ("the largest row", lambda rows: max(_values(rows), default=None)),
    "smallest": ("the smallest row", lambda rows: min(_values(rows), default=None)),
    "spread": ("largest over smallest row, less one", _spread),
    "saved": ("sum after against sum before", _saved),
    "mean_saved": ("plain mean of the rows", _mean_saved),
    "weighted_saved": ("mean of the rows, weighted by their counts", _weighted_saved),
    "grown": ("sum after over sum before, less one", _grown),
    "worst_remainder": ("the largest share of before that is left after, of all rows", _worst_remainder),
}
"""Metrics of rows, in percent but for total, largest and smallest: what is computed, and how."""
FIGURES = {f"{one.short}_ms" if one in LATENCIES else one.value: one for one in RUN_METRICS}
"""Figures of a run that a criterion can name."""
RATIOS = {f"{name.removesuffix('_per_tx').removesuffix('_ms')}_ratio": metric for name, metric in FIGURES.items()}
"""Verdicts that it can name."""
