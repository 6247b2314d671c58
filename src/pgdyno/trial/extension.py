"""How long a load whose throughput has not settled in its time is let run: seconds in place of another whole run.

The driver is given a reserve of time. When the planned time is over the series so far is judged as it will be at the
end (`trial.assess`): a load that would be used is told that its time is over, as is one that more time cannot help. One
that still warms up goes on until it was steady for as long as a whole window, at most to the end of the reserve. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgdyno.model.trial import EXTENDED, LoadPlan, Outcome
from pgdyno.trial.assess import Bounds, settling
from pgdyno.workloads.result import CountBins

RESERVE_SHARE = 2.0
"""Of the planned time: an extension never takes longer than the two repetitions that it is there to save."""
MOST_STALE_SHARE = 0.25
"""Of the planned time; a log that lags behind by more (a driver writes some 100 lines at once) is not judged."""
MOST_WAIT_S = 1.0
"""Under a rate clients sleep until their turn, and see only then that the time is over: no reserve for long sleeps."""
CLOSING_S = 1.0
"""What is left of a time budget after an extension: the load's last transactions and its assessment."""


def reserve_s(plan: LoadPlan, *, left_s: float | None, repeats_extended: bool, beside_others: bool) -> float:
    """Return how many seconds a load may be extended by.

    `plan` is the load's, of whose duration the reserve is a share. `left_s` is how many seconds a time budget leaves
    for this load, planned time included, None without a budget. A run that repeats an extended one (`repeats_extended`)
    has no reserve: a load that never settles shall not cost twice as much as before. Nor has one that is used beside
    others as it is (`beside_others`), nor one under a rate at which a client sleeps for longer than MOST_WAIT_S.
    """
    waits_s = 0.0 if plan.rate is None else plan.connections / plan.rate
    if repeats_extended or beside_others or waits_s > MOST_WAIT_S:
        return 0.0
    reserve = RESERVE_SHARE * plan.duration_s
    return reserve if left_s is None else max(0.0, min(reserve, left_s - plan.duration_s - CLOSING_S))


@dataclass
class Extension:
    """Decides when a load has what it was begun for; `reason` is why it was not when its planned time was over."""

    plan: LoadPlan
    bounds: Bounds
    reserve_s: float
    reason: str = ""
    extended_s: float = 0.0

    @property
    def longest_s(self) -> float:
        """Return how long the load may last at most."""
        return self.plan.duration_s + self.reserve_s

    def is_over(self, elapsed_s: float, bins: CountBins | None, is_shared: bool = False) -> bool:
        """Tell whether the load's time is over after `elapsed_s`; `bins` are what its log holds by now.

        `is_shared` tells that others used the machine: it will be repeated for that, however long it lasts. To be
        asked once the planned time is over, and again each second while the answer is no.
        """
        self.extended_s = elapsed_s - self.plan.duration_s if self.reason else 0.0
        if elapsed_s >= self.longest_s or bins is None or is_shared:
            return True
        if elapsed_s - len(bins.counts) * bins.bin_s > MOST_STALE_SHARE * self.plan.duration_s:
            return True
        found = settling(bins, self.plan, self.bounds)
        if found.unsettled is not None:
            may_settle_s = found.may_settle_s
            if may_settle_s is None or may_settle_s > self.longest_s:
                return True
            self.reason = self.reason or found.unsettled
            return False
        return not self.reason or elapsed_s - found.settled_s >= self.plan.measure_s

    @property
    def sentence(self) -> str:
        """Return by how much the load was extended, and why."""
        return f"the load was extended by {self.extended_s:.1f} s; at the end of its planned time {self.reason}"

    def told(self, outcome: Outcome) -> Outcome:
        """Return the outcome with what it has to say of an extension, if there was one."""
        if not self.reason:
            return outcome
        counters, warnings = {**outcome.counters, EXTENDED: self.extended_s}, (*outcome.warnings, self.sentence)
        return replace(outcome, counters=counters, warnings=warnings)
