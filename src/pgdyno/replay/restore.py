"""How the state of a target is brought back before each run: the protocol, what was done, and the ways by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pgdyno.errors import UsageError
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.targets.target import Target


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
    """Bring the state back, and say how long that took by `timer`, in seconds. Raises what `restore` raises.

    `known` is what was found out about `target`, by which `restore` decides whether it may replace that server's data.
    """
    restore.check(target, known)
    began = timer()
    cache = restore.restore(target, known)
    return StateBack(restore.words, timer() - began, cache)
