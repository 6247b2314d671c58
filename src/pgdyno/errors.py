"""The errors that pgdyno raises, and the exit code that each one ends the command with.

    PgdynoError
      UsageError (2)                 a flag, file or value of the user is wrong
        PolicyError                  a knob that the policy does not let anyone touch
      EnvironmentUnsuitable (6)      this machine or server cannot do what was asked
        ConnectError                 no session with the server
        WorkloadError                the load could not be prepared or run
          ScriptError (2)            a statement of the load's own script fails every time
        StoreError                   the store cannot be opened, read or written
        RestartError                 the server could not be stopped or started
      ApplyError (4)                 a configuration did not come into force; the server was restored
      GuardTripped (4)               a guard ended the session; the server was restored
        SessionTakenOver             its watchdog, or a rollback, ended it
        ServerStopped                a person shut the server down, and it is left down
      OutOfTime (3)                  the time budget was over before anything could be told
      RollbackError (5)              the server could not be put back whole: the loudest error there is

Grammar, as PostgreSQL's own: the message is lower case, has no full stop, names the object and the value;
`detail` adds facts; `hint` is a sentence with the next command to type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every verb."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    NOT_RESOLVED = 3
    RESTORED = 4
    DAMAGED = 5
    UNSUITABLE = 6


class PgdynoError(Exception):
    """An error that a user can act on: printed as message, detail and hint, never as a traceback."""

    exit_code: ExitCode = ExitCode.UNSUITABLE

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    @property
    def one_line(self) -> str:
        """Return message and detail, as a reason among other words."""
        return f"{self.message}: {self.detail}" if self.detail else self.message


class UsageError(PgdynoError):
    """A flag, a file or a value of the user is wrong."""

    exit_code = ExitCode.USAGE


class PolicyError(UsageError):
    """A knob that the policy keeps out of every search and every recommendation."""


class EnvironmentUnsuitable(PgdynoError):
    """This machine, file system or server cannot do what was asked."""

    exit_code = ExitCode.UNSUITABLE


class ConnectError(EnvironmentUnsuitable):
    """No session with the server could be opened, or it ended unexpectedly."""


class WorkloadError(EnvironmentUnsuitable):
    """The load could not be prepared or run."""


class ScriptError(WorkloadError):
    """A command of the load's script fails, and would fail again: nothing but another script helps.

    `is_certain` where the server said so without running it, whatever its settings.
    """

    exit_code = ExitCode.USAGE

    def __init__(
        self, message: str, *, detail: str | None = None, hint: str | None = None, is_certain: bool = True
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.is_certain = is_certain


class StoreError(EnvironmentUnsuitable):
    """The store cannot be opened, read or written."""


class RestartError(EnvironmentUnsuitable):
    """The server could not be stopped or started."""


class ApplyError(PgdynoError):
    """A configuration did not come into force, so nothing may be measured under its name."""

    exit_code = ExitCode.RESTORED


class GuardTripped(PgdynoError):
    """A guard ended the session and the server was restored."""

    exit_code = ExitCode.RESTORED


class SessionTakenOver(GuardTripped):
    """Another process, the watchdog or a rollback, restored the server and ended the session."""


class ServerStopped(GuardTripped):
    """Somebody else shut the server down cleanly in the middle of a session, which ends with the server left down."""


class OutOfTime(PgdynoError):
    """The time budget was over before anything could be told; the server was restored."""

    exit_code = ExitCode.NOT_RESOLVED


class Halted(PgdynoError):
    """A bound, a guard or a person ended it before anything could be told; it had changed nothing."""

    exit_code = ExitCode.NOT_RESOLVED


class RollbackError(PgdynoError):
    """The server could not be put back as it was found."""

    exit_code = ExitCode.DAMAGED


def ended_by(error: BaseException) -> str:
    """Return what ended something, as its record keeps it; empty for a person's Ctrl-C or signal.

    Of an error that nobody foresaw only the type: its words may hold anything.
    """
    if isinstance(error, PgdynoError):
        return error.one_line
    if isinstance(error, KeyboardInterrupt):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"defect of pgdyno: {type(error).__name__}"


@contextmanager
def telling_files(kind: type[PgdynoError], hint: str) -> Iterator[None]:
    """Raise what the file system refuses inside as an error of this kind that names the file; also as a decorator."""
    try:
        yield
    except OSError as error:
        where = f'"{error.filename}": ' if error.filename else ""
        raise kind(f"{where}{(error.strerror or str(error)).lower()}", hint=hint) from error


@contextmanager
def hinted(hint: str) -> Iterator[None]:
    """Give the errors that are raised inside a hint, where they have none of their own; also as a decorator."""
    try:
        yield
    except PgdynoError as error:
        error.hint = error.hint or hint
        raise


@contextmanager
def naming(word: str) -> Iterator[None]:
    """Say `word` in hints of errors that are raised inside where they say --target: it names the server that is meant.

    Also as a decorator.
    """
    try:
        yield
    except PgdynoError as error:
        error.hint = error.hint and error.hint.replace("--target", word)
        raise


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Put a place before the errors that are raised inside; their kind, detail and hint stay."""
    try:
        yield
    except PgdynoError as error:
        error.message = f"{where}: {error.message}"
        error.args = (error.message,)
        raise
