"""Make a server read its files, by reload or restart, and wait until new sessions see the effect."""

from __future__ import annotations

import time
from collections.abc import Callable

from pgdyno.control import Control
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError
from pgdyno.server.postgres import Postgres, refuses_us

READY_S = 300.0
RELOAD_S = 30.0
_LOADED_AT = "SELECT extract(epoch FROM pg_conf_load_time())::float8 AS at"
_FULL = ("too many clients", "remaining connection slots", "too many connections")
_PASSING = ("starting up", "shutting down", "recovery", "not yet accepting")


def reload(
    postgres: Postgres,
    control: Control | None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    timeout_s: float = RELOAD_S,
) -> None:
    """Reload the files, and return when new sessions are served by a postmaster that has read them.

    A postmaster handles the signal some time after it was sent, so its `pg_conf_load_time` is watched. Raises
    RestartError when it does not move, which is so for files that the server cannot read at all.

    `postgres` opens the sessions that look. `control` sends the signal where a connection may not, None for
    `pg_reload_conf()`; `timeout_s` is how many seconds it has, counted by the lengths given to `sleep`.
    """
    before = _loaded_at(postgres)
    if control is None:
        postgres.fetch("SELECT pg_reload_conf()")
    else:
        control.reload()
    waited_s, step_s = 0.0, 0.01
    while _loaded_at(postgres) <= before:
        if waited_s >= timeout_s:
            raise RestartError(
                f'"{postgres.label}" did not read its configuration files within {timeout_s:g} s',
                hint="Read the server's log: it names the file and line that it could not use.",
            )
        sleep(step_s)
        waited_s += step_s
        step_s = min(step_s * 2, 0.2)


def restart(postgres: Postgres, control: Control) -> None:
    """Restart the server and wait for it. Raises RestartError with the last lines of its log."""
    control.restart()
    try:
        postgres.wait_ready(READY_S)
    except ConnectError as error:
        raise RestartError(
            f'"{postgres.label}" was restarted but takes no session', detail=error.detail, hint=error.hint
        ) from error


def answers_sql(postgres: Postgres, *, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Return True when a session can be opened; waits for a server that is starting or recovering.

    False means that it refuses us, such as for too many clients, or is not there. Raises ConnectError when it is we
    who have no right: then a restart would change nothing.
    """
    waited_s = 0.0
    while True:
        try:
            postgres.connect().close()
            return True
        except ConnectError as error:
            if refuses_us(error):
                raise
            if waited_s >= READY_S or not is_passing(error):
                return False
        sleep(0.2)
        waited_s += 0.2


def free_slot(postgres: Postgres) -> bool:
    """Return False when the server runs and refuses us only because all of its connections are taken."""
    try:
        postgres.connect().close()
    except ConnectError as error:
        return not is_full(error)
    return True


def is_full(error: EnvironmentUnsuitable) -> bool:
    """Tell whether a server refused a session because all of its connections are taken."""
    reason = (error.detail or "").lower()
    return any(words in reason for words in _FULL)


def is_passing(error: EnvironmentUnsuitable) -> bool:
    """Tell whether a server refused a session because it starts, recovers or stops."""
    reason = (error.detail or "").lower()
    return any(words in reason for words in _PASSING)


def _loaded_at(postgres: Postgres) -> float:
    rows = postgres.fetch(_LOADED_AT)
    if not rows:
        raise EnvironmentUnsuitable(f'"{postgres.label}" does not say when it read its configuration files')
    return float(str(rows[0]["at"]))
