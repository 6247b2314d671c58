"""Make a target of a server that exists: find out whether it is on this host, its programs, and how to restart it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.linux.cpu import CpuGroup, ServerCpu
from pgdyno.linux.peer import Peer, account_name, peer_of, required_peer
from pgdyno.outside.files import is_file
from pgdyno.owner.account import owner_of
from pgdyno.owner.runner import LocalRunner, Runner
from pgdyno.server import binaries, postmaster_lock
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target

if TYPE_CHECKING:
    from pgdyno.control import Control

log = logging.getLogger(__name__)

SOCKET_FOLDERS = ("/var/run/postgresql", "/tmp")  # noqa: S108 - libpq's two usual defaults; nothing is written there
START_TOLERANCE_S = 30.0
_ANSWERED, _DISTRUSTED, _ABSENT = range(3)
"""Which of two errors is told: of a socket that may be trusted, of one that may not, of none at all."""
_ASK = """
    SELECT current_setting('server_version_num')::int AS version_num, pg_backend_pid() AS pid,
           extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
           (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
           (SELECT setting FROM pg_settings WHERE name = 'config_file') AS config_file"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one session told about the server, and the kernel about `peer`, who is at its other end."""

    version_num: int
    started_at: float
    data_directory: Path | None
    config_file: str | None
    peer: Peer

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version_num // 10_000

    @property
    def unseen(self) -> str:
        """Say why its processes cannot be looked at, where they cannot."""
        uid = self.peer.uid
        if uid is None or os.geteuid() in (0, uid):
            return "the server's processes are not on this host"
        return f"the server runs as {account_name(uid)}, and only that account and root may look at it"

    @property
    def unreached(self) -> str:
        """Say why its data directory, which is on this host, cannot be worked in."""
        if self.data_directory is None:
            return "its role may not see data_directory, which pg_read_all_settings (of pg_monitor) lets it"
        return f'the data directory "{self.data_directory}" cannot be read by this user'


def open_target(
    dsn: str | None,
    *,
    restart_command: Sequence[str] | None = None,
    runner: Runner | None = None,
    to_read: bool = False,
) -> Target:
    """Return the server that libpq finds by `dsn`, PG* variables, service file and .pgpass, as a target.

    `dsn` None leaves it to the others. `restart_command`, an argument list, overrules every way to restart that we find
    ourselves (see `CommandControl`). `runner` runs programs on this host, None for a `LocalRunner`. With `to_read` no
    way to restart is looked for. Changes nothing. Raises UsageError when the string cannot be read, ConnectError when
    there is no session.
    """
    runner = runner or LocalRunner()
    postgres, sighting = meet(dsn or "")
    found, pid, folder = seen_target(postgres, sighting, runner)
    if to_read:
        return replace(found, no_control="it was opened to be read")
    control, no_control = _control(restart_command, runner, postgres, sighting, found.directory, pid, folder)
    if control is None:
        log.info("the server cannot be restarted from here without --restart-command: %s", no_control)
    return replace(found, control=control, no_control=no_control)


def seen_target(postgres: Postgres, sighting: Sighting, runner: Runner) -> tuple[Target, int | None, Path | None]:
    """Return a server as it was seen, without a way to restart it; its process here, and its programs' folder."""
    directory = own_directory(sighting)
    pid = postmaster_lock.postmaster_pid(directory) if directory else sighting.peer.pid
    folder = server_bin_dir(runner, sighting, pid)
    client = binaries.client_bin_dir(folder)
    found = Target(
        name=postgres.label,
        postgres=postgres,
        runner=runner,
        control=None,
        bin_dir=folder or client or Path("/usr/bin"),
        os_user=owner_of(sighting.data_directory) if pid is not None else None,
        disposable=False,
        directory=directory,
        cpu=server_cpu(directory, pid, sighting.unseen),
        client_bin_dir=client,
        local=pid is not None,
    )
    return found, pid, folder


def meet(dsn: str) -> tuple[Postgres, Sighting]:
    """Connect once, and pin down where: a child program's libpq may have another default host than ours.

    Where no host is named the usual folders of sockets are tried, and libpq sees to it that the server there runs as
    an account that may be trusted with our password (`requirepeer`).
    """
    postgres = Postgres(dsn)
    named = {"host", "hostaddr", "service"} & postgres.parameters.keys()
    if named or {"PGHOST", "PGHOSTADDR", "PGSERVICE"} & os.environ.keys():
        return look(postgres)
    port = (postgres.parameters.get("port") or os.environ.get("PGPORT") or "5432").split(",")[0]
    told: list[tuple[int, ConnectError]] = []
    for folder in SOCKET_FOLDERS:
        rank = _DISTRUSTED
        try:
            peer = required_peer(Path(folder), port)
            rank = _ANSWERED if peer else _ABSENT
            return look(Postgres(make_conninfo(dsn, host=folder, **peer)))
        except ConnectError as error:
            log.debug("no server at %s: %s", folder, error.detail)
            told.append((rank, error))
    raise min(told, key=lambda one: one[0])[1]


def look(postgres: Postgres) -> tuple[Postgres, Sighting]:
    """Connect once; return the server pinned to the host that answered, and what it told.

    Raises EnvironmentUnsuitable where a pooler answers in its place, ConnectError as `Postgres.connect`.
    """
    with postgres.connect() as connection:
        info = connection.info
        where = make_conninfo(postgres.conninfo, host=info.host, port=info.port, user=info.user, dbname=info.dbname)
        if "hostaddr" in postgres.parameters:  # of several, the one that answered
            where = make_conninfo(where, hostaddr=info.hostaddr)
        try:
            row = connection.execute(_ASK).fetchone() or {}
            _require_no_pooler(postgres.label, int(row["pid"]), info.backend_pid)
            directory, config = row["data_directory"], row["config_file"]
            sighting = Sighting(
                version_num=int(row["version_num"]),
                started_at=float(row["started_at"]),
                data_directory=Path(str(directory)) if directory else None,
                config_file=None if config is None else str(config),
                peer=peer_of(connection.fileno()),
            )
        except (psycopg.Error, KeyError, TypeError, ValueError) as error:
            raise ConnectError(
                f'"{postgres.label}" does not answer as PostgreSQL',
                detail=str(error),
                hint="Check host and port of --target.",
            ) from error
    return Postgres(where), sighting


def _require_no_pooler(label: str, pid: int, told_pid: int) -> None:
    """Raise EnvironmentUnsuitable where the process that answers is not the one that was told when we connected.

    Poolers tell a number of their own (PgBouncer, Odyssey, PgCat), so that they can pass on a cancellation.
    """
    if pid != told_pid:
        raise EnvironmentUnsuitable(
            f'"{label}" is a connection pooler, not the server itself',
            detail="What we set for our sessions, such as a statement_timeout of 5 s, could stay in sessions that the "
            "pooler gives to applications, and what we ask could go to another session each time.",
            hint="Name the server's own host and port in --target. The load may go through the pooler.",
        )


def own_directory(sighting: Sighting) -> Path | None:
    """Return the data directory when it is on this host, readable, and served by the very server we talk to.

    The server names the directory, so nothing is believed: its owner runs the postmaster that works in it, and is at
    the other end of the session (or root is, with a proxy), at that of a Unix socket by the very postmaster.
    """
    folder = sighting.data_directory
    try:
        pid = None if folder is None else postmaster_lock.postmaster_pid(folder)
        if folder is None or pid is None or sighting.peer.pid not in (None, pid):
            return None
        owner, peer = folder.stat().st_uid, sighting.peer.uid
        if peer not in (0, owner):
            who = "is not of this host" if peer is None else f"belongs to user id {peer}"
            log.warning(
                'the server names directory "%s" of user id %d, and the process that answers for it %s: it is '
                "taken for a server of another host",
                folder, owner, who,
            )  # fmt: skip
            return None
        lines = postmaster_lock.read_lines(folder)
        same = len(lines) > 2 and abs(float(lines[2]) - sighting.started_at) <= START_TOLERANCE_S
    except (OSError, ValueError, EnvironmentUnsuitable) as error:
        log.info('the data directory "%s" cannot be read: %s', folder, error)
        return None
    return folder if same else None


def server_bin_dir(runner: Runner, sighting: Sighting, pid: int | None) -> Path | None:
    """Return the folder of the running server's programs, else the usual one of its version, else pg_config's."""
    major = sighting.major
    usual = (Path(f"/usr/lib/postgresql/{major}/bin"), Path(f"/usr/pgsql-{major}/bin"))
    for folder in (None if pid is None else _program_of(pid), *usual):
        if folder is not None and is_file(folder / "postgres"):
            return folder
    with contextlib.suppress(EnvironmentUnsuitable):
        told = runner.run(["pg_config", "--bindir"], check=False).stdout.strip()
        return Path(told) if told and is_file(Path(told) / "postgres") else None
    return None


def _program_of(pid: int) -> Path | None:
    try:
        return (processes.PROC / str(pid) / "exe").readlink().parent
    except OSError:  # another user's process: its command line is public
        try:
            program = (processes.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            return None
        return Path(program).parent if program.startswith("/") else None


def server_cpu(directory: Path | None, pid: int | None, unseen: str) -> ServerCpu:
    """Return the meter of the server's CPU time; `pid` is its postmaster of now, None where it is `unseen`."""
    if pid is None:
        return ServerCpu.unavailable(unseen)
    group = CpuGroup.holding(pid) or CpuGroup.dedicated(pid)
    if directory is None:  # another user's server: only the postmaster of now is known
        return ServerCpu(lambda: pid if processes.alive(pid) else None, group)
    return ServerCpu(lambda: postmaster_lock.postmaster_pid(directory), group)


def _control(
    command: Sequence[str] | None,
    runner: Runner,
    postgres: Postgres,
    sighting: Sighting,
    directory: Path | None,
    pid: int | None,
    bin_dir: Path | None,
) -> tuple[Control | None, str | None]:
    """Return how to restart the server, by the user's command or as whoever started it does, else why not."""
    # Who only reads loads none of the ways.
    from pgdyno.control import CommandControl
    from pgdyno.control.detect import Undetected, find_control, read_signs

    if command is not None:
        return CommandControl(tuple(command), runner, postgres), None
    if pid is None:
        return None, sighting.unseen
    if directory is None:
        return None, sighting.unreached
    found = find_control(runner, postgres, read_signs(pid, directory, sighting.config_file), bin_dir)
    return (None, found.saw) if isinstance(found, Undetected) else (found, None)
