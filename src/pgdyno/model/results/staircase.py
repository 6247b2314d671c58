"""What a staircase comes to: its steps, what was kept, and the proof of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import Compared, Pair, PlanChange, Start, SweepFigures
from pgdyno.model.shapes import FLAT, OMITTED, Named
from pgdyno.model.verdict import Interval, Metric, Verdict, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class StairNoise:
    """The noise of the baseline runs, as the effect that six pairs would show."""

    pair_sd: float
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord:
    """One phase of a step; times are epoch seconds of the machine that measured, to about a second."""

    phase: str
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedRuns:
    """The run that stands for an arm, the one nearest to its median, and all that were used."""

    qualified: int | None
    every: Annotated[tuple[int, ...], Named("all")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameRecord:
    """Fingerprints of all that makes the runs before and after but their settings, and what differs."""

    before: str
    after: str
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """Fingerprints of the settings that were read back before and after."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of the plan and what became of it; a step that was passed over has no runs."""

    step: str
    level: str
    group: str | None
    rules: tuple[str, ...]
    outcome: str
    why: str
    settings: Mapping[str, str]
    before: Annotated[Mapping[str, str], Named("from")]
    interleaved: bool
    sources: tuple[str, ...]
    expected: str
    by_hand: tuple[str, ...]
    undo: tuple[str, ...]
    phases: Annotated[tuple[PhaseRecord, ...], OMITTED] = ()
    again: Annotated[Interval | None, OMITTED] = None
    baseline_runs: Annotated[tuple[int, ...], OMITTED] = ()
    sweep: Annotated[SweepFigures | None, OMITTED] = None
    verdict: Annotated[Verdict | None, OMITTED] = None
    others: Annotated[tuple[Verdict, ...], OMITTED] = ()
    runs: Annotated[Mapping[str, QualifiedRuns], OMITTED] = field(default_factory=dict)
    same: Annotated[SameRecord | None, OMITTED] = None
    in_force: Annotated[ReadBack | None, OMITTED] = None
    pairs: Annotated[tuple[Pair, ...], OMITTED] = ()
    plans: Annotated[tuple[PlanChange, ...], OMITTED] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The product of the kept steps, and how it was made."""

    interval: Annotated[Interval, FLAT]
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """The end over the product, and the word for it."""

    interval: Annotated[Interval, FLAT]
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRecord:
    """How the baseline moved while the steps were climbed."""

    sentence: str
    rounds: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaircaseResult(Compared):
    """The whole result; `unfinished` says how far a staircase came that never came to its end."""

    plan: str
    mode: str
    stage: str
    candidates_from: str
    candidates: tuple[str, ...]
    metric: Metric = Metric.THROUGHPUT
    start: Start
    noise_floor: StairNoise | None
    steps: tuple[StepRecord, ...]
    kept: Mapping[str, str]
    kept_steps: tuple[str, ...]
    stopped: str
    drift: DriftRecord
    sentences: tuple[str, ...] = ()
    product: Annotated[Product | None, OMITTED] = None
    interaction: Annotated[Interaction | None, OMITTED] = None
    effects_left_out: Annotated[Mapping[str, Verdict], OMITTED] = field(default_factory=dict)
    proof_runs: Annotated[Mapping[str, QualifiedRuns], OMITTED] = field(default_factory=dict)
    unfinished: Annotated[str, OMITTED] = ""

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 when a step was kept or proposed, 1 when the kept steps together proved worse, else 3."""
        if self.verdict is not None and self.verdict.word is Word.WORSE:
            return ExitCode.FINDINGS
        return ExitCode.OK if self.kept_steps or self.candidates else ExitCode.NOT_RESOLVED
