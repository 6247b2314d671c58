"""The guards of a live study, whose load has no driver: do its statements still end, and in which time? Pure.

A statement that began under B and does not end is B's, whichever arm is in force by then.

From a switch to the breach it takes two windows' worth of readings at the most, so that a change that cripples the load
is taken back within ten seconds. What is read of sessions and statements is handed in; a breach is the caller's to
carry out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.model.guard import Absent, Breach, GuardPlan, GuardReading, Indicator
from pgdyno.model.guard_table import LIVE_GUARDS
from pgdyno.stats.body_index import PeriodCounts, StatementBody
from pgdyno.trial.guards import GuardStatus, judge
from pgdyno.units import agreeing, digits_text, plural, seconds_text

STEP_S = 2.0
"""Statements are read so often while an arm is in force."""
STEPS = 2
"""A window is so many readings."""
FEWEST = 20
"""Fewer calls of the body in a window say nothing ..."""
USUAL = 40
"""... unless the reference had so many."""
CORES_SHARE = 4 / 3
SHORT_S = 6.0
"""A load whose statements are all shorter than this is taken for one with such a statement."""
FEW_BLOCKED = 5 / 3
"""As SHORT_S, of sessions that wait for locks."""
OF_B = frozenset({"oldest-statement"})
"""What these guards watch is of B alone."""
BURST = 1.5
"""Where so many times the usual calls end, the server has more to do: what then takes longer is no arm's doing."""
COLD = 4.0
"""In the wash-out after a restart, whichever arm it is of: what was cached is read again. Nobody has measured it."""
UNKNOWN_CORES = 16
"""Taken where the host is not seen: rather a late alarm than one for a burst."""


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """What is usual: `calls_a_second` of the body, and sessions at work, 95 and 99 % of the time at most.

    `longest_s` is the longest statement, `most_blocked` how many sessions at most waited for locks.
    """

    body: StatementBody
    calls_a_second: float
    active_p95: float
    active_p99: float
    cores: int | None
    longest_s: float
    most_blocked: int


@dataclass(slots=True)
class LiveGuards:
    """The status of the guards since the last switch. Times are seconds of the caller's clock."""

    load: LiveLoad
    plan: GuardPlan
    _steps: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=STEPS))
    _active: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=int(STEP_S / 0.5)))
    _statuses: Mapping[str, GuardStatus] = field(default_factory=dict)
    _usual: float = 1.0
    _ease: float = 1.0
    _usual_calls: float = 0.0
    """Calls a second of the latest whole period of A."""
    _spans: list[list[float]] = field(default_factory=list)
    """From when to when B was in force since the baseline was, by the server's clock."""

    def begin(self, *, is_cold: bool = False) -> None:
        """Forget what was before a switch; after a restart, until `warm`, statements may take COLD times as long."""
        self._ease = COLD if is_cold else 1.0
        self._steps.clear()
        self._active.clear()
        self._statuses = {}

    def warm(self) -> None:
        """Hear that the wash-out is over: what is slow from now on is slow."""
        self._ease = 1.0

    def switched(self, is_b: bool, at: float) -> None:
        """Hear that B came into force, or A, at this moment by the server's clock."""
        if self._spans:
            self._spans[-1][1] = min(self._spans[-1][1], at)
        if is_b:
            self._spans.append([at, math.inf])

    def back(self) -> None:
        """Hear that the baseline is in force again: what began before is not watched any more."""
        self._spans.clear()

    @property
    def since(self) -> float:
        """Return from when on statements are told by when they began, by the server's clock."""
        return self._spans[0][0] if self._spans else math.inf

    def hold_against(self, period: PeriodCounts, seconds: float) -> None:
        """Hear a whole period of A of so many seconds: where the server is slower anyhow, that is no arm's doing.

        A load that has grown since the reference is no burst either.
        """
        calls, observed, expected = self._sums(period)
        self._usual = max(1.0, observed / expected) if expected > 0 else 1.0
        self._usual_calls = calls / seconds if seconds > 0 else 0.0

    @property
    def statement_time(self) -> float:
        """Return the latest reading of statement-time, 0 where it could not be told."""
        status = self._statuses.get("statement-time")
        value = None if status is None else status.reading.value
        return value if isinstance(value, float) else 0.0

    @property
    def indicators(self) -> tuple[Indicator, ...]:
        """Return the indicators of the latest readings."""
        return tuple(status.indicator for status in self._statuses.values())

    def sessions(
        self, t: float, active: int, blocked: int = 0, at: float = 0.0, begun: Sequence[float] = ()
    ) -> Breach | None:
        """Hear how many sessions are at work and wait for locks, and when statements began, `at` the server's clock.

        `t` is now by the caller's clock and `at` by the server's, in seconds. Of the `active` sessions `blocked` wait
        for a lock. `begun` says when statements that still run began, by the server's clock; it is empty where there
        are none. Return the breach that it is, if it is one.
        """
        self._active.append((t, active))
        cores = self.load.cores or UNKNOWN_CORES
        usual = max(1.0, self.load.active_p99, CORES_SHARE * cores)
        queued = max(0, active - blocked)  # who waits for a lock is of lock-waits
        about = f"{plural(queued, 'session')} at work, {digits_text(usual)} are usual{self._burst_text}"
        value = (min(1.0, queued / usual) if self._burst_text else queued / usual) / self._ease
        readings = [GuardReading("backlog", t, value, about=about), self._oldest(t, at, begun)]
        about = f"{agreeing(blocked, 'session', 'waits', 'wait')} for locks, {self.load.most_blocked} did at most"
        readings.append(GuardReading("lock-waits", t, blocked / max(FEW_BLOCKED, self.load.most_blocked), about=about))
        return next((breach for breach in map(self._stand, readings) if breach is not None), None)

    def _oldest(self, t: float, at: float, begun: Sequence[float]) -> GuardReading:
        age_s = max((at - one for one in begun if any(begin <= one < end for begin, end in self._spans)), default=0.0)
        usual_s = max(SHORT_S, self.load.longest_s)
        about = f"a statement of B has run for {seconds_text(age_s)}, {seconds_text(usual_s)} are usual"
        return GuardReading("oldest-statement", t, age_s / usual_s, about=about)

    def statements(self, t: float, step: PeriodCounts) -> Breach | None:
        """Hear what ended since the reading before; return the breach that it is, if it is one."""
        self._steps.append(self._sums(step))
        return self._stand(self._statement_time(t))

    def _statement_time(self, t: float) -> GuardReading:
        calls, observed, expected = (sum(column) for column in zip(*self._steps, strict=True))
        usual_calls = self.load.calls_a_second * STEP_S * len(self._steps)
        found: list[tuple[float, str]] = []
        if expected > 0 and (calls >= FEWEST or (usual_calls >= USUAL and calls >= STEPS)):
            about = f"{digits_text(observed / calls)} ms a call, {digits_text(expected / calls)} in the reference"
            value = observed / expected / self._usual
            value = min(1.0, value) if self._burst_text else value
            found.append((value, f"{about}{self._burst_text}"))
        at_work = min((active for _, active in self._active), default=0)
        if calls < FEWEST and usual_calls >= USUAL and at_work >= max(1.0, self.load.active_p95):
            about = (
                f"{plural(f'{calls:.0f}', 'call')} ended while {agreeing(at_work, 'session', 'was', 'were')} at work, "
                f"{usual_calls:.0f} are usual"
            )
            found.append((usual_calls / (calls + 1), about))
        if not found:
            return GuardReading("statement-time", t, Absent("too few statements ended to tell"))
        # The few that ended may have begun before the switch: they are no proof that others will end, too.
        value, about = max(found)
        return GuardReading("statement-time", t, value / self._ease, about=about)

    @property
    def _burst_text(self) -> str:
        """Return that more work than usual is done just now, in words; empty where it is not."""
        if not self._steps:
            return ""
        calls = sum(one[0] for one in self._steps) / (STEP_S * len(self._steps))
        usual = max(self.load.calls_a_second, self._usual_calls)
        if calls < BURST * usual or usual * STEP_S < USUAL:
            return ""
        return f"; a burst: {digits_text(calls / usual)} times the usual calls end"

    def _sums(self, step: PeriodCounts) -> tuple[float, float, float]:
        """Return calls, milliseconds and the reference's milliseconds of the body's statements."""
        body = self.load.body
        calls, time_ms = step.calls[body.ids], step.time_ms[body.ids]
        return float(calls.sum()), float(time_ms.sum()), float((calls * body.mean_ms).sum())

    def _stand(self, reading: GuardReading) -> Breach | None:
        now = judge([reading], self.plan, self._statuses, LIVE_GUARDS)
        self._statuses = {**self._statuses, **now}
        return now[reading.name].breach
