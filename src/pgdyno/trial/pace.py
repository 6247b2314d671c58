"""Where a study stands: which trial of how many, the best figure so far, and how long it will still take. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.trial import Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric

OVERHEAD_S = 3.0
"""About what a trial costs beside its load, until one was measured."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a study stands. `number` counts the trials of what is done now, `total` of it None where unknown.

    `at_most` tells that fewer may be enough. `best` is the best figure of `metric` so far, `left_s` the seconds that
    this part of the study will still take, or that a time budget leaves.
    """

    metric: Metric = Metric.THROUGHPUT
    number: int = 0
    total: int | None = None
    at_most: bool = False
    best: float | None = None
    left_s: float | None = None

    @property
    def place(self) -> str:
        """Return which trial of how many: `3 of 6`, `3 of at most 24`, `3`."""
        if self.total is None:
            return str(self.number)
        return f"{self.number} of {'at most ' if self.at_most else ''}{self.total}"


class Pace:
    """Counts the trials of one study, part by part, and times them; `duration_s` is a trial's time under load."""

    def __init__(self, metric: Metric, duration_s: float) -> None:
        self._metric = metric
        self._guess_s = duration_s + OVERHEAD_S
        self._spent_s = 0.0
        self._timed = 0
        self._number = self._ended = 0
        self._total: int | None = None
        self._at_most = False
        self._best: float | None = None

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        """Begin a part of the study that takes so many trials, or fewer where `at_most`."""
        self._number, self._ended, self._total, self._at_most = 0, 0, trials, at_most

    def begin(self, spec: TrialSpec) -> None:
        """Count a trial; one that repeats another was not expected."""
        self._number += 1
        if self._total is not None and (spec.repeats is not None or self._number > self._total):
            self._total += 1

    def end(self, trial: Trial) -> None:
        """Take a trial's time, and its figure where it may be used."""
        self._ended += 1
        if trial.outcome is None:
            return
        self._spent_s += trial.outcome.elapsed_s
        self._timed += 1
        figure = trial.outcome.figure(self._metric)
        if trial.state is TrialState.COMPLETE and figure is not None:
            self._best = figure if self._best is None else self._metric.better(self._best, figure)

    def outlook(self, *, until_s: float | None = None) -> Outlook:
        """Return where the study stands; `until_s` is what a time budget leaves."""
        each = self._spent_s / self._timed if self._timed else self._guess_s
        left = None if self._total is None else each * (self._total - self._ended)
        if until_s is not None:
            left = max(0.0, until_s)
        return Outlook(self._metric, self._number, self._total, self._at_most, self._best, left)
