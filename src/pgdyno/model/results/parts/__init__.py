"""What the results of several kinds of study are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.shapes import FLAT, OMITTED, Named
from pgdyno.model.trial import Percentiles, TrialState, value_of
from pgdyno.model.verdict import Interval, Metric, Verdict, Word

EXIT_CODES: Mapping[Word, ExitCode] = {
    Word.BETTER: ExitCode.OK,
    Word.EQUIVALENT: ExitCode.OK,
    Word.WORSE: ExitCode.FINDINGS,
    Word.NOT_RESOLVED: ExitCode.NOT_RESOLVED,
}
"""What a comparison of B with A ends with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageFigures:
    """How long a restart keeps a server away; `seconds` is None where that is unknown."""

    seconds: float | None
    kind: str
    basis: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageRecord:
    """What was expected of a restart beside what those of a study took; each is None where there is nothing to say."""

    expected: OutageFigures | None
    measured: OutageFigures | None
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTrial:
    """A trial that could not be measured, with the reason."""

    run: int | None
    state: TrialState
    settings: Mapping[str, str]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsBesideOthers:
    """How many runs were used beside others on the machine, and of how many."""

    runs: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What every result has. `trials` counts them by state; `report` is where the page was written with it."""

    study: str
    environment: str = ""
    trials: Mapping[str, int] = field(default_factory=dict)
    elapsed_s: float | None = None
    outage: Annotated[OutageRecord | None, OMITTED] = None
    report: str | None = None

    @property
    def headline(self) -> Verdict | None:
        """Return the verdict of its question, None where it has none."""
        return None

    @property
    def is_failed(self) -> bool:
        """Return True where nothing came to its end, so that the study has failed and is not complete."""
        return False

    @property
    def exit_code(self) -> ExitCode:
        """Return what the verb that made it ends with."""
        return ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison, medians over its trials; `run` is the trial that stands for it in the recorder."""

    name: str = ""
    settings: Mapping[str, str]
    before: Annotated[Mapping[str, str], Named("from")] = field(default_factory=dict)
    throughput: float | None
    latency_ms: Percentiles
    server_cpu_ms_per_tx: float | None
    run: int | None

    def value(self, metric: Metric) -> float | None:
        """Return the figure of one metric."""
        return value_of(metric, self.throughput, self.latency_ms, self.server_cpu_ms_per_tx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One interleaved pair: its block and the runs of its two sides, with their figures of the study's metric."""

    block: int
    a: float | None
    b: float | None
    a_run: int | None
    b_run: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The pairs behind a verdict."""

    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One statement under two configurations; the outlines are what its runs had, several where they differed.

    `word` is changed, same, or unknown where the plan of either side could not be had; `what` changed, in words.
    `shapes` are the hashes of both sides' plans, beside their outlines.
    """

    statement: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    word: str
    what: tuple[str, ...] = ()
    shapes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideRun:
    """What is known beside the score of the run that stands for a side."""

    run: int | None
    evidence: Annotated[RunEvidence, FLAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(StudyResult):
    """B against A, with A as `baseline` and B as `winner`; an unfinished staircase has no sides yet."""

    verdict: Verdict | None = None
    others: tuple[Verdict, ...] = ()
    baseline: Side | None = None
    winner: Side | None = None
    confirmation: Confirmation = Confirmation()
    inside: Mapping[str, InsideRun | None] = field(default_factory=dict)
    plans: tuple[PlanChange, ...] = ()
    refused: tuple[RefusedTrial, ...] = ()
    beside_others: Annotated[RunsBesideOthers | None, OMITTED] = None
    """Missing where nobody was on the machine."""

    @property
    def headline(self) -> Verdict | None:
        """Return the verdict."""
        return self.verdict

    @property
    def closed_others(self) -> tuple[Verdict, ...]:
        """Return the verdicts on the other metrics whose intervals have two ends: the rest are not drawn."""
        return tuple(one for one in self.others if one.interval.is_closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """From where a study starts: what the plan's baseline sets, and what of the server differs from the defaults."""

    settings: Mapping[str, str]
    differs: Mapping[str, str]
    out_of_the_box: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLevel:
    """One level of a sweep; `gain` is over the first one, and `run` stands for it in the recorder."""

    level: str
    number: float | None
    figure: float
    figures: tuple[float, ...]
    throughput: float | None
    gain: Interval
    in_region: bool
    run: int | None
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigures:
    """A sweep: a row a level, the region of the best and the plateau."""

    knob: str
    unit: str
    before: Annotated[str, Named("from")]
    levels: tuple[SweepLevel, ...]
    best: str
    region: tuple[str, ...]
    plateau: str
    proven: bool
    at_most: float
    flat: bool
    chosen: str
    sentence: str
    blocks: int
