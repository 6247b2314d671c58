"""What a study does about others who use its machine: wait a little, look, then go on beside them.

One disturbed run is repeated at once: a cron job's minute is over soon. Two in a row say that somebody stays, and a
third, fourth, ninth repetition learns nothing. The study waits a bounded time until the machine is left to it; where
it is not, runs beside others are used and say so. Whether a run is used never depends on its figure or its arm, so
interleaved pairs stay fair: their intervals are wider, and hold.
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


@dataclass
class Company:
    """Counts disturbed runs in a row, recorded ones as well: a resumed study goes on as it would have."""

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
    def stays(self) -> bool:
        """Return whether the next run is used also where it is disturbed."""
        return self.in_a_row >= ENOUGH or self.waits >= MOST_WAITS

    @property
    def wants_wait(self) -> bool:
        """Return whether it is time to wait and look: before the first run that would be used beside others."""
        return self.in_a_row == ENOUGH and self.waits <= MOST_WAITS


def patience_s(budget_s: float | None) -> float:
    """Return how long one wait may take, in seconds; `budget_s` is the study's time budget, None without one."""
    return PATIENCE_S if budget_s is None else min(PATIENCE_S, BUDGET_SHARE * budget_s)


def wait_and_look(look: Look, watcher: Watcher, *, budget_s: float | None, timer: Callable[[], float]) -> None:
    """Wait until others have left the machine, at most `patience_s`, and say what was seen; `timer` counts seconds."""
    until = timer() + patience_s(budget_s)
    watcher.phase("waiting for the machine to become quiet")
    while (seen := look()) is not None and timer() < until:
        pass
    if seen is None:
        watcher.notice("two runs in a row were disturbed; the machine is quiet again")
    else:
        watcher.notice(f"two runs in a row were disturbed, and others stay: {seen}; runs beside them are used")
