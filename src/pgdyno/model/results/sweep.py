"""What a sweep of one knob, or a factorial of two, comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import RefusedTrial, RunsBesideOthers, Side, Start, StudyResult, SweepFigures
from pgdyno.model.shapes import FLAT, OMITTED
from pgdyno.model.verdict import Interval, Metric, Verdict

UNRESOLVED = "not resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorialArm:
    """One arm of a factorial, with its verdict against neither factor."""

    side: Annotated[Side, FLAT]
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorialFigures:
    """Two factors with and without each other; the interaction is 1 where their effects multiply."""

    factors: tuple[tuple[str, str], ...]
    interaction: Interval
    blocks: int
    arms: tuple[FactorialArm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult(StudyResult):
    """A sweep with its first and its chosen level as sides, or a factorial."""

    metric: Metric = Metric.THROUGHPUT
    start: Start
    title: str
    word: str
    sweep: Annotated[SweepFigures | None, OMITTED] = None
    baseline: Annotated[Side | None, OMITTED] = None
    winner: Annotated[Side | None, OMITTED] = None
    factorial: Annotated[FactorialFigures | None, OMITTED] = None
    refused: tuple[RefusedTrial, ...] = ()
    beside_others: Annotated[RunsBesideOthers | None, OMITTED] = None

    @property
    def exit_code(self) -> ExitCode:
        """Return whether there is an answer."""
        return ExitCode.NOT_RESOLVED if self.word == UNRESOLVED else ExitCode.OK

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the names of the levels, or of the arms of a factorial, the reference first."""
        if self.sweep is not None:
            return tuple(one.level for one in self.sweep.levels)
        return () if self.factorial is None else tuple(one.side.name for one in self.factorial.arms)
