"""One tick of the guards: memory, volumes and server at one moment, each a reading, absent, or failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pgdyno.errors import PgdynoError
from pgdyno.model.guard import Absent, Failed
from pgdyno.model.shapes import shaped
from pgdyno.probes.guards.memory import MemoryReader, MemoryReading
from pgdyno.probes.guards.server import GuardRow, parse_row
from pgdyno.probes.guards.volumes import VolumesReading, read_volumes
from pgdyno.probes.observer import OBSERVER_DATABASE, Observer
from pgdyno.routes.sql_route import SqlRoute
from pgdyno.targets.target import Target

T = TypeVar("T")
_VIEW = "guards"
BY_SQL_ALONE = "only SQL is used (--sql-only), and the host is not looked at"
ELSEWHERE = "the server is on another host"
HIDDEN = "the data directory is on another host, or hidden from this user"
UNSEEN = (BY_SQL_ALONE, ELSEWHERE, HIDDEN)
"""Why a guard never watches, whatever comes: what it would look at cannot be seen from here."""


@dataclass(frozen=True, slots=True)
class GuardedLoad:
    """The running load: since when it runs, its transactions per second and p99 of now, its failures so far."""

    began_at: float
    tps: float | None
    p99_ms: float | None
    transactions: int
    failed: int
    is_captured: bool = False
    """It is sent as it was captured, errors and rollbacks too; `failed` are answers unlike the captured ones."""
    captured_deadlocks: int = 0
    """Deadlocks so far that its capture has as well."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Everything that was read at `t` (seconds since the epoch). `load` is None while none runs."""

    t: float
    memory: MemoryReading | Absent | Failed
    volumes: VolumesReading | Absent | Failed
    server: GuardRow | Failed
    load: GuardedLoad | None = None


@dataclass(frozen=True, slots=True)
class HostTick:
    """What guards watch of a host at one moment, as an agent sends it, too."""

    memory: MemoryReading | Absent | Failed
    volumes: VolumesReading | Absent | Failed


class HostReader:
    """Reads memory and volumes of the host that this process and the server run on. Not for two threads at once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._memory: tuple[int, MemoryReader] | None = None

    def read(self) -> HostTick:
        """Read both now. Never raises for what the host does."""
        return HostTick(_attempt(self._read_memory), _attempt(self._read_volumes))

    def _read_memory(self) -> MemoryReading | Absent | Failed:
        if not self._target.local:
            return Absent(BY_SQL_ALONE if isinstance(self._target.route, SqlRoute) else ELSEWHERE)
        pid = self._target.cpu.postmaster()
        if pid is None:
            # Where we never see the postmaster, the host as a whole is still ours to look at.
            return Failed("the server is down") if self._memory else MemoryReader([]).read()
        if self._memory is None or self._memory[0] != pid:
            self._memory = pid, MemoryReader.around(pid)
        return self._memory[1].read()

    def _read_volumes(self) -> VolumesReading | Absent | Failed:
        if self._target.directory is None:
            return Absent(BY_SQL_ALONE if isinstance(self._target.route, SqlRoute) else HIDDEN)
        return read_volumes(self._target.directory)


class GuardReader:
    """Reads one server and its host, from a session and a few files of its own. Not for two threads at once.

    The session sits in `database`, never in the load's. Reads only.
    """

    def __init__(self, target: Target, *, database: str = OBSERVER_DATABASE) -> None:
        self._target = target
        self._host = HostReader(target)
        self._observer = Observer(target.postgres, "", database)

    def watch_database(self, name: str) -> None:
        """Read the counters of this database, the load's, from the next tick on."""
        self._observer.load_database = name

    def close(self) -> None:
        """End the session; the next tick opens another."""
        self._observer.close()

    def read(self, t: float, load: GuardedLoad | None = None) -> Tick:
        """Read everything now. Never raises for what host or server do."""
        host = self._read_host()
        return Tick(t, host.memory, host.volumes, self._read_server(t), load)

    def _read_host(self) -> HostTick:
        if self._target.remote is None:
            return self._host.read()
        try:
            return shaped(HostTick, self._target.remote.read_guards())
        except (PgdynoError, ValueError) as error:
            failed = Failed(error.message if isinstance(error, PgdynoError) else f"the answer cannot be read: {error}")
            return HostTick(failed, failed)

    def _read_server(self, t: float) -> GuardRow | Failed:
        reading = self._observer.read(t, (_VIEW,))
        rows = reading.views.get(_VIEW)
        if not rows:
            self._observer.close()  # it asks no second time for what was refused once; we do
            return Failed(next(iter(reading.failures.values()), "the server gave no row"))
        try:
            return parse_row(rows[0])
        except (KeyError, TypeError, ValueError) as error:
            return Failed(f"the answer cannot be read: {error}")


def _attempt(read: Callable[[], T | Failed]) -> T | Failed:
    try:
        return read()
    except (OSError, ValueError, KeyError) as error:
        return Failed(str(error) or type(error).__name__)
