"""Errors that no part of pgdyno foresaw: the user reads one error, and a file keeps the traceback for a report."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError


def foreseen(error: Exception) -> PgdynoError:
    """Return an error of ours for one that is not.

    What the operating system refused (a full disk, a right that is missing) and the loss of a session with the server,
    which may come at any statement, are told as such. Everything else is a defect of pgdyno: its traceback goes into a
    file of the state folder, without passwords.
    """
    if isinstance(error, OSError) and error.strerror:
        place = f'"{error.filename}": ' if error.filename else ""
        return EnvironmentUnsuitable(
            f"{place}{error.strerror.lower()}",
            hint="Free some space or grant the permission, then retry; pgdyno rollback --list shows what is left open.",
        )
    lost = _session_lost(error)
    if lost is not None:
        return lost
    where = traceback.extract_tb(error.__traceback__)[-1:]
    frames = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in where)
    kept = _kept(error)
    return PgdynoError(
        f"defect of pgdyno: {type(error).__name__}{frames}",
        detail=_plain(str(error)) or None,
        hint=f"Please report it with {kept}." if kept else "Please report it with the command that you typed.",
    )


def _session_lost(error: Exception) -> PgdynoError | None:
    if "psycopg" not in sys.modules:  # no verb without a server waits for its import
        return None
    import psycopg

    from pgdyno.server.postgres import query_error

    told = query_error("the server", error) if isinstance(error, psycopg.OperationalError) else None
    return told if isinstance(told, ConnectError) else None


def _kept(error: Exception) -> Path | None:
    """Write the traceback into a file that only this user reads; None where that cannot be."""
    from pgdyno.server import places

    try:
        path = places.ensure(places.state_dir()) / f"defect-{time.strftime('%Y%m%dT%H%M%S')}.txt"
        path.touch(mode=0o600)
        path.write_text(_plain("".join(traceback.format_exception(error))), encoding="utf-8")
    except (OSError, PgdynoError):
        return None
    return path


def _plain(text: str) -> str:
    """Return the text without the passwords of its own connection strings and of the command line's."""
    from pgdyno.server.postgres import redact

    return redact(text, " ".join(sys.argv))
