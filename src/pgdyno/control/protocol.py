"""What every way to start, stop, restart and reload a server must do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, RestartError, UsageError
from pgdyno.owner.hands import Hands
from pgdyno.server.postgres import Postgres, redact

TIMEOUT_S = 300.0
"""A fast shutdown writes every dirty page: with gigabytes of shared buffers on a slow disk that takes minutes."""
STOP_MODES = ("smart", "fast", "immediate")
LAST_LINES = 12
"""Of a server's log, to tell why it did not start."""


class Control(Protocol):
    """Power over one server. Every method may be called in any state and returns when the state is reached."""

    def start(self) -> None:
        """Start the server and wait until it accepts sessions; do nothing when it runs. Raise RestartError."""

    def stop(self, mode: str = "fast") -> None:
        """Stop it (`smart`, `fast` or `immediate`) and wait; do nothing when it is down. Raise RestartError."""

    def restart(self) -> None:
        """Stop it fast if it runs, and start it. Raise RestartError."""

    def reload(self) -> None:
        """Make it read its configuration files again; the effect comes shortly after. Raise RestartError when down."""

    def is_running(self) -> bool:
        """Tell whether the server runs; a pid file that a crash left behind does not count."""


@contextmanager
def restart_errors(what: str, hint: str | None = None) -> Iterator[None]:
    """Turn what an environment refuses in the block into RestartError: `what` cannot be done, and why.

    `hint` stands where the error has none.
    """
    try:
        yield
    except EnvironmentUnsuitable as error:
        raise RestartError(f"{what}: {error.message}", detail=error.detail, hint=error.hint or hint) from error


def reload_by_sql(postgres: Postgres, failed: str) -> None:
    """Call `pg_reload_conf()`, which needs the right to do so. Raises RestartError with these words."""
    try:
        postgres.fetch("SELECT pg_reload_conf()")
    except EnvironmentUnsuitable as error:
        raise RestartError(failed, detail=error.detail or error.message, hint=error.hint) from error


def check_mode(mode: str) -> None:
    """Raise UsageError on a stop mode that PostgreSQL has not."""
    if mode not in STOP_MODES:
        raise UsageError(f'stop mode "{mode}" is not one of {", ".join(STOP_MODES)}')


def log_size(path: Path | None, hands: Hands) -> int:
    """Return how long a log is now, 0 where there is none: what `log_tail` is given as `since`."""
    try:
        status = None if path is None else hands.look(path)
    except (OSError, PgdynoError):
        return 0
    return 0 if status is None else status.st_size


def last_lines(text: str) -> str:
    """Return the last lines of a log without the passwords of statements: what is told of a failed start is kept.

    `text` is more than that: a statement may begin above the last lines, and its password stand in them.
    """
    return "\n".join(redact(text.strip()).splitlines()[-LAST_LINES:])


def log_tail(path: Path | None, hands: Hands, since: int) -> str:
    """Return the last lines that the log has grown by since that size, as the server's account can read them."""
    if path is None:
        return ""
    start = max(since, log_size(path, hands) - 16_384)
    try:
        return last_lines(hands.read(path, start=start).decode(errors="replace"))
    except (OSError, PgdynoError):
        return ""
