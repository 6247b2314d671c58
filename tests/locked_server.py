"""A server that lets the tuner in by TCP and a password alone, and a tuner on it, as a process that can be killed."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from psycopg import sql
from tuner_process import await_line

from debian_cluster import debian_cluster
from foreign_server import initialise
from free_ports import free_ports
from pgdyno.control import Control, PgCtl
from pgdyno.owner.runner import LocalRunner
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState
from pgdyno.undo.watch import Deadlines
from templates import made_once
from warm_program import RunningText

PASSWORD = "oR4nge-Wolf'7\\ x"
"""With what a connection string and a shell must quote."""
_HBA = """\
local all postgres trust
host all all 127.0.0.1/32 scram-sha-256
"""
_STARTED = re.compile(rb"starting PostgreSQL \d")
_PROGRAM = """
import itertools, json, os, sys, time
from pathlib import Path
from pgdyno.errors import PgdynoError
from pgdyno.model.configuration import Configuration
from pgdyno.undo.apply import Session
from pgdyno.targets.connect_routes import open_server
from pgdyno.undo.watch import Deadlines

given = json.loads(sys.stdin.read())
try:
    target = open_server(given["dsn"], sql_only=given["sql_only"], restart_command=given["restart_command"])
    print("ready", flush=True)
    with Session.begin(target, study="killed", undo_root=Path(given["undo_root"]),
                       watch=Deadlines(**given["watch"])) as session:
        print("begun", flush=True)
        for settings in itertools.cycle(given["configurations"]):
            session.apply(Configuration.of(settings))
            print("applied", flush=True)
            if given["hold"]:
                time.sleep(3600)
except PgdynoError as error:
    print(error.message, error.detail, error.hint, file=sys.stderr, flush=True)
    sys.exit(error.exit_code)
"""


@dataclass(frozen=True)
class LockedServer:
    """`dsn` holds the password; `admin` comes through the socket, which trusts. `config` holds the main file."""

    data: Path
    log: Path
    control: Control
    admin: Postgres
    port: int
    config: Path

    @property
    def dsn(self) -> str:
        quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
        return f"{self.bare_dsn} password='{quoted}'"

    @property
    def bare_dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=tuner dbname=postgres"

    def settings(self) -> dict[str, SettingState]:
        with self.admin.connect() as connection:
            return snapshot.read_settings(connection, label="test")

    def starts(self) -> int:
        """Return how often a postmaster was started."""
        return len(_STARTED.findall(self.log.read_bytes()))

    def pid(self) -> int | None:
        return postmaster_lock.postmaster_pid(self.data)


def set_password(admin: Postgres) -> None:
    """Give the role that the tuner comes as its password."""
    admin.execute(sql.SQL("ALTER ROLE tuner PASSWORD {}").format(sql.Literal(PASSWORD)))


@contextmanager
def locked_server(bin_dir: Path, home: Path) -> Iterator[LockedServer]:
    """Run a cluster below `home` until the block ends."""
    user = "postgres" if os.geteuid() == 0 else None
    data, log = home / "data", home / "log"
    home.mkdir(mode=0o755, exist_ok=True)
    log.touch()
    if user is not None:
        account = pwd.getpwnam(user)
        for path in (home, log):
            os.chown(path, account.pw_uid, account.pw_gid)
    made_once(f"foreign {bin_dir} {user}", data, lambda: initialise(bin_dir, data, user))
    (port,) = free_ports(1)
    (data / "pg_hba.conf").write_text(_HBA)
    with (data / "postgresql.conf").open("a") as file:
        file.write(f"listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{home}'\n")
        file.write("password_encryption = 'scram-sha-256'\nfsync = off\n")
    control = PgCtl(LocalRunner(), bin_dir, data, log, user=user)
    control.start()
    try:
        admin = Postgres(f"host={home} port={port} user=postgres dbname=postgres")
        admin.execute("CREATE ROLE tuner LOGIN SUPERUSER")
        set_password(admin)
        yield LockedServer(data, log, control, admin, port, data)
    finally:
        control.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def locked_cluster(home: Path) -> Iterator[LockedServer]:
    """Run a cluster of Debian's 15 by pg_ctlcluster, which itself has no password, until the block ends."""
    with debian_cluster(home, "locked", _HBA) as cluster:
        control = cluster.control()
        control.start()
        admin = cluster.postgres()
        admin.execute("CREATE ROLE tuner LOGIN SUPERUSER")
        set_password(admin)
        yield LockedServer(cluster.data, cluster.log, control, admin, cluster.port, cluster.config)


@dataclass(frozen=True)
class TunerOn:
    """What a tuner process is told; see `running`."""

    dsn: str
    undo_root: Path
    watch: Deadlines
    configurations: Sequence[Mapping[str, str]]
    hold: bool = True
    sql_only: bool = False
    restart_command: Sequence[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    from_the_start: bool = False
    """A Python of its own, and so its watchdogs: where what others see of these processes matters."""

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run the process, which is killed at the end of the block."""
        given = {name: value for name, value in asdict(self).items() if name not in ("environment", "from_the_start")}
        given |= {"undo_root": str(self.undo_root)}
        env = {**os.environ, **self.environment}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", _PROGRAM]
        if not self.from_the_start:
            with RunningText(_PROGRAM, given=json.dumps(given), **self.environment) as tuner:
                try:
                    yield tuner
                finally:
                    tuner.kill()
            return
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as tuner:
            assert tuner.stdin is not None
            tuner.stdin.write(json.dumps(given))
            tuner.stdin.close()
            try:
                yield tuner
            finally:
                tuner.kill()

    @contextmanager
    def applied(self) -> Iterator[subprocess.Popen[str]]:
        """Run the process until the first configuration is in force."""
        with self.running() as tuner:
            await_line(tuner, "applied")
            yield tuner
