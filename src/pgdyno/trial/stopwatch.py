"""The wall clock of a study with a time budget: from the start of the process to its end, the way back included.

Decisions go by where the clock stood when the last trial ended, which each trial keeps: a resumed study replays them
and decides the same (docs/adr/0008-resume-by-replay.md). What is cut off goes by the clock itself.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pgdyno.linux import processes
from pgdyno.model.trial import ENDED_EARLY, EXTENDED, OUTAGE, Outcome
from pgdyno.units import plural, seconds_text

WALL = "wall_s"
"""Among an outcome's counters: how much of the study's time budget was used when the trial ended, in seconds."""
KEPT_CLOSING, KEPT_RESTART = "closing_s", "way_back_restart_s"
"""Among them too: what was kept for the way back, of which a resume must keep the same to decide the same."""
CLOSING_S = 6.0
"""Kept, at least, for what follows the last trial beside restarts: files, read-back, result, report, exit."""
FIRST_RESTART_S = 5.0
"""Taken for a restart until one was measured or is expected otherwise."""
_STRANGE_AGE_S = 60.0


class BudgetSpent(KeyboardInterrupt):
    """The time budget is over: whatever runs is given up as on Ctrl-C, and what was measured is concluded from."""


class Stopwatch:
    """Counts the time of one study; `began` is when its process started, by `clock` (seconds).

    `end_s` is where trials must be over, so that the way back fits into `budget_s`: that keeps two restarts, because
    one may be under way, and `closing_s`.
    """

    def __init__(self, budget_s: float, *, began: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget_s = budget_s
        self.restart_s = FIRST_RESTART_S
        self.trials = 0
        self._whole, self._whole_s = 0, 0.0
        self.longest_s = 0.0
        self._measured_restart_s: float | None = None
        self._clock = clock
        self._began = began
        self._before_s = 0.0
        self._start_s: float | None = None
        self.position_s = self.now_s()
        # A machine that was slow to start this process is as slow to end it.
        self.closing_s = CLOSING_S + min(self.position_s, budget_s / 4)

    def now_s(self) -> float:
        """Return how much of the budget is used, by the clock."""
        return self._before_s + self._clock() - self._began

    def counters(self) -> dict[str, float]:
        """Return what a trial that ends now keeps of it."""
        return {WALL: self.now_s(), KEPT_CLOSING: self.closing_s, KEPT_RESTART: self.restart_s}

    @property
    def end_s(self) -> float:
        """Return where in the budget the last trial must be over."""
        return max(0.0, self.budget_s - 2 * self.restart_s - self.closing_s)

    def left_s(self) -> float:
        """Return how long trials may still take, by the clock; below 0 where they took too long."""
        return self.end_s - self.now_s()

    @property
    def start_s(self) -> float:
        """Return where in the budget the first trial began; before one, where the clock stands."""
        return self.position_s if self._start_s is None else self._start_s

    @property
    def trial_s(self) -> float:
        """Return the mean time from one trial's end to the next one's, of whole ones; 0 before the first."""
        return self._whole_s / self._whole if self._whole else 0.0

    def expect_restart(self, seconds: float) -> None:
        """Take a restart for this long until one was measured."""
        if self._measured_restart_s is None:
            self.restart_s = max(self.restart_s, seconds)

    def mark(self, outcome: Outcome, *, recorded: bool) -> None:
        """Note the end of a trial; a recorded one stands where it stood when it was measured."""
        if recorded:
            self.closing_s = outcome.counters.get(KEPT_CLOSING, self.closing_s)
            self.restart_s = outcome.counters.get(KEPT_RESTART, self.restart_s)
            self._before_s = outcome.counters.get(WALL, self.position_s + outcome.elapsed_s)
            position = self._before_s
        else:
            position = outcome.counters.get(WALL, self.now_s())
        if self._start_s is None:
            self._start_s = max(0.0, position - outcome.elapsed_s)
            self.position_s = self._start_s
        self.trials += 1
        # No extension goes beyond the end of the time, however late a trial begins.
        self.longest_s = max(self.longest_s, position - self.position_s - outcome.counters.get(EXTENDED, 0.0))
        if not outcome.counters.get(ENDED_EARLY):  # a proof has none that are cut short
            self._whole += 1
            self._whole_s += position - self.position_s
        self.position_s = position
        outage = outcome.counters.get(OUTAGE)
        if outage is not None:
            self._measured_restart_s = max(self._measured_restart_s or 0.0, outage)
            self.restart_s = self._measured_restart_s

    def share_s(self, share: float) -> float:
        """Return the place in the budget at which this share of the time for trials is used."""
        return self.start_s + share * max(0.0, self.end_s - self.start_s)

    def has_room(self, trials: int, *, until_s: float | None = None) -> bool:
        """Tell whether so many trials more will be over by `until_s`, None the end, each as long as they are here.

        The last of them is taken to be as long as the longest one so far.
        """
        if not self.trials:
            return self.position_s < self.end_s
        return self.position_s + self._needed_s(trials) <= (self.end_s if until_s is None else until_s)

    def _needed_s(self, trials: int) -> float:
        return (trials - 1) * self.trial_s + max(self.longest_s, self.trial_s)

    def shortage(self, trials: int) -> str:
        """Say by figures that so many trials more have no room: how long they take, and how much is left for them."""
        left = max(0.0, self.end_s - self.position_s)
        took = f"take {seconds_text(self._needed_s(trials))}" if self.trials else "cannot be begun"
        return (
            f"{plural(trials, 'trial')} {took}, and {seconds_text(left)} of the {seconds_text(self.budget_s)} are left"
        )


class Alarm:
    """Raises BudgetSpent in the main thread when the clock reaches the end of the time for trials."""

    def __init__(self, watch: Stopwatch | None) -> None:
        self._watch = watch

    @contextmanager
    def ringing(self) -> Iterator[None]:
        """Let it ring inside the block. Without a stopwatch, and outside of the main thread, nothing is done."""
        if self._watch is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(_number: int, _frame: FrameType | None) -> None:
            assert self._watch is not None, "it is set only with a stopwatch"
            left_s = self._watch.left_s()
            if left_s > 0:  # restarts were measured to be shorter than was taken before
                signal.setitimer(signal.ITIMER_REAL, left_s)
                return
            raise BudgetSpent(f"the time budget of {seconds_text(self._watch.budget_s)} was over")

        before = signal.signal(signal.SIGALRM, ring)
        try:
            self.wind()
            yield
        finally:
            self.stop()
            signal.signal(signal.SIGALRM, before)

    def wind(self) -> None:
        """Set it again, after the length of a restart became known."""
        if self._watch is not None:
            signal.setitimer(signal.ITIMER_REAL, max(self._watch.left_s(), 0.001))

    def stop(self) -> None:
        """Let it ring no more: what follows is the way back."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def process_began() -> float:
    """Return when this process was started, as `time.monotonic` counts; now where the kernel's word is strange."""
    stat = processes.read_stat(os.getpid())
    if stat is None:
        return time.monotonic()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started_ticks / processes.TICKS_PER_S
    return time.monotonic() - (age if 0 <= age <= _STRANGE_AGE_S else 0.0)
