"""Ticks of the guards made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pgdyno.model.guard import Absent, Failed
from pgdyno.probes.guards.memory import NO_GROUP, MemoryReading, OwnKills
from pgdyno.probes.guards.reader import GuardedLoad, Tick
from pgdyno.probes.guards.server import GuardRow, LoadCounters, SlotReading
from pgdyno.probes.guards.volumes import Volume, VolumesReading
from pgdyno.trial.guard_history import History, Origin
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.sentry import Sentry

MB, GB = 1 << 20, 1 << 30


def a_tick(
    t: float,
    *,
    memory: Failed | Absent | None = None,
    volumes: Failed | Absent | None = None,
    server: Failed | None = None,
    available: int = 8 * GB,
    kills: int = 0,
    own: OwnKills | Absent = NO_GROUP,
    free: int = 50 * GB,
    temp_now: int = 0,
    temp_counted: int = 0,
    lsn: int = 0,
    sessions: int = 5,
    room: int = 97,
    commits: int = 0,
    rollbacks: int = 0,
    deadlocks: int = 0,
    standbys: Mapping[str, int] | None = None,
    slots: Sequence[tuple[str, int | None, bool]] = (),
    load: bool = False,
    tps: float | None = 100.0,
    p99_ms: float | None = 5.0,
    answered: int = 0,
    failed: int = 0,
    is_captured: bool = False,
    captured_deadlocks: int = 0,
) -> Tick:
    """Return a healthy tick at `t`, but for what is given; a load began at 0."""
    return Tick(
        t=t,
        memory=memory or MemoryReading(available, 16 * GB, "the host", 0, kills, Absent("no swap"), own),
        volumes=volumes
        or VolumesReading(Volume(free, 100 * GB, Path("/data")), Absent("on the data volume"), temp_now),
        server=server
        or GuardRow(
            lsn=lsn,
            sessions=sessions,
            room=room,
            xid_age=1000,
            freeze_max_age=200_000_000,
            load=LoadCounters(commits, rollbacks, deadlocks, temp_counted),
            standbys=standbys or {},
            slots=tuple(SlotReading(*slot) for slot in slots),
        ),
        load=GuardedLoad(0.0, tps, p99_ms, answered, failed, is_captured, captured_deadlocks) if load else None,
    )


def ticks(*given: Tick) -> History:
    """Return their history; the first is the session's origin."""
    return History(Origin.of(given[0]), given)


class Readings:
    """A reader whose ticks a test decides on."""

    def __init__(self, make: Callable[[float], Tick] = a_tick) -> None:
        self.make, self.databases, self.is_open = make, [], False

    def read(self, t: float, load: GuardedLoad | None = None) -> Tick:
        self.is_open = True
        return self.make(t)

    def watch_database(self, name: str) -> None:
        self.databases.append(name)

    def close(self) -> None:
        self.is_open = False


def low_memory(t: float) -> Tick:
    return a_tick(t, available=10 * MB)


def full_disk(t: float) -> Tick:
    return a_tick(t, free=10 * MB)


def sentry_of(readings: Readings, *words: str, trips: int = 3) -> Sentry:
    return Sentry(readings, guard_plan(words, trips), tick_s=0.02)
