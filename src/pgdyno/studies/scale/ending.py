"""When a scalability study ends before its time: its seconds are over, or its stop file is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.trial.stopwatch import BudgetSpent
from pgdyno.units import seconds_text


class EarlyEnd:
    """Asked before each run and about once a second within one."""

    def __init__(
        self, max_seconds: float, stop_file: Path | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_seconds, self._stop_file, self._clock = max_seconds, stop_file, clock
        self._began = clock()

    def reason(self, needed_s: float = 0.0) -> str:
        """Return why the study ends now, or before a run of so many seconds; empty while it goes on."""
        if self._stop_file is not None and self._stop_file.exists():
            return f"the stop file {self._stop_file} exists"
        if self._clock() - self._began + needed_s > self._max_seconds:
            return f"the time limit of {seconds_text(self._max_seconds)} was reached"
        return ""

    def check(self) -> None:
        """Raise BudgetSpent where the study ends now: the run under way is given up, and the server put back."""
        if why := self.reason():
            raise BudgetSpent(why)
