"""The card of a study under way: what the dashboard's first page shows of it, from its row on the live board. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.model.live import Colour, Live
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.person.operator_request import OperatorRequest
from pgdyno.model.study import Study
from pgdyno.model.trial import Role, Trial, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.wording import number_text
from pgdyno.studies.kinds import kind_of

if TYPE_CHECKING:  # most dashboards are opened before a study has blocks
    from pgdyno.report.sections import Block


@dataclass(frozen=True, slots=True)
class LastFigure:
    """A figure of a running study. `is_old` says that the newest second had none: it is the last one that was read."""

    name: str
    value: str
    is_old: bool


@dataclass(frozen=True, slots=True)
class StudyCard:
    """A study under way. `history` holds numbers and figures of its newest trials, for the chart: of `metric`."""

    live: Live
    study: Study
    silent_s: float | None
    age_s: float
    counts: str
    trials: tuple[Trial, ...]
    history: Mapping[str, Sequence[float | None]]
    requests: tuple[OperatorRequest, ...] = ()
    """The newest that operators asked of it."""
    is_over: bool = False
    """Its process was killed and its server put back: an alert for a while, and no card."""

    @property
    def metric(self) -> Metric:
        """Return the metric that was asked for."""
        return self.study.metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return what is shown of each trial: the metric that was asked for first."""
        return tuple(dict.fromkeys((self.metric, Metric.THROUGHPUT, Metric.LATENCY_P99)))

    @property
    def has_load(self) -> bool:
        """Return whether figures of a load can be shown: a load of users has none here, nor has what asks persons."""
        return self.live.desk is None and not self.study.is_observed

    @property
    def question(self) -> LiveQuestion | None:
        """Return what it asks a person, None where nothing waits."""
        return None if self.live.desk is None or self.silent_s is not None else self.live.desk.question

    @property
    def waits(self) -> bool:
        """Return whether it waits for a person."""
        return self.question is not None

    @property
    def done_pct(self) -> int | None:
        """Return how much of the load is over, in percent, None between loads."""
        live = self.live
        return None if not live.duration_s or live.elapsed_s is None else round(100 * live.elapsed_s / live.duration_s)

    @property
    def has_trials(self) -> bool:
        """Return whether trials are counted; a replay is one run, which says itself how far it is."""
        return (
            self.has_load
            and kind_of(self.study.kind).counts_trials
            and (bool(self.trials) or self.live.run is not None or not self.live.place)
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Return what the study's own page shows beside all this."""
        return kind_of(self.study.kind).under_way(self.live)

    @property
    def rate(self) -> str:
        """Return the unit of the throughput."""
        return "tps" if self.has_trials else "statements/s"

    @property
    def figures(self) -> tuple[LastFigure, ...]:
        """Return each figure as it was last read, between two loads too; one that never was says so."""
        wanted = (
            ("throughput", "tps", self.rate), ("p99", "p99_ms", "ms"), ("CPU", "cpu_pct", "%"),
            ("memory", "memory_pct", "%"), ("busiest disk", "iops", "IOPS"), ("disk", "disk_mb_per_s", "MB/s"),
            ("active sessions", "active", ""),
        )  # fmt: skip
        series = [(name, [getattr(one, field) for one in self.live.points], unit) for name, field, unit in wanted]
        return tuple(
            _last_figure(name, values, unit)
            for name, values, unit in series
            if self.has_trials or any(value is not None for value in values)
        )

    @property
    def indicators(self) -> str:
        """Return the guards in one line: those that are not green by name, the rest as a number."""
        bad = [indicator for indicator in self.live.indicators if indicator.colour in (Colour.RED, Colour.AMBER)]
        green = sum(indicator.colour == Colour.GREEN for indicator in self.live.indicators)
        words = [f"{indicator.name} {indicator.colour}: {indicator.text}" for indicator in bad]
        return ", ".join([*words, f"{green} green"]) if self.live.indicators else "none watches yet"


def history_of(trials: Sequence[Trial], metric: Metric, first: int) -> Mapping[str, Sequence[float | None]]:
    """Return the figure of complete trials by their number in the study, from `first`, the baseline's apart."""
    numbers: list[float | None] = []
    baseline: list[float | None] = []
    others: list[float | None] = []
    for number, trial in enumerate(trials, first):
        value = None if trial.state is not TrialState.COMPLETE else trial.figure(metric)
        is_baseline = trial.spec.role is Role.BASELINE
        numbers.append(number)
        baseline.append(value if is_baseline else None)
        others.append(None if is_baseline else value)
    return {"number": numbers, "baseline": baseline, "others": others}


def _last_figure(name: str, values: Sequence[float | None], unit: str) -> LastFigure:
    last = next((value for value in reversed(values) if value is not None), None)
    if last is None:
        return LastFigure(name, "unknown", is_old=False)
    return LastFigure(name, f"{number_text(last)} {unit}".rstrip(), is_old=values[-1] is None)
