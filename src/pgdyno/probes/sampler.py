"""The sampler: a thread that reads host, server and driver once a second on a schedule that does not drift."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.linux.small_files import KeptFiles
from pgdyno.model.facts import Unknown
from pgdyno.model.samples import Event, SampleRow
from pgdyno.probes import happenings
from pgdyno.probes.failure_log import ASKED_OF_THE_LOG, LogWatch, explained
from pgdyno.probes.host import neighbours
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.neighbours import Neighbour
from pgdyno.probes.host.process import DriverCpu
from pgdyno.probes.host.reading import PROC, SYS, TICKS_PER_S, HostCounters, parse_host, read_host, unread_host
from pgdyno.probes.host.reading import rows as host_rows
from pgdyno.probes.latest import latest_text
from pgdyno.probes.network_path import path_counters
from pgdyno.probes.observer import OBSERVER_DATABASE, Observer
from pgdyno.probes.views import ViewsReading, server_rows, statement_rows
from pgdyno.server.postmaster_lock import postmaster_pid
from pgdyno.store.sampled_rows import KeptRows
from pgdyno.targets.target import Target

STOP_PATIENCE_S = 15.0
"""How long `stop` waits for the last tick: longer than the session's timeout for statements, 5 s a view that hangs."""
RECOVERY_PATIENCE_S = 8.0
"""How long `stop` waits for a server that is gone: a crash recovery without much WAL takes a second or two."""
_SHORTEST = 0.25
"""A tick this small a part of the interval after another is left out: its rates would be noise."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What sampling cost: ticks made and skipped, CPU seconds of the thread, seconds per tick."""

    ticks: int = 0
    skipped: int = 0
    cpu_s: float = 0.0
    mean_tick_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Everything that was sampled, in the order of time; `path` are counters of the way there (`path_counters`).

    `neighbours` are the processes of others that used most CPU on the server's host; `driver_is_here` is False when the
    load generator ran on another machine than the one that was sampled.
    """

    rows: Collection[SampleRow]
    events: list[Event]
    overhead: Overhead
    path: Mapping[str, float] = field(default_factory=dict)
    neighbours: tuple[Neighbour, ...] = ()
    driver_is_here: bool = True


@dataclass(slots=True)
class _Kept:
    """What has been sampled so far, and the readings that the next ones are compared with.

    `latest` are the rows of the latest tick, the last of `rows`; `earlier` are the readings that they were made from.
    """

    rows: KeptRows
    events: list[Event] = field(default_factory=list)
    latest: list[SampleRow] = field(default_factory=list)
    host: HostCounters | None = None
    server: ViewsReading | None = None
    earlier: tuple[HostCounters | None, ViewsReading | None] = (None, None)
    failures: dict[str, str] = field(default_factory=dict)
    over_network: bool | None = None
    round_trips_s: list[float] = field(default_factory=list)
    ticks: int = 0
    skipped: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0


def next_due(now: float, interval_s: float) -> float:
    """Return when the next tick is due: at whole multiples of the interval since the epoch.

    So the rows of a run fall on the seconds in which the load's histograms are counted, and a late tick does not make
    the following ones late. At least a quarter of the interval lies ahead.
    """
    return math.floor((now + _SHORTEST * interval_s) / interval_s + 1) * interval_s


class Sampler:
    """Samples the host and one server once every `interval_s`, from a thread and a session of its own.

    `load_database` is what the views are read for; the session sits in `observer_database`. `driver_pids` is asked
    at each tick which processes are load generators. A probe that fails costs its own rows only: they are missing,
    one event says why, and the others go on; after a restart of the server the session is opened again. `clock`
    gives seconds since the epoch. `sleep`, when given, waits between ticks instead of the event that `stop` sets.
    `folder` takes a file without a name once a run is long: the memory of its rows does not grow.
    Reads only.
    """

    def __init__(
        self,
        target: Target,
        *,
        load_database: str,
        driver_pids: Callable[[], Sequence[int]],
        interval_s: float = 1.0,
        observer_database: str = OBSERVER_DATABASE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] | None = None,
        proc: Path = PROC,
        sys: Path = SYS,
        folder: Path | None = None,
    ) -> None:
        self._target = target
        self.driver_is_here = target.remote is None
        self._driver_pids = driver_pids
        self._interval_s = interval_s
        self._clock = clock
        self._observer = Observer(target.postgres, load_database, observer_database)
        self._driver = DriverCpu(proc, TICKS_PER_S)
        self._folders = proc, sys
        self._read = KeptFiles()
        self._kept = _Kept(KeptRows(folder))
        self._statements = ViewsReading(0.0, {}, {})
        self._log: LogWatch | None = None
        self._others: neighbours.ProcessSnapshot | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._sleep = sleep or self._stopping.wait
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Take the first reading now, then one at each due time until `stop`."""
        self.take()
        self._others = neighbours.look() if self._target.local and self._target.directory is not None else None
        self._log = LogWatch(self._target)
        with self._lock:
            self._statements = self._observer.read(self._clock(), ("statements",))
        self._thread = threading.Thread(target=self._run, name="pgdyno-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> SampleBatch:
        """End the thread, take a last reading, close the session and return everything. May be called again.

        A thread that waits for a server that is frozen is left behind with its session: what it read before counts.
        """
        self._stopping.set()
        is_left = False
        if self._thread is not None:
            self._thread.join(STOP_PATIENCE_S)
            is_left, self._thread = self._thread.is_alive(), None
            if not is_left:
                if not self._take_where_due():
                    self._look_again()
                self._await_server()
                self._explain_failures()
                self._finish_statements()
        if not is_left:
            self._observer.close()
        kept = self._kept
        mean = kept.wall_s / kept.ticks if kept.ticks else 0.0
        overhead = Overhead(kept.ticks, kept.skipped, kept.cpu_s, mean)
        speeds = {} if kept.host is None else kept.host.speeds
        path = path_counters(kept.over_network, kept.round_trips_s, speeds)
        return SampleBatch(kept.rows.rows(), list(kept.events), overhead, path, self._neighbours(), self.driver_is_here)

    def _neighbours(self) -> tuple[Neighbour, ...]:
        directory = self._target.directory
        if self._others is None or directory is None:
            return ()
        return neighbours.busiest(self._others, neighbours.look(), postmaster_pid(directory))

    def _look_again(self) -> None:
        """Tell what happened in the moments since the last reading, too few for rows of their own.

        A crash, or an operator who ends a session, ends the load at once: it may lie right after the last tick.
        """
        kept = self._kept
        with self._lock:
            if kept.server is None or "server" in kept.failures:
                return
            server = self._observer.read(self._clock())
            if "server" in server.failures:
                self._tick(late_s=0.0, skipped=0)  # notes the loss, which `_await_server` waits for
                return
            kept.events += happenings.server_events(kept.server, server)
            kept.server = server

    def _await_server(self) -> None:
        """Where the session was lost, wait for the server: only its next reading tells a crash from a lost line."""
        if self._kept.server is None or "server" not in self._kept.failures:
            return
        deadline = time.monotonic() + RECOVERY_PATIENCE_S
        while "server" in self._kept.failures and time.monotonic() < deadline:
            time.sleep(_SHORTEST * self._interval_s)
            self.take()
        if "server" in self._kept.failures:
            self._kept.events.append(Event(self._clock(), "down", "the server did not answer at the end of the run"))

    def _explain_failures(self) -> None:
        """Read the server's log where the server failed, and nowhere else."""
        kept = self._kept
        if self._log is not None and any(event.kind in ASKED_OF_THE_LOG for event in kept.events):
            is_watched = self._target.local or self._target.remote is not None
            kills_counted = is_watched and kept.host is not None and "oom_kill" in (kept.host.vmstat or {})
            kept.events = explained(kept.events, self._log.read(), kills_counted=kills_counted)

    def mark(self) -> None:
        """Take a reading at once, so that a row ends exactly here: call it where a load ends.

        Within a quarter of the interval after another reading the rows of that one are made again, up to here: without
        them the last moments of a short window would be missing, which leaves its CPU unknown.
        """
        if not self._take_where_due():
            with self._lock:
                if self._kept.earlier[0] is not None:
                    self._tick(late_s=0.0, skipped=0, anew=True)

    def _take_where_due(self) -> bool:
        """Take a reading unless the last one is less than a quarter of the interval old; return whether it did."""
        with self._lock:
            last = self._kept.host
            is_due = last is None or self._clock() - last.t >= _SHORTEST * self._interval_s
            if is_due:
                self._tick(late_s=0.0, skipped=0)
        return is_due

    def take(self, *, late_s: float = 0.0, skipped: int = 0) -> list[SampleRow]:
        """Take one reading and return its rows: gauges only at the first, since there is nothing to compare with."""
        with self._lock:
            return self._tick(late_s, skipped)

    def reading(self) -> Mapping[str, str]:
        """Return the latest values as short texts for a progress line, empty before the second reading."""
        return latest_text(self._kept.latest)  # without the lock: a tick may hang in a server, the caller must not

    def latest(self) -> Sequence[SampleRow]:
        """Return the rows of the latest tick, empty before the first; nobody changes them any more."""
        return self._kept.latest  # without the lock, as `reading`

    def rows(self) -> Collection[SampleRow]:
        """Return the rows so far."""
        return self._kept.rows.rows()  # without the lock, as `reading`

    def events(self) -> list[Event]:
        """Return what has happened so far."""
        with self._lock:
            return list(self._kept.events)

    def _run(self) -> None:
        due = next_due(self._clock(), self._interval_s)
        while not self._stopping.is_set():
            now = self._clock()
            if due - now > 2 * self._interval_s:
                due = next_due(now, self._interval_s)  # the clock was set back
            if now < due:
                self._sleep(due - now)
                continue
            skipped = math.floor((now - due) / self._interval_s)
            due += skipped * self._interval_s
            self.take(late_s=now - due, skipped=skipped)
            due += self._interval_s

    def _tick(self, late_s: float, skipped: int, *, anew: bool = False) -> list[SampleRow]:
        """Read everything and make rows since the last reading, or `anew` those of the last tick, up to now."""
        kept, began, cpu_began = self._kept, time.monotonic(), time.thread_time()
        t = self._clock()
        host = self._read_host(t)
        host_done = time.monotonic()
        server = self._observer.read(t)
        self._measure_path()
        anew = anew and (bool(server.views) or kept.server is None)  # else the last tick knows what this one does not
        if not anew:
            kept.earlier = kept.host, kept.server
        rows = host_rows(kept.earlier[0], host) + server_rows(kept.earlier[1], server)
        events = [] if kept.host is None else happenings.host_events(kept.host, host)
        events += [] if kept.server is None else happenings.server_events(kept.server, server)
        failures = {**host.failures, **server.failures}
        events += happenings.failure_events(t, failures, kept.failures)
        ended = time.monotonic()
        cost = (skipped, late_s * 1e3, (host_done - began) * 1e3, (ended - host_done) * 1e3)
        rows.append(SampleRow("observer", t, cost))
        kept.rows.add(rows, anew=anew)
        kept.events += events
        kept.latest = rows
        kept.host, kept.failures = host, failures
        kept.server = server if server.views else kept.server  # a lost session: compare with the last good reading
        kept.ticks += not anew
        kept.skipped += skipped
        kept.cpu_s += time.thread_time() - cpu_began
        kept.wall_s += ended - began
        return rows

    def _measure_path(self) -> None:
        """Ask once whether a network lies between, and then how long it takes there and back; locally nothing."""
        kept = self._kept
        if kept.over_network is None:
            is_elsewhere = True if self._target.remote is not None else self._observer.is_network()
            kept.over_network = is_elsewhere
        if kept.over_network and (seconds := self._observer.round_trip_s()) is not None:
            kept.round_trips_s.append(seconds)

    def _read_host(self, t: float) -> HostCounters:
        driver = self._driver.seconds(self._driver_pids())
        if self._target.remote is not None:
            try:
                there = self._target.remote.read_host()
            except PgdynoError as error:
                return unread_host(t, error.message)
            shares = CpuShares(there.server_cpu_s, driver, there.own_cpu_s, self.driver_is_here)
            return parse_host(t, shares, there.texts)
        server = self._target.cpu.seconds()
        known = None if isinstance(server, Unknown) else server
        proc, sys = self._folders
        return read_host(t, CpuShares(known, driver, time.process_time()), proc=proc, sys=sys, read=self._read)

    def _finish_statements(self) -> None:
        first, last = self._statements, self._observer.read(self._clock(), ("statements",))
        self._kept.rows.add(statement_rows(first, last))
        if "statements" in last.failures:
            reason = last.failures["statements"]
            self._kept.events += happenings.failure_events(last.t, {"statements": reason}, {})
