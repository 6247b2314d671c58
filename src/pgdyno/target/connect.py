"""Make a target of a server that exists: find out whether it is on this host, its programs, and how to restart it."""

from __future__ import annotations

import logging
import os
import pwd
import re
import shlex
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.target import binaries, postmaster_lock, processes
from pgdyno.target.cpu import CpuGroup, ServerCpu
from pgdyno.target.postgres import Postgres
from pgdyno.target.restart import CommandControl, Control, PgCtl, PgCtlCluster
from pgdyno.target.runner import LocalRunner, Runner
from pgdyno.target.target import Target

log = logging.getLogger(__name__)

SOCKET_FOLDERS = ("/var/run/postgresql", "/tmp")  # noqa: S108 - libpq's two usual defaults; nothing is written there
START_TOLERANCE_S = 30.0
_DEBIAN = re.compile(r"/etc/postgresql/(?P<version>[0-9.]+)/(?P<cluster>[^/]+)/postgresql\.conf")
_ASK = """
    SELECT current_setting('server_version_num')::int AS version_num,
           extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
           (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
           (SELECT setting FROM pg_settings WHERE name = 'config_file') AS config_file"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one session told about the server. `peer_pid` is the postmaster at the other end of a Unix socket."""

    version_num: int
    started_at: float
    data_directory: Path | None
    config_file: str | None
    peer_pid: int | None

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version_num // 10_000


def open_target(
    dsn: str | None,
    *,
    restart_command: Sequence[str] | None = None,
    bin_dir: Path | None = None,
    runner: Runner | None = None,
) -> Target:
    """Return the server that libpq finds by `dsn`, PG* variables, service file and .pgpass, as a target.

    `restart_command` overrules every way to restart that we find ourselves (see `CommandControl`); `bin_dir` the
    programs. Changes nothing. Raises UsageError when the string cannot be read, ConnectError when there is no session.
    """
    runner = runner or LocalRunner()
    postgres, sighting = _meet(dsn or "")
    directory = _own_directory(sighting)
    pid = processes.postmaster_pid(directory) if directory else sighting.peer_pid
    folder = bin_dir or _server_bin_dir(runner, sighting, pid)
    client = binaries.client_bin_dir(folder)
    return Target(
        name=postgres.label,
        postgres=postgres,
        runner=runner,
        control=_control(restart_command, runner, postgres, sighting, directory, pid, folder),
        bin_dir=folder or client or Path("/usr/bin"),
        os_user=_owner(sighting.data_directory) if pid is not None else None,
        disposable=False,
        directory=directory,
        cpu=_cpu(directory, pid),
        client_bin_dir=client,
        local=pid is not None,
    )


def _meet(dsn: str) -> tuple[Postgres, Sighting]:
    """Connect once, and pin down where: a child program's libpq may have another default host than ours."""
    postgres = Postgres(dsn)
    try:
        return _look(postgres)
    except ConnectError as error:
        named = {"host", "hostaddr", "service"} & postgres.parameters.keys()
        if named or {"PGHOST", "PGHOSTADDR", "PGSERVICE"} & os.environ.keys():
            raise
        for folder in SOCKET_FOLDERS:
            try:
                return _look(Postgres(make_conninfo(dsn, host=folder)))
            except ConnectError as other:
                log.debug("no server at %s: %s", folder, other.detail)
        raise error


def _look(postgres: Postgres) -> tuple[Postgres, Sighting]:
    with postgres.connect() as connection:
        info = connection.info
        where = make_conninfo(postgres.conninfo, host=info.host, port=info.port, user=info.user, dbname=info.dbname)
        if "hostaddr" in postgres.parameters:  # of several, the one that answered
            where = make_conninfo(where, hostaddr=info.hostaddr)
        try:
            row = connection.execute(_ASK).fetchone() or {}
        except psycopg.Error as error:
            raise ConnectError(f'"{postgres.label}" does not answer as PostgreSQL', detail=str(error)) from error
        sighting = Sighting(
            version_num=int(row["version_num"]),
            started_at=float(row["started_at"]),
            data_directory=Path(row["data_directory"]) if row["data_directory"] else None,
            config_file=row["config_file"],
            peer_pid=_peer_pid(connection),
        )
    return Postgres(where), sighting


def _peer_pid(connection: psycopg.Connection[DictRow]) -> int | None:
    """Return who listens at the other end: the kernel tells it of a Unix socket (SO_PEERCRED, unix(7))."""
    with socket.socket(fileno=os.dup(connection.fileno())) as peer:
        if peer.family != socket.AF_UNIX:
            return None
        pid = int.from_bytes(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    stat = processes.read_stat(pid) if pid > 0 else None
    return pid if stat is not None and stat.command in ("postgres", "postmaster") else None


def _own_directory(sighting: Sighting) -> Path | None:
    """Return the data directory when it is on this host, readable, and served by the very server we talk to."""
    folder = sighting.data_directory
    try:
        if folder is None or processes.postmaster_pid(folder) is None:
            return None
        lines = postmaster_lock.read_lines(folder)
    except (OSError, EnvironmentUnsuitable) as error:
        log.info('the data directory "%s" cannot be read: %s', folder, error)
        return None
    same = len(lines) > 2 and abs(float(lines[2]) - sighting.started_at) <= START_TOLERANCE_S
    return folder if same else None


def _server_bin_dir(runner: Runner, sighting: Sighting, pid: int | None) -> Path | None:
    """Return the folder of the running server's programs, else the usual one of its version, else pg_config's."""
    major = sighting.major
    candidates = [_program_of(pid)] if pid is not None else []
    candidates += [Path(f"/usr/lib/postgresql/{major}/bin"), Path(f"/usr/pgsql-{major}/bin")]
    if shutil.which("pg_config"):
        candidates.append(Path(runner.run(["pg_config", "--bindir"], check=False).stdout.strip() or "/nonexistent"))
    found = (folder for folder in candidates if folder is not None and (folder / "postgres").is_file())
    return next(found, None)


def _program_of(pid: int) -> Path | None:
    try:
        return (processes.PROC / str(pid) / "exe").readlink().parent
    except OSError:  # another user's process: its command line is public
        try:
            program = (processes.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            return None
        return Path(program).parent if program.startswith("/") else None


def _owner(folder: Path | None) -> str | None:
    try:
        return pwd.getpwuid(folder.stat().st_uid).pw_name if folder is not None else None
    except (OSError, KeyError):
        return None


def _cpu(directory: Path | None, pid: int | None) -> ServerCpu:
    if pid is None:
        return ServerCpu.unavailable("the server's processes are not on this host")
    group = CpuGroup.holding(pid) or CpuGroup.dedicated(pid)
    if directory is None:  # another user's server: only the postmaster of now is known
        return ServerCpu(lambda: pid if processes.alive(pid) else None, group)
    return ServerCpu(lambda: processes.postmaster_pid(directory), group)


def _control(
    command: Sequence[str] | None,
    runner: Runner,
    postgres: Postgres,
    sighting: Sighting,
    directory: Path | None,
    pid: int | None,
    bin_dir: Path | None,
) -> Control | None:
    """Return how to restart the server: the user's command, else the way of whoever started it, else pg_ctl."""
    if command is not None:
        return CommandControl(tuple(command), runner, postgres)
    if directory is None or pid is None or not _may_act_as(_owner(directory)):
        log.info("the server cannot be restarted from here without --restart-command")
        return None
    debian = _DEBIAN.fullmatch(sighting.config_file or "")
    if debian and shutil.which("pg_ctlcluster"):
        return PgCtlCluster(runner, debian["version"], debian["cluster"], directory, _stderr_of(pid))
    unit = systemd_unit(_cgroup_text(pid), _cgroup_text(os.getpid()))
    if unit and os.geteuid() == 0 and shutil.which("systemctl"):
        return CommandControl(("systemctl", "{action}", unit), runner, postgres)
    if unit or bin_dir is None or not (bin_dir / "pg_ctl").is_file():
        log.info("the server cannot be restarted from here without --restart-command")
        return None
    return PgCtl(
        runner=runner,
        bin_dir=bin_dir,
        data_directory=directory,
        log_file=_stderr_of(pid) or directory / "pgdyno-server.log",
        user=_owner(directory),
        options=start_options((directory / "postmaster.opts").read_text()),
        env=binaries.find_build(runner, bin_dir).env,
    )


def start_options(text: str) -> tuple[str, ...]:
    """Return the options in postmaster.opts, which the server was started with, but for program and directory."""
    words = shlex.split(text)[1:]
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word == "-D":
            skip = not skip
        elif not word.startswith("-D"):
            kept.append(word)
    return tuple(kept)


def systemd_unit(cgroups: str, own_cgroups: str) -> str | None:
    """Return the service that a process belongs to by its /proc/PID/cgroup, unless we belong to it ourselves."""
    unit = re.compile(r"/([^/\n]+\.service)(?:/[^\n]*)?$", re.MULTILINE)
    found, own = unit.search(cgroups), unit.search(own_cgroups)
    if found is None or found[1].startswith("user@") or (own is not None and own[1] == found[1]):
        return None
    return found[1]


def _may_act_as(user: str | None) -> bool:
    return user is not None and (os.geteuid() == 0 or pwd.getpwnam(user).pw_uid == os.geteuid())


def _stderr_of(pid: int) -> Path | None:
    """Return the file that the server's standard error goes to; None when that is no file."""
    try:
        path = (processes.PROC / str(pid) / "fd" / "2").readlink()
        return path if path.is_file() else None
    except OSError:
        return None


def _cgroup_text(pid: int) -> str:
    try:
        return (processes.PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return ""
