"""What a bench comes to: its runs, and no claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.shapes import FLAT
from pgdyno.model.trial import LatencySummary, TrialState, value_of
from pgdyno.model.verdict import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a database or a table before and after a run; None where it was not there any more."""

    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run: how it ended and what it counted."""

    run: int | None
    state: TrialState
    reason: str | None
    tps: float | None
    latency_ms: LatencySummary | None
    transactions: int
    failed: int
    retried: int
    skipped: int
    driver_cpu_s: float | None
    server_cpu_s: float | None
    server_cpu_ms_per_tx: float | None
    foreign_cpu_pct: float | None
    steal_pct: float | None
    settings_fingerprint: str | None
    counters: Mapping[str, float]
    warnings: tuple[str, ...]

    def value(self, metric: Metric) -> float | None:
        """Return the figure of one metric."""
        return value_of(metric, self.tps, self.latency_ms, self.server_cpu_ms_per_tx)

    @property
    def is_used(self) -> bool:
        """Return True when its figures may be quoted."""
        return self.state is TrialState.COMPLETE and bool(self.tps)

    @property
    def why_not(self) -> str:
        """Return why it was not used: its reason, or else how it ended."""
        return self.reason or f"the run is {self.state.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run with what is known beside its score."""

    figures: Annotated[RunSummary, FLAT]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    evidence: Annotated[RunEvidence, FLAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult(StudyResult):
    """The last run that was used at the top, and every run in `runs`.

    Where none was used, the top has the state and the reason of the last one, and no figure of it.
    """

    top: Annotated[RunRecord, FLAT]
    used: tuple[int, ...] = ()
    runs: tuple[RunRecord, ...] = ()

    @property
    def every(self) -> tuple[RunRecord, ...]:
        """Return all runs; a bench of one run may have it at the top alone."""
        return self.runs or (self.top,)

    @property
    def usable(self) -> tuple[RunRecord, ...]:
        """Return the runs that were used."""
        return tuple(one for one in self.every if one.figures.is_used)

    @property
    def unused(self) -> tuple[RunRecord, ...]:
        """Return the runs that were measured and not used."""
        return tuple(one for one in self.every if not one.figures.is_used)

    @property
    def is_failed(self) -> bool:
        """Return True where every run failed."""
        return all(one.figures.state is TrialState.FAILED for one in self.every)

    @property
    def exit_code(self) -> ExitCode:
        """Return that the environment is unsuitable where no run was used."""
        return ExitCode.OK if self.usable else ExitCode.UNSUITABLE
