"""The real world of a live study: a server under its users' load, switched through the undo session, watched by guards.

Between two readings nothing is done but to wait; each wait looks twenty times a second for a guard's breach and
the stop file, and twice for what the sessions do. Everything that ends an arm is an exception: the executor brings the
baseline back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, PgdynoError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.guard import Breach
from pgdyno.probes.statements import DatabaseTotals, Housework, SessionCounts
from pgdyno.stats.body_index import PeriodCounts, ServerUse, counts
from pgdyno.stats.statement_deltas import StatementDeltas, StatementSnapshot, VoidCause, deltas
from pgdyno.studies.live.course.moments import GUARD, PAUSE, REST, LiveCourse
from pgdyno.studies.live.others import OthersSettings
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.reference import AWAY_S, LATE_S
from pgdyno.studies.live.windows import RestartCount
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped, StopFile
from pgdyno.trial.live_guards import STEP_S, LiveGuards
from pgdyno.trial.sentry import GuardBreached, Sentry
from pgdyno.trial.watcher import Watcher
from pgdyno.undo.session import ServerSession
from pgdyno.units import plural

T = TypeVar("T")
TURN_S = 0.25
LOOK_S = 0.05
"""A breach waits for no longer than this to be seen; a look reads nothing of the server."""
SESSIONS_S = 0.5
QUIET_TURN_S = 1.0
APPLY_S = 300.0
"""Longer than this a reload hangs."""
OVERRUN_S = 60.0
"""So much later than its time a period is taken for hung."""
LOAD_LEFT = 0.3
"""Below this share of the reference's calls it is another load, and often none."""
WATCHED_S = 6.0
"""The end of a rest is watched for so long: what goes on in the baseline is no arm's doing."""


class SwitchReads(Protocol):
    """What switching needs of `probes.statements.StatementReader`."""

    def statements(self) -> StatementSnapshot:
        """Read the counters of all statements of others."""

    def sessions(self, since: float, begun: float) -> SessionCounts:
        """Count the sessions of others, and say when statements began, of those begun since a moment."""

    def databases(self) -> DatabaseTotals:
        """Return what all databases did."""

    def housework(self) -> Housework:
        """Return what the server does beside its statements."""

    def crossing(self, after: float, before: float) -> int:
        """Count the statements at work that began between two moments of the server's clock."""

    def reopen(self) -> None:
        """Open the session again where it was lost."""


@dataclass(slots=True)
class ServerWorld:
    """One server, as `switchback.LiveWorld`. `arms` are by name; `size` statements were there in the reference.

    `calls_a_second` are the reference's, `ends_at` is when the study's time is over, by `clock`. `dbname` is the
    database that most of the load's time is spent in: guards of errors, deadlocks and temporary files watch that.
    `cpu_s` returns the server's CPU seconds, `device_requests` what the disks of its host completed, None where they
    cannot be seen. `course` hears what goes on. `restarts` are counted where an arm may need one. Where it
    `keeps_session`, a comparison ends in the baseline and another one may follow. What it has waited for `quiet` times
    to end, `waited_s`, is not of the study's time.
    """

    session: ServerSession
    reader: SwitchReads
    sentry: Sentry
    guards: LiveGuards
    others: OthersSettings
    watcher: Watcher
    stop: StopFile
    arms: Mapping[str, Configuration]
    size: int
    calls_a_second: float
    dbname: str
    ends_at: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    quiet: QuietTimes = field(default_factory=QuietTimes)
    announce: Callable[[str], None] = lambda _text: None
    course: LiveCourse = field(default_factory=LiveCourse)
    keeps_session: bool = False
    restarts: RestartCount | None = None
    restarted: Callable[[], None] = lambda: None
    """Hears of each restart of ours, which has ended all sessions."""
    waited_s: float = 0.0
    cpu_s: Callable[[], float | None] = lambda: None
    device_requests: Callable[[], float | None] = lambda: None
    _watching: ExitStack = field(default_factory=ExitStack)
    _is_watched: bool = False
    """Whether the sentry ticks: without ticks its last breach, or the age of its last reading, says nothing of now."""
    _is_skipped: bool = False
    """The window was closing when the arm was to come: what is in force is another one."""
    _arm: str = BASELINE_ARM
    _switched_at: float = 0.0
    _server_at: float = 0.0
    _started: float = 0.0
    _last: StatementSnapshot | None = None
    _next_step: float = 0.0
    _next_sessions: float = 0.0
    _load_left: float = 1.0
    _ended_by: str = ""
    """What ended a session that was to be kept."""

    def apply(self, arm: str) -> None:
        """Bring an arm into force; see `LiveWorld.apply`. Where a window is about to close, `count` says so instead."""
        is_baseline = arm == BASELINE_ARM
        self.watcher.phase("back to the baseline" if is_baseline else f"switch to {arm}")
        if is_baseline:
            self._unwatch()  # whatever it says now: the way back is this one
        else:
            if self._ended_by:
                raise LiveStopped(self._ended_by)
            self._look()
            self._patiently(self.others.require_none)
            self._is_skipped = self._is_closing
            if self._is_skipped:
                return
        self.session.expect(f"switch to {arm or 'the baseline'}", APPLY_S)
        is_cold = self._bring(arm)
        self._arm, self._switched_at = arm, self.clock()
        self.course.switched(arm)
        if is_baseline:
            self.guards.back()
            self.session.expect("baseline")
            self.others.taken_back()
            return
        self._watch_anew(is_cold=is_cold)
        self._patiently(self.others.switched)
        self._last = self._read()
        self._server_at, self._started = self._last.at, self._last.started_at
        self.guards.switched(arm == B, self._server_at)

    def _bring(self, arm: str) -> bool:
        """Bring an arm into force and tell whether that took a restart; what was cached is gone then."""
        settings = BASELINE if arm == BASELINE_ARM else self.arms[arm]
        if self.restarts is None:
            self.session.apply(settings, restart="never")
            return False
        if arm == B and self._arm != B and not self.restarts.has_room(to_b=True):
            raise LiveStopped(
                f"{plural(self.restarts.most, 'restart')} were announced, and the last is for the way back"
            )
        self._unwatch()  # a restart ends its sessions
        is_b, started = arm == B, self._started_at()
        self.restarts.begin(is_b=is_b)
        try:
            applied = self.session.apply(settings)
        except PgdynoError:
            self.restarts.failed(is_b=self._arm == B, none=started is not None and started == self._started_at())
            raise
        if applied.restarted:
            self.restarts.count(applied.outage_s, is_b=is_b)
            self.restarted()
            self.quiet = replace(self.quiet, switch_s=self.restarts.longest_s or self.quiet.switch_s)
        else:
            self.restarts.settle(is_b=is_b)
        return applied.restarted

    def _started_at(self) -> float | None:
        seen = self._attempt(self.reader.statements)
        return None if seen is None else seen.started_at

    def wash(self, least_s: float, most_s: float) -> bool:
        """Wait until what began before the switch has ended; see `LiveWorld.wash`.

        A statement that is older than a period, three times `most_s`, is not waited for: it ends once, in whichever
        period, and one that takes so long is in no body.
        """
        if self._is_skipped or self._is_closing:
            return True
        self.watcher.phase(f"{self._arm}: wait for what began before the switch")
        self.session.expect("wash-out", most_s + OVERRUN_S)
        self._until(self._switched_at + least_s)
        while not self._is_closing and self._crossing(3 * most_s):
            if self.clock() >= self._switched_at + most_s:
                return False
            self._until(self.clock() + TURN_S)
        return True

    def count(self, seconds: float) -> PeriodCounts | VoidCause:
        """Count the statements of so many seconds; see `LiveWorld.count`."""
        if self._is_skipped or self._is_closing:
            return VoidCause.CLOSED
        self.watcher.phase(f"{self._arm}: count for {seconds:g} s")
        self.session.expect(f"count {self._arm}", seconds + AWAY_S + OVERRUN_S)
        self.guards.warm()
        used = self._use()
        before, began = self._read(), self.clock()
        if before.started_at != self._started:
            return VoidCause.RESTARTED  # in the wash-out: what is cached by now is too little
        self._until(began + seconds / 2)
        middle = self._read()
        self._until(began + seconds)
        after, ended = self._read(), self.clock()
        use = None if (now := self._use()) is None or used is None else now.since(used)
        self._patiently(self.others.require_none)
        if ended < began + seconds:
            return VoidCause.CLOSED
        found = deltas(before, after)
        if isinstance(found, VoidCause):
            return found
        if abs((after.at - before.at) - (ended - began)) > LATE_S or ended - began > seconds + LATE_S:
            return VoidCause.LATE
        half = deltas(before, middle)
        first = counts(half, self.size) if isinstance(half, StatementDeltas) else None
        period = replace(counts(found, self.size), first=first, use=use)
        if self._arm == A:  # what falls under B alone may be B's doing
            self._load_left = float(period.calls.sum()) / found.seconds / max(self.calls_a_second, 1e-9)
            self.guards.hold_against(period, found.seconds)
        return period

    def has_room(self, seconds: float) -> bool:
        """Tell whether so much more fits into the study's time and there is a load; see `LiveWorld.has_room`."""
        if self._load_left < LOAD_LEFT:
            raise LiveStopped(f"the load fell to {100 * self._load_left:.0f} % of the calls that the reference had")
        self._wait_for_quiet_times(seconds)
        return self.clock() + seconds <= self.ends_at

    def _wait_for_quiet_times(self, seconds: float) -> None:
        """Wait in the baseline while no pair of so many seconds is to begin."""
        why = self.quiet.why_wait(self.wall(), seconds)
        if not why:
            return
        if self._arm != BASELINE_ARM:
            self.apply(BASELINE_ARM)
        self.watcher.phase(f"wait in the baseline: {why}")
        self.announce(f"the server waits in its baseline: {why}")
        began = self.clock()
        with self.course.during(PAUSE, why):
            while self.quiet.why_wait(self.wall(), seconds):
                self.session.expect("a quiet time to end", OVERRUN_S)
                self.stop.look()
                self.sleep(QUIET_TURN_S)
        self.announce("continuing")
        self.ends_at += self.clock() - began
        self.waited_s += self.clock() - began

    def rest(self, seconds: float) -> None:
        """Leave the server alone, and see at the end that the baseline is well; see `LiveWorld.rest`."""
        ends_at = min(self.clock() + seconds, self.ends_at)
        self.watcher.phase(f"rest for {ends_at - self.clock():.0f} s in the baseline")
        self.session.expect("rest", seconds + OVERRUN_S)
        with self.course.during(REST, "after a guard's breach"):
            while self.clock() < ends_at - WATCHED_S:
                self.stop.look()
                self.sleep(TURN_S)
            self._watch_anew()
            self._last = self._read()
            self._until(ends_at)
            self._unwatch()

    def put_back(self) -> None:
        """End the session, or where it is kept the comparison: the server is as it was found.

        A baseline that cannot be read back, such as one that somebody else has changed meanwhile, ends a kept one, too.
        """
        if self.keeps_session:
            try:
                if self._arm != BASELINE_ARM:
                    self.apply(BASELINE_ARM)
                return
            except ApplyError as error:
                self._ended_by = error.message
        self._unwatch()
        self.watcher.phase("restore the server")
        restored = self.session.rollback()
        if self.restarts is not None and restored.restarted:
            self.restarts.count()
        self._arm = BASELINE_ARM
        self.course.ended()

    def _watch_anew(self, *, is_cold: bool = False) -> None:
        """Let the guards begin with this arm: what a rate says of the one before is not blamed on it."""
        self._unwatch()
        self.guards.begin(is_cold=is_cold)
        self._watching.enter_context(self.sentry.watch())
        self._is_watched = True
        self.sentry.load_begins(self.dbname)
        self._next_step = self.clock() + STEP_S
        self._next_sessions = self.clock()

    def _unwatch(self) -> None:
        self._is_watched = False
        self._watching.close()

    def _until(self, due: float) -> None:
        """Wait, with open eyes, and no longer than restarts are allowed."""
        while (now := self.clock()) < due and (self._arm == BASELINE_ARM or not self._is_closing):
            self._look()
            if now >= self._next_sessions:
                self._next_sessions = now + SESSIONS_S
                self._see_sessions()
            if now >= self._next_step:
                self._next_step = now + STEP_S
                self._see_statements()
            self.sleep(max(0.0, min(due - self.clock(), LOOK_S)))
        self._look()

    @property
    def _is_closing(self) -> bool:
        return self.restarts is not None and self.quiet.is_closing(self.wall())

    def _look(self) -> None:
        try:
            if self._is_watched:
                self.sentry.check()
        except GuardBreached as error:
            self.course.happened(GUARD, str(error.breach))
            raise
        self.stop.look()

    def _see_sessions(self) -> None:
        seen = self._attempt(lambda: self.reader.sessions(0.0, self.guards.since))
        if seen is not None:
            self._raise(self.guards.sessions(self.clock(), seen.active, seen.blocked, seen.at, seen.begun))
            self.watcher.guards((*self.sentry.indicators, *self.guards.indicators))

    def _see_statements(self) -> None:
        now = self._attempt(self.reader.statements)
        if (found := self._attempt(self.reader.housework)) is not None:
            self.course.saw(found)
        before, self._last = self._last, now
        if now is None or before is None:
            return
        if now.loaded_at != before.loaded_at:  # where it is away again, the end of the period looks
            self._attempt(self.others.require_none)
        step = deltas(before, now)
        if isinstance(step, StatementDeltas):
            self._raise(self.guards.statements(self.clock(), counts(step, self.size)))

    def _use(self) -> ServerUse | None:
        totals, cpu_s = self._attempt(self.reader.databases), self.cpu_s()
        if totals is None:
            return None
        cpu_ms = None if cpu_s is None else 1000 * cpu_s
        sums = totals.temp_bytes, totals.wal_bytes, totals.blocks_read
        return ServerUse(totals.active_ms, cpu_ms, *sums, self.device_requests())

    def _crossing(self, since_s: float) -> bool:
        found = self._attempt(lambda: self.reader.crossing(self._server_at - since_s, self._server_at))
        return found is None or found > 0

    def _attempt(self, read: Callable[[], T]) -> T | None:
        """Read once; None where the server does not answer just now, which is for the guards to judge."""
        try:
            with self.sentry.interrupting() if self._is_watched else nullcontext():
                self.reader.reopen()
                return read()
        except EnvironmentUnsuitable:
            return None

    def _read(self) -> StatementSnapshot:
        return self._patiently(self.reader.statements)

    def _patiently(self, read: Callable[[], T]) -> T:
        """Read once; when the server is away, as soon as it is back. Raises EnvironmentUnsuitable at last."""
        deadline = self.clock() + AWAY_S
        while (found := self._attempt(read)) is None:
            if self.clock() >= deadline:
                raise EnvironmentUnsuitable(
                    f"the server could not be read for {AWAY_S:g} s",
                    hint="See the server's log; pgdyno live --watch-only says whether it can be watched.",
                )
            self._look()
            self.sleep(TURN_S)
        return found

    def _raise(self, breach: Breach | None) -> None:
        """Raise what was judged by a clock that nobody sets, with the time for people."""
        if breach is not None:
            self.course.happened(GUARD, str(breach))
            now = time.time()
            raise GuardBreached(replace(breach, at=now, began_at=now - (breach.at - breach.began_at)))
