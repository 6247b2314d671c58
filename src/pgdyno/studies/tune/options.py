"""What a study is asked for, as frozen records that the store keeps, so that a resumed study asks the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pgdyno.control.restart_budget import RestartBudget
from pgdyno.model.configuration import Configuration
from pgdyno.model.verdict import Metric
from pgdyno.stats.sequential import Design

THERE_AND_BACK = 2
"""A search trial may take a restart, and the baseline after it another one."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What a tune may spend and touch.

    `trials` bounds the search trials and `budget_s` the wall time of the whole command, its start, the data load, the
    way back and the report included; the first bound that is reached ends the search. Of the time for trials (see
    `trial.stopwatch`) the search takes `SEARCH_SHARE`, and the rest belongs to the proof, for whose fewest pairs time
    is kept; only so many settings go into it as can be left out one by one. `tolerance` is how much
    worse than the best found the winner may be, as a ratio distance, to take less memory and fewer settings; None is a
    tenth of the gain (`optimizer.frugal.may_lose`). `noise_runs` is how many baseline runs
    measure the noise floor; `baseline_every` how many search trials share one re-measured baseline. `restarts` is the
    restart budget as it is written, None unbounded.
    """

    metric: Metric = Metric.THROUGHPUT
    smallest_effect: float = 0.02
    tolerance: float | None = None
    confidence: float = 0.95
    seed: int = 1
    trials: int = 40
    budget_s: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    reload_only: bool = False
    linux: bool = False
    restarts: str | None = None
    noise_runs: int = 6
    baseline_every: int = 5
    confirm_min: int = 4
    confirm_max: int = 24
    rivals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def restart_budget(self) -> RestartBudget | None:
        """Return the restart budget, None without a bound."""
        return None if self.restarts is None else RestartBudget.parse(self.restarts)

    @property
    def proof_restarts(self) -> int:
        """Return how many restarts are kept: the fewest blocks of baseline, winner and what was found."""
        return 3 * self.confirm_min

    @property
    def proof_trials(self) -> int:
        """Return how many trials the fewest pairs of a proof take."""
        return 2 * self.confirm_min

    @property
    def never_restarts(self) -> bool:
        """Return True when no knob that needs a restart can be tried and proved."""
        budget = self.restart_budget
        return self.reload_only or (
            budget is not None and budget.limit is not None and budget.limit < self.proof_restarts + THERE_AND_BACK
        )

    SEARCH_SHARE: ClassVar[float] = 0.45
    MOST_PROOFS: ClassVar[int] = 3

    def of_proof(self, before: int) -> TuneOptions:
        """Return the options that judge a proof which comes after so many that could make a claim.

        The later ones share as much error as the first may have, whatever they are made for. One that was given up
        before its fewest pairs could claim nothing, and does not count.
        """
        shared = 1 - (1 - self.confidence) / (self.MOST_PROOFS - 1)
        return replace(self, confidence=shared) if before else self

    def design(self, *, min_pairs: int = 3, max_pairs: int | None = None, comparisons: int = 1) -> Design:
        """Return the rule for verdicts; `comparisons` shares the error rate over a family (Bonferroni)."""
        confidence = 1 - (1 - self.confidence) / comparisons
        return Design(
            smallest_effect=self.smallest_effect,
            confidence=confidence,
            min_pairs=min_pairs,
            max_pairs=max(min_pairs, max_pairs or self.confirm_max),
        )

    def rival_configurations(self) -> dict[str, Configuration]:
        """Return the rivals that are measured beside the winner."""
        return {name: Configuration.of(settings) for name, settings in self.rivals.items()}
