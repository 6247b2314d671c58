"""A server that was started again for a run: when it takes load, and what its shared buffers hold."""

from __future__ import annotations

import time
from collections.abc import Callable

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.postgres import Postgres
from pgdyno.units import plural

WAIT_S = 600.0
"""How long a server that was brought back may take until it lets sessions in, or has read its list of pages."""
_PAUSE_S = 0.2
_WARMING = "SELECT 1 AS one FROM pg_catalog.pg_stat_activity WHERE backend_type = 'autoprewarm worker'"
_PREWARM = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'pg_prewarm.autoprewarm'"


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
