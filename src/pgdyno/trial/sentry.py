"""The sentry: a thread that reads the guards twice a second while a configuration is in force, and says when to stop.

sentry.begin()              once a session, before the first change: refuses where a guard is in breach already
with sentry.watch():        from a configuration in force to the end of its trial
    sentry.check()          often; raises GuardBreached after a breach, and when the readings are too old
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.guard import (
    Breach,
    Concurrent,
    Failed,
    GuardPlan,
    GuardReading,
    Indicator,
)
from pgdyno.model.guard_table import GUARDS, WINDOW_S
from pgdyno.model.live import Colour
from pgdyno.probes.guards.reader import UNSEEN, GuardedLoad, Tick
from pgdyno.trial.guard_history import History, Origin
from pgdyno.trial.guard_quantities import readings, with_clients
from pgdyno.trial.guards import OFF_BY_USER, GuardStatus, judge, limit_of
from pgdyno.workloads.protocol import LoadReading

TICK_S = 0.5
SHORTEST_S = 0.1
"""Between two ticks there is at least this much, however long the first one took."""
STALE_LOAD_S = 3.0
"""A load that has reported nothing for this long, where it should each second, is taken to do nothing."""
SECOND_S = 1.0
"""Between the two readings that rates are taken from."""
OVERSLEPT_S = 1.0
"""When nobody checked for this long, this process itself did not run: readings then get a new chance to come in."""
_NUDGE = signal.SIGURG
"""Ends a system call that began just after the interrupt came, which Python would otherwise notice at its end."""


class GuardBreached(PgdynoError):
    """A guard tripped: the load must end and the baseline come back. Never reaches a user as it is."""

    def __init__(self, breach: Breach) -> None:
        super().__init__(str(breach))
        self.breach = breach


class Reads(Protocol):
    """What the sentry needs of `probes.guards.reader.GuardReader`."""

    def read(self, t: float, load: GuardedLoad | None = None) -> Tick:
        """Read everything now; never raise for what host or server do."""

    def watch_database(self, name: str) -> None:
        """Read the counters of the load's database from now on."""

    def close(self) -> None:
        """End the session with the server."""


class GuardBell:
    """A descriptor that can be read from the first `ring` on. It ends with the object."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Wake whoever waits for the descriptor."""
        os.eventfd_write(self.descriptor, 1)

    def __del__(self) -> None:
        """Close it."""
        os.close(self.descriptor)


class Sentry:
    """Watches one server through `reader`. One thread, between `watch` and its end; safe to ask from another.

    `clock` gives seconds since the epoch. Reads only: what follows from a breach is the laboratory's to do.
    """

    def __init__(
        self,
        reader: Reads,
        plan: GuardPlan | None = None,
        *,
        clock: Callable[[], float] = time.time,
        tick_s: float = TICK_S,
    ) -> None:
        self.plan = plan or GuardPlan()
        self._reader = reader
        self._clock = clock
        self._tick_s = tick_s
        self._patience_s = limit_of(GUARDS["readings"], self.plan, None) or 0.0
        given = self.plan.limits.get("replication-lag")
        lag_s = GUARDS["replication-lag"].default if given is None or given.value is None else given.value
        self._keep_s = max(2 * WINDOW_S, lag_s + WINDOW_S)
        self._origin = Origin()
        self._concurrent: Concurrent | None = None
        self._history = History(self._origin)
        self._statuses: Mapping[str, GuardStatus] = {}
        self._breach: Breach | None = None
        self._load: tuple[float, LoadReading | None] | None = None
        self._is_captured = False
        self._ticked = self._checked = 0.0
        self._lock = threading.Lock()
        self._interrupts: int | None = None
        self._is_interrupted = False
        self._thread: threading.Thread | None = None
        self._alarm = GuardBell()
        self._early: Tick | None = None

    def begin(self, clients: int = 0, sleep: Callable[[float], object] = time.sleep) -> tuple[Indicator, ...]:
        """Read how things stand before the first change and return the indicators; takes a second, for rates.

        After `look_early` it takes what is left of that second. What a preparation did to memory or a standby is no
        reason to refuse a session: a breach seen over it is looked at again. Raises EnvironmentUnsuitable when a guard
        is in breach already, when something cannot be read, or when the load's `clients` would breach guard
        connections.
        """
        statuses = self._since_early(clients, sleep)
        if statuses is None or any(one.breach is not None for one in statuses.values()):
            first, second = _twice(self._reader, self._clock, sleep)
            self._origin = Origin.of(first, second)
            statuses = _judged(first, second, self.plan, clients)
        for status in statuses.values():
            if status.breach is not None:
                raise _refusal(status.breach)
            if isinstance(status.reading.value, Failed):
                raise _blind(status.reading.name, status.reading.value)
        self._statuses = statuses
        return self.indicators

    def look_early(self) -> None:
        """Take the first of the two readings of `begin` now, because a preparation comes between them."""
        try:
            self._early = self._reader.read(self._clock())
        finally:
            self._reader.close()

    def _since_early(self, clients: int, sleep: Callable[[float], object]) -> Mapping[str, GuardStatus] | None:
        """Return how the guards stand by the early reading and one of now; None without one that rates can use."""
        early, self._early = self._early, None
        if early is None or not 0 <= self._clock() - early.t <= WINDOW_S - SECOND_S:
            return None
        sleep(max(0.0, early.t + SECOND_S - self._clock()))
        try:
            now = self._reader.read(self._clock())
        finally:
            self._reader.close()
        self._origin = Origin.of(now)
        return _judged(early, now, self.plan, clients)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Tick until the block ends. Raises EnvironmentUnsuitable when the last block's thread never came back."""
        if self._thread is not None:
            self._thread.join(self._patience_s)
        if self._thread is not None and self._thread.is_alive():
            raise EnvironmentUnsuitable(
                "a reading of the guards did not return",
                detail="Nothing is measured on a server that cannot be watched.",
                hint="Look at the server's log and at its host before you try again.",
            )
        self._history, self._statuses, self._breach, self._load = History(self._origin), {}, None, None
        self._alarm = GuardBell()
        self._ticked = self._checked = self._clock()
        stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(stopping,), name="pgdyno-sentry", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            stopping.set()
            # One that hangs in a query of a frozen server ends with that server's restart. The baseline does not wait
            # for it: the next watch does.
            self._thread.join(SHORTEST_S)

    @property
    def indicators(self) -> tuple[Indicator, ...]:
        """Return the indicators of the latest tick, in the order of the guards' table."""
        return tuple(status.indicator for status in self._statuses.values())

    @property
    def breach(self) -> Breach | None:
        """Return the first breach since `watch` began."""
        return self._breach

    @property
    def alarm(self) -> int:
        """Return a descriptor that can be read once a guard has tripped, until the next `watch`."""
        return self._alarm.descriptor

    @property
    def patience_left_s(self) -> float:
        """Return for how many seconds `check` would hold if no tick came any more."""
        return self._ticked + self._tick_s + self._patience_s - self._clock()

    def compare_with(self, concurrent: Concurrent | None) -> None:
        """Hold running loads against these baseline trials from now on."""
        self._concurrent = concurrent

    def load_begins(self, dbname: str, *, is_captured: bool = False) -> None:
        """Watch the counters of the load's database from now on, and the load itself.

        What a captured load rolled back in its capture is not held against the server.
        """
        self._reader.watch_database(dbname)
        self._is_captured = is_captured  # first: the thread that ticks reads it with the load
        self._load = self._clock(), None

    def load_reads(self, reading: LoadReading | None) -> None:
        """Hear the running load's latest reading."""
        if self._load is not None:
            self._load = self._load[0], reading

    def load_ended(self) -> None:
        """Hear that no load runs any more."""
        self._load = None

    def check(self) -> None:
        """Raise GuardBreached when a guard has tripped, or when the last complete tick is too old. Cheap."""
        now = self._clock()
        if now - self._checked > OVERSLEPT_S:
            self._ticked = max(self._ticked, now)
        self._checked = now
        age = now - self._ticked
        if self._breach is None and age > self._tick_s + self._patience_s:
            self._breach = _silence(now, age, self._patience_s)
        if self._breach is not None:
            raise GuardBreached(self._breach)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a breach interrupt what the caller waits for in the block, as Ctrl-C does.

        For work that does not call `check`, such as cloning the data. KeyboardInterrupt comes out as GuardBreached
        when a guard tripped. Works in the main thread, where Python handles signals; elsewhere the block runs on and
        the breach is raised at its end.
        """
        main = threading.main_thread()
        is_main = threading.current_thread() is main
        before = signal.signal(_NUDGE, lambda *_: None) if is_main else None
        with self._lock:
            self._interrupts, self._is_interrupted = main.ident if is_main else None, False
        try:
            yield
            self._checked = self._clock()
            self.check()
        except KeyboardInterrupt:
            if self._breach is None:
                raise
            raise GuardBreached(self._breach) from None
        finally:
            with self._lock:
                self._interrupts = None
            if is_main:
                signal.signal(_NUDGE, before)

    def _run(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                began = time.monotonic()
                self._tick(stopping)
                stopping.wait(max(SHORTEST_S, self._tick_s - (time.monotonic() - began)))
        finally:
            self._reader.close()

    def _tick(self, stopping: threading.Event) -> None:
        tick = self._reader.read(self._clock(), self._load_state())
        if stopping.is_set():
            return
        self._history = self._history.then(tick, self._keep_s)
        self._origin = self._history.origin
        self._statuses = judge(readings(self._history, self._concurrent), self.plan, self._statuses)
        self._ticked = self._clock()
        if self._breach is None:
            self._breach = next((s.breach for s in self._statuses.values() if s.breach is not None), None)
        if self._breach is not None:
            self._alarm.ring()
            self._interrupt()

    def _load_state(self) -> GuardedLoad | None:
        load = self._load
        if load is None:
            return None
        began_at, reading = load
        if reading is None:
            return GuardedLoad(began_at, None, None, 0, 0, self._is_captured)
        tps = reading.tps if self._clock() - reading.t <= STALE_LOAD_S else 0.0
        return GuardedLoad(
            began_at, tps, reading.p99_ms, reading.transactions, reading.failed, self._is_captured,
            reading.captured_deadlocks,
        )  # fmt: skip

    def _interrupt(self) -> None:
        with self._lock:
            if self._interrupts is not None:
                signal.pthread_kill(self._interrupts, _NUDGE if self._is_interrupted else _interrupting_signal())
                self._is_interrupted = True


def _interrupting_signal() -> signal.Signals:
    """Return the signal that raises KeyboardInterrupt here: a shell has what it starts with & ignore SIGINT."""
    return signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT


def status_now(
    reader: Reads, plan: GuardPlan, *, clock: Callable[[], float], sleep: Callable[[float], object]
) -> dict[str, GuardStatus]:
    """Return how the guards stand outside of any trial, by their names; takes a second, for rates.

    `reader` reads twice, `plan` has the limits that a user set, `clock` and `sleep` count seconds.
    """
    return _judged(*_twice(reader, clock, sleep), plan)


def _twice(reader: Reads, clock: Callable[[], float], sleep: Callable[[float], object]) -> tuple[Tick, Tick]:
    try:
        first = reader.read(clock())
        sleep(SECOND_S)
        return first, reader.read(clock())
    finally:
        reader.close()


def _judged(first: Tick, second: Tick, plan: GuardPlan, clients: int = 0) -> dict[str, GuardStatus]:
    found = readings(History(Origin.of(first, second), (first, second)))
    return judge([with_clients(reading, second, clients) for reading in found], plan)


def off_text(indicators: Sequence[Indicator]) -> str:
    """Return one line for people: which guards watch, which wait, which never will, and which the user switched off."""
    off = [indicator for indicator in indicators if indicator.colour is Colour.OFF]
    by_user = [indicator.name for indicator in off if indicator.text == OFF_BY_USER]
    unseen = [indicator for indicator in off if indicator.text in UNSEEN]
    waiting = [indicator.name for indicator in off if indicator.text not in (OFF_BY_USER, *UNSEEN)]
    text = f"guards: {len(indicators) - len(off)} watch"
    text += f"; nothing to watch yet for {', '.join(waiting)}" if waiting else ""
    text += f"; NOT WATCHED: {', '.join(one.name for one in unseen)} ({unseen[0].text})" if unseen else ""
    return text + (f"; SWITCHED OFF by --guard: {', '.join(by_user)}" if by_user else "")


def _refusal(breach: Breach) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f"{breach}, before anything was changed",
        detail=GUARDS[breach.name].reason,
        hint=f"Fix the cause, or set another limit: --guard {breach.name}=VALUE. Run pgdyno guards for all readings.",
    )


def _blind(name: str, failed: Failed) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f"guard {name} cannot see: {failed.reason}",
        detail="Nothing is changed on a server that cannot be watched.",
        hint="Run pgdyno guards to see what each guard reads.",
    )


def _silence(now: float, age: float, patience_s: float) -> Breach:
    guard = GUARDS["readings"]
    words = f"no complete reading for {age:.1f} s: the server or its host does not answer"
    reading = GuardReading(guard.name, now, age)
    return Breach(guard.name, guard.kind, now, now - age, reading, patience_s, words)
