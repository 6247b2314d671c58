"""The user's own way to bring a state back: a program that is run with the rights of whoever runs pgdyno."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.owner.hands import hands_of
from pgdyno.owner.programs import check_program
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.replay.exchange import mark_directory
from pgdyno.replay.started import await_sessions
from pgdyno.targets.target import Target

NAME = "PGDYNO_REPLAY_TARGET"
"""The variable in which the program is told which target it is to bring back."""
LONGEST_S = 24 * 3600.0
_STARTED = "SELECT pg_catalog.pg_postmaster_start_time() AS at"


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A program with its arguments; no shell reads them."""

    argv: tuple[str, ...]

    @classmethod
    def of(cls, subject: str) -> OwnCommand:
        """Return the command of words as a shell would split them. Raises UsageError where it could not."""
        try:
            argv = tuple(shlex.split(subject))
        except ValueError as error:
            raise UsageError(f'restore command "{subject}" cannot be split into words: {error}') from None
        if not argv or not argv[0].startswith("/"):
            raise UsageError(
                f'restore command "{subject}" does not begin with the whole path of a program',
                hint='Write --restore "command:/usr/local/bin/bring-back --fast".',
            )
        return cls(argv)

    @property
    def words(self) -> str:
        """Return the command."""
        return shlex.join(self.argv)

    @property
    def databases(self) -> None:
        """Return that all are taken to come back: what a program does nobody can see."""
        return

    def check(self, target: Target, known: ReplayTarget) -> None:
        """Refuse a program that another account could change."""
        check_program(self.argv[0], os.geteuid())

    def restore(self, target: Target, known: ReplayTarget) -> str:
        """Run the program, wait for the server, and mark its directory again where that was marked before.

        A directory at the same place is the program's work where the server was started anew, or was down before.
        """
        before = _started(target)
        target.runner.run(self.argv, env={NAME: target.name}, timeout_s=LONGEST_S)
        await_sessions(target.postgres)
        is_new = _started(target) != before
        if target.directory is not None and known.is_marked:
            if not is_new:
                raise EnvironmentUnsuitable(
                    f'"{target.name}" was not started by the restore command: nothing says that its files are new',
                    hint="Let the command stop the server, bring the files back, and start it.",
                )
            mark_directory(target.directory, hands_of(target.directory))
        return "cold: the server was started again" if is_new else "not known: the server went on"


def _started(target: Target) -> object:
    """Return when the server was started by its own clock, None where it is down."""
    if not target.postgres.answers():
        return None
    (row,) = target.postgres.fetch(_STARTED)
    return row["at"]
