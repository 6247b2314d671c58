"""What two recorded runs come to beside each other: `compare --json` prints it, and no study keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.results.bench import RunSummary
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A knob, or a factor of a plan, in which two runs differ; None where a run does not set it."""

    knob: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Different:
    """A fact of host or server in which two runs differ."""

    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """Two runs side by side; `interleaved` says whether the verdict rests on interleaved pairs."""

    verdict: Verdict
    interleaved: bool
    note: str
    a: RunSummary
    b: RunSummary
    differences: tuple[Setting, ...]
    plans: tuple[PlanChange, ...]
    environment: tuple[Different, ...]
