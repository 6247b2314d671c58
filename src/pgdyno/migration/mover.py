"""What moves a database: one protocol for dump and restore, logical replication, pg_upgrade and what else there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.owner.account import Account
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class MigrationSide:
    """One of the two servers: who it is, which database is meant, and its `server_version_num`."""

    target: Target
    database: str
    version: int

    @property
    def postgres(self) -> Postgres:
        """Return the server with sessions in the database; it need not exist yet."""
        return self.target.postgres.in_database(self.database)

    @property
    def server(self) -> Postgres:
        """Return the server with sessions in the database that its own name has."""
        return self.target.postgres

    @property
    def size_bytes(self) -> int:
        """Return the size of the database, asked of the server."""
        (row,) = self.postgres.fetch("SELECT pg_catalog.pg_database_size(pg_catalog.current_database()) AS bytes")
        return int(str(row["bytes"]))

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version // 10_000


def nobody_halts() -> str:
    """Return that nothing ends it."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlace:
    """Where a mover works. `folder` is of this rehearsal alone, and is there again when it is resumed.

    `account` is whose rights programs are run with, None for ours. Every session and program names itself `tag`, so
    that those of a killed run can be ended. `program` finds a PostgreSQL program that can talk to both servers; it
    raises EnvironmentUnsuitable. `halt` says why to end now, empty while it goes on: whoever waits asks it.
    `options` are the mover's own, of the plan's table `[mover]`, checked by `Mover.check`.
    """

    source: MigrationSide
    target: MigrationSide
    folder: Path
    jobs: int
    tag: str
    program: Callable[[str], str]
    account: Account | None = None
    halt: Callable[[], str] = nobody_halts
    tell: Callable[[str], None] = lambda _: None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhaseStep:
    """A phase of a mover, and which of its phases it waits for; `left_out` says why it has nothing to do in it."""

    phase: MigrationPhase
    after: tuple[MigrationPhase, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class MoveItem:
    """A part of a phase that is done or not done as a whole. `key` is alike whenever the phase is listed."""

    key: str
    kind: str
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a mover says before anything is done. `changes` are what it changes on the source: none, for most."""

    changes: tuple[str, ...]
    undo: str
    outage: str
    way_back: str


class ItemWatch(Protocol):
    """Is told how items go, by whichever thread; what is told is on disk when the call returns."""

    def began(self, key: str) -> None:
        """Note that an item begins."""

    def ended(self, key: str, *, bytes: int | None = None, rows: int | None = None) -> None:
        """Note that it is done, with what is known of its size by now."""

    def sized(self, key: str, *, rows: int) -> None:
        """Note of an item that is done how many rows it had, where that is known later only."""

    def failed(self, key: str, reason: str) -> None:
        """Note that it failed."""


class Mover(Protocol):
    """One way to move a database. Phases of one rehearsal may run at the same time, each in a thread of its own."""

    @property
    def name(self) -> str:
        """Return the word for it in a plan."""

    @property
    def fills_target(self) -> bool:
        """Tell whether it fills a database of the plan's target; False where it makes a server of its own beside."""

    def check(self, options: Mapping[str, str]) -> None:
        """Raise UsageError on an option that it does not know, or a value that cannot be. Asks no server."""

    def steps(self, options: Mapping[str, str]) -> tuple[PhaseStep, ...]:
        """Return its phases; assess, configuration and validation are not a mover's."""

    def refuse(self, place: MovePlace) -> None:
        """Raise UsageError or EnvironmentUnsuitable where it cannot work here, with what to do. Changes nothing."""

    def announce(self, place: MovePlace) -> Announcement:
        """Return what it will change, how that is undone, and who cannot work meanwhile."""

    def bytes_needed(self, place: MovePlace) -> tuple[int, int]:
        """Return about how many bytes it needs in `folder`, and on the target."""

    def items(self, phase: MigrationPhase, place: MovePlace) -> tuple[MoveItem, ...]:
        """Return the items of a phase; asked when those that it waits for are done, and again when it is resumed."""

    def is_done(self, phase: MigrationPhase, item: MoveItem, place: MovePlace) -> bool:
        """Tell whether an item that a killed run had begun came to its end; what is half done there is taken away."""

    def run(self, phase: MigrationPhase, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do these items, and return when all are noted. Raises EnvironmentUnsuitable where one failed.

        `items` are those of `phase` that are to be done, in the order in which they were listed; `place` has the two
        servers, the folder and the options, and `watch` is told how each item goes. When `halt` says so it ends its
        programs and returns; what was not noted by then is not done.
        """

    def outage_s(self, place: MovePlace) -> float | None:
        """Return how long nobody could have worked; None where that is the whole of the migration."""

    def validated(self, place: MovePlace) -> MigrationSide:
        """Return what has to be like the source: the plan's target, or the server of its own, which runs then."""

    def keeps(self, options: Mapping[str, str]) -> str:
        """Return what of `folder` stays after a whole rehearsal, by its name; empty where nothing does."""

    def tidy(self, place: MovePlace) -> None:
        """Take away what it left on the source, if anything, and stop servers of its own.

        Idempotent; called at every end and before each begin.
        """


class TargetFiller:
    """What movers have in common that fill a database of the plan's target, and leave the source as it was."""

    fills_target = True

    def outage_s(self, place: MovePlace) -> float | None:
        """Return None: it is the whole of the migration."""
        return None

    def validated(self, place: MovePlace) -> MigrationSide:
        """Return the plan's target."""
        return place.target

    def keeps(self, options: Mapping[str, str]) -> str:
        """Return that nothing stays."""
        return ""

    def tidy(self, place: MovePlace) -> None:
        """Do nothing: the source is only read."""
