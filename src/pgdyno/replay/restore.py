"""How the state of a target is brought back before each run: the protocol, what was done, and the ways by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.units import plural

WAIT_S = 600.0
"""How long a server that was brought back may take until it lets sessions in, or has read its list of pages."""
_PAUSE_S = 0.2
_WARMING = "SELECT 1 AS one FROM pg_catalog.pg_stat_activity WHERE backend_type = 'autoprewarm worker'"
_PREWARM = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'pg_prewarm.autoprewarm'"


@dataclass(frozen=True, slots=True)
class StateBack:
    """What brought the state back, in how many seconds, and what the caches held then."""

    by: str
    seconds: float
    cache: str


class Restore(Protocol):
    """One way to bring a state back. The same state each time is what makes runs comparable."""

    @property
    def words(self) -> str:
        """Return what it does, as the end of "the state is restored by"."""

    @property
    def databases(self) -> tuple[str, ...] | None:
        """Return the databases that it brings back; None for all of the server."""

    def check(self, target: Target, known: ReplayTarget) -> None:
        """Raise EnvironmentUnsuitable or UsageError where it cannot work, or may not. Changes nothing."""

    def restore(self, target: Target, known: ReplayTarget) -> str:
        """Bring the state back, and return what the caches hold then; the server runs, and is marked as it was.

        What the target held is gone. Raises EnvironmentUnsuitable with what is left, RestartError for the server.
        """


def restore_of(word: str) -> Restore:
    """Return the way that `KIND:SUBJECT` names. Raises UsageError on another word."""
    from pgdyno.replay.base_backup import BaseBackup
    from pgdyno.replay.data_directory import DataDirectory
    from pgdyno.replay.file_copy import FileCopy
    from pgdyno.replay.own_command import OwnCommand
    from pgdyno.replay.template_database import TemplateDatabase

    ways: dict[str, Callable[[str], Restore]] = {
        "directory": lambda subject: DataDirectory(FileCopy.of(subject)),
        "basebackup": lambda subject: DataDirectory(BaseBackup.of(subject)),
        "template": TemplateDatabase.of,
        "command": OwnCommand.of,
    }
    kind, _, subject = word.partition(":")
    if kind not in ways or not subject:
        raise UsageError(
            f'restore "{word}" is not one of {", ".join(f"{name}:..." for name in ways)}',
            hint="Write --restore directory:/srv/before, basebackup:CONNINFO, template:DATABASE or command:ARGV.",
        )
    return ways[kind](subject)


def bring_back(restore: Restore, target: Target, known: ReplayTarget, timer: Callable[[], float]) -> StateBack:
    """Bring the state back, and say how long that took by `timer`, in seconds. Raises what `restore` raises."""
    restore.check(target, known)
    began = timer()
    cache = restore.restore(target, known)
    return StateBack(restore.words, timer() - began, cache)


def await_sessions(postgres: Postgres, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until the server lets sessions in and is out of recovery."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            if postgres.fetch("SELECT pg_catalog.pg_is_in_recovery() AS is_in") == [{"is_in": False}]:
                return
            why = "it is in recovery"
        except EnvironmentUnsuitable as error:
            why = error.one_line
        if time.monotonic() > deadline:
            raise EnvironmentUnsuitable(
                f"the restored server takes no load after {WAIT_S:g} s: {why}", hint="Read the end of its log."
            )
        sleep(_PAUSE_S)


def restarted_cache(postgres: Postgres, listed: int | None, *, sleep: Callable[[float], None] = time.sleep) -> str:
    """Return what a server that was started anew has in shared buffers, once it has read its list of pages.

    `listed` is how many blocks the list of autoprewarm names, None where there is none.
    """
    if listed is None or [str(row["setting"]) for row in postgres.fetch(_PREWARM)] != ["on"]:
        return "cold: shared buffers were empty, what the first statements took is that of reading"
    deadline, quiet = time.monotonic() + WAIT_S, 0
    while quiet < 5 and time.monotonic() < deadline:  # one worker a database, one after another
        quiet = 0 if postgres.fetch(_WARMING) else quiet + 1
        sleep(_PAUSE_S)
    return f"warmed by the autoprewarm list of the snapshot, {plural(listed, 'block')}"
