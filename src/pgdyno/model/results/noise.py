"""What a noise study comes to: the smallest effect that can be told, by window, pairs and minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.bench import RunSummary
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import FLAT
from pgdyno.model.verdict import Metric, Verdict

MEASURED, TOO_NOISY = "measured", "too noisy"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectInTime:
    """The smallest effect that so many pairs show in so many minutes, None where they show none below a doubling."""

    pairs: int
    minutes: float
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFigures:
    """What an hour of pairs shows; `at_most` with the largest noise that so few runs leave possible."""

    pairs: int
    detectable: float | None
    at_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLength:
    """The length of a window in seconds, the --measure that gives it, and whether runs were that long."""

    window_s: float
    measure_s: float | None = None
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFigures:
    """One length of the window: the noise of a pair, and what pairs of it show."""

    length: Annotated[WindowLength, FLAT]
    pair_sd: float
    pair_s: float
    cells: tuple[EffectInTime, ...]
    hour: HourFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class BestHour:
    """The window that shows the smallest effect in an hour."""

    length: Annotated[WindowLength, FLAT]
    hour: Annotated[HourFigures, FLAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsInTime:
    """So many pairs in so many minutes."""

    pairs: int
    minutes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseAdvice:
    """Window and pairs that show the effect of interest in the shortest time.

    `at_most` are the pairs that the largest noise would need which so few runs leave possible, with 90 % confidence.
    """

    at_most: PairsInTime | None = None
    effect: float
    length: Annotated[WindowLength, FLAT]
    need: Annotated[PairsInTime, FLAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNoise:
    """The noise of one metric; `reason` says why nothing is known of one without windows."""

    metric: Metric
    reason: str | None = None
    cv: float | None = None
    neighbours: float | None = None
    windows: tuple[WindowFigures, ...] = ()
    hour: BestHour | None = None
    advice: NoiseAdvice | None = None
    aa: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseDesign:
    """What the comparisons are planned for."""

    confidence: float
    power: float
    smallest_effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseResult(StudyResult):
    """The noise of each metric; `odd` is a run that stood apart and is left out."""

    title: str
    word: str
    metrics: tuple[MetricNoise, ...]
    design: NoiseDesign
    beside_s: float
    early_s: float = 0.0
    warmup_s: float | None = None
    odd: RunSummary | None
    runs: tuple[RunSummary, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Return whether an hour shows anything."""
        return ExitCode.OK if self.word == MEASURED else ExitCode.NOT_RESOLVED
