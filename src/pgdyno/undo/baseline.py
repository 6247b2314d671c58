"""See whether a session may begin on a server, and take down how the server was found.

A session is refused while its end could not be told from its beginning: when files hold edits that the server has
not read, when a setting waits for a restart, when another session is open, when we could not write the files back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.owner.hands import hands_of
from pgdyno.routes.dropin import DropIn, session_named_in
from pgdyno.routes.file_check import read_files
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.server.health import Address
from pgdyno.server.postgres import query_errors, secret_keywords
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target

# By pg_settings and not current_setting: a role that may not see them gets NULL and not an error.
_PLACES = """
SELECT pg_backend_pid() AS pid,
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'config_file') AS main,
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory') AS data
"""
_SHOWN_EDITS = 5


@dataclass(frozen=True, slots=True)
class Baseline:
    """A server as it was found. `conninfo` is complete, whatever PG* variables say later, and has no password.

    `dropin` is None where settings go another way than through files (`Target.route`).
    """

    conninfo: str
    data_directory: Path
    dropin: DropIn | None
    settings: Mapping[str, SettingState]
    address: Address | None


def take_baseline(target: Target) -> Baseline:
    """Read it. No effect on the server.

    Raises ConnectError when the server does not answer, and EnvironmentUnsuitable when a session may not begin.
    """
    label = target.postgres.label
    with target.postgres.connect() as connection:
        with query_errors(label):
            row = connection.execute(_PLACES).fetchone()
        assert row is not None
        main, data = row["main"], row["data"]
        if not main or not data:
            raise EnvironmentUnsuitable(
                f'the role on "{label}" may not see where the configuration file is',
                hint="Connect as a superuser, or GRANT pg_read_all_settings to the role.",
            )
        if target.route is None:
            _check_local(int(str(row["pid"])), Path(str(data)), label)
        conninfo = _conninfo(connection)
        address = Address.of(connection.info.hostaddr or connection.info.host, connection.info.port)
        settings = snapshot.read_settings(connection, label=label)
    dropin = DropIn(Path(str(main)), hands_of(Path(str(data)))) if target.route is None else None
    _check_read(target, settings)
    if dropin is not None:
        _check_writable(dropin)
    return Baseline(conninfo, Path(str(data)), dropin, settings, address)


def _check_local(backend_pid: int, data_directory: Path, label: str) -> None:
    """See that the server is the one whose files lie here: our session's process is a child of its postmaster."""
    postmaster = postmaster_lock.postmaster_pid(data_directory)
    backend = processes.read_stat(backend_pid)
    if postmaster is None or backend is None or backend.parent != postmaster:
        raise EnvironmentUnsuitable(
            f'the files of "{label}" are not on this machine',
            detail=f'No server of the data directory "{data_directory}" runs here with our session as its child.',
            hint="Run pgdyno on the server's own host, outside of a container that hides its processes.",
        )


def _conninfo(connection: psycopg.Connection[DictRow]) -> str:
    """Return what libpq really used, so that PG* variables and services may change; never a secret."""
    used = {
        option.keyword.decode(): option.val.decode()
        for option in connection.pgconn.info
        if option.val and option.val != option.compiled
    }
    for name in ("service", "servicefile", "fallback_application_name", *secret_keywords()):
        used.pop(name, None)
    return make_conninfo("", **used)


def _check_read(target: Target, settings: Mapping[str, SettingState]) -> None:
    waiting = [f"{name} waits for a restart" for name, state in settings.items() if state.pending_restart]
    waiting += read_files(target.postgres).unread()
    if waiting:
        raise EnvironmentUnsuitable(
            f'"{target.postgres.label}" has changes in its files that are not in force',
            detail="\n".join(waiting[:_SHOWN_EDITS]),
            hint="Bring them into force first (SELECT pg_reload_conf(), or a restart), or take them back.",
        )


def _check_writable(dropin: DropIn) -> None:
    try:
        places = [dropin.path.parent] if dropin.is_included() else [dropin.path.parent, dropin.main_real.parent]
    except OSError as error:
        raise _unwritable(dropin.main, error.strerror or str(error)) from error
    for place in places:
        if not dropin.hands.may_write(place):
            raise _unwritable(
                place,
                "It is read-only for this user (for the server's account when we are root), or on a read-only disk.",
            )


def _unwritable(path: Path, detail: str) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'the configuration in "{path}" cannot be changed',
        detail=detail,
        hint="Run pgdyno as the owner of the configuration files or as root, and see that they can be written.",
    )


def check_no_leftover(found: Baseline) -> None:
    """Raise EnvironmentUnsuitable when our file is there, of a session that is in no undo folder of ours."""
    session = None if found.dropin is None else session_named_in(found.dropin.read() or b"")
    if found.dropin is not None and session is not None:
        raise EnvironmentUnsuitable(
            f'"{found.dropin.path}" is left over from session {session}',
            detail="It is measuring just now, or its undo bundle is not in this user's undo folder.",
            hint=f"Wait for its end, or run pgdyno rollback {session} as the user who ran that session.",
        )
