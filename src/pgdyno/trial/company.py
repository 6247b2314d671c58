"""What a study does about others who use its machine: wait a little, look, then go on beside them.

One disturbed run is repeated at once: a cron job's minute is over soon. Two in a row say that somebody stays, and a
third, fourth, ninth repetition learns nothing. The study waits a bounded time until the machine is left to it; where
it is not, a study of interleaved pairs uses runs beside others and says so. Whether a run is used never depends on its
figure or its arm, so that pairs stay fair: their intervals are wider, and hold. Where a run that stands alone is not
used, it is repeated once more after the wait; from then on each run is made once, until the machine is quiet again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.model.trial import BESIDE_OTHERS, Outcome, TrialState
from pgdyno.trial.watcher import Watcher

Look = Callable[[], str | None]
"""Looks at the machine for some seconds and says what others do there, None where it is left to us."""
ENOUGH = 2
"""So many disturbed runs in a row say that whoever disturbs them stays."""
PATIENCE_S = 10.0
"""How long such a machine is waited for at most: about a run of a demo, which would else be lost as well."""
BUDGET_SHARE = 0.02
"""Of a time budget, one wait takes no more than this."""
MOST_WAITS = 3
"""After so many waits others come and go for as long as the study takes: it waits no more and repeats no more."""


def patience_s(budget_s: float | None) -> float:
    """Return how long one wait may take, in seconds; `budget_s` is the study's time budget, None without one."""
    return PATIENCE_S if budget_s is None else min(PATIENCE_S, BUDGET_SHARE * budget_s)


@dataclass
class Company:
    """Counts disturbed runs in a row, recorded ones as well: a resumed study goes on as it would have.

    Without a `look` the study insists on a machine of its own. `uses_beside`: it may use runs beside others.
    """

    look: Look | None = None
    uses_beside: bool = False
    in_a_row: int = 0
    waits: int = 0

    def note(self, outcome: Outcome) -> None:
        """Hear the outcome of a run; one that measured nothing says nothing of others."""
        if outcome.state is TrialState.DISTURBED or outcome.counters.get(BESIDE_OTHERS):
            self.in_a_row += 1
            self.waits += self.in_a_row == ENOUGH
        elif outcome.state in (TrialState.COMPLETE, TrialState.UNSTEADY):
            self.in_a_row = 0

    @property
    def uses_next(self) -> bool:
        """Return whether the next run is used also where it is disturbed."""
        return self.look is not None and self.uses_beside and (self.in_a_row >= ENOUGH or self.waits >= MOST_WAITS)

    @property
    def wants_wait(self) -> bool:
        """Return whether it is time to wait and look: before the first run that would be disturbed as well."""
        return self.look is not None and self.in_a_row == ENOUGH and self.waits <= MOST_WAITS

    @property
    def stayed(self) -> bool:
        """Return whether the run after the wait was disturbed as well: repeating one at once is of no use."""
        return self.look is not None and self.in_a_row > ENOUGH

    def wait(self, watcher: Watcher, *, budget_s: float | None, timer: Callable[[], float]) -> None:
        """Wait until others have left, at most `patience_s`, and say what was seen; `timer` counts seconds."""
        assert self.look is not None, "a study that insists waits for nobody"
        most_s = patience_s(budget_s)
        until = timer() + most_s
        watcher.phase("waiting for the machine to become quiet")
        if (seen := self.look()) is not None:
            watcher.notice(
                f"two runs in a row were disturbed; waiting {most_s:.0f} s at most for others to end: {seen}"
            )
        while seen is not None and timer() < until:
            seen = self.look()
        if seen is None:
            watcher.notice("after two disturbed runs in a row the machine is quiet again")
        else:
            then = "runs beside them are used" if self.uses_beside else "runs beside them are not used, nor repeated"
            watcher.notice(f"others stay: {seen}; {then}")
