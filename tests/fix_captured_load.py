"""A server, the load that it logged as a trace, and copies of it from before: made once for all tests of replays."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import public_dir
from free_ports import free_ports
from pgdyno.replay.target_facts import identify, mark_copy
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.schema import CapturedServer
from server_image import write_as_owner
from templates import copied
from trace_load import run_load

LOGGING = {
    "logging_collector": "on", "log_destination": "csvlog", "log_min_duration_statement": "0", "log_timezone": "UTC",
    "log_connections": "on", "log_disconnections": "on", "log_parameter_max_length_on_error": "-1", "log_filename": "x",
    "log_directory": "captured",
}  # fmt: skip


UNKNOWN = CapturedServer()
"""What a trace of a log that no capture of ours made says of its server."""


@dataclass(frozen=True)
class Captured:
    """A source that runs, its load as a trace, and the bytes of its data directory from before the load."""

    source: Sandbox
    trace: Path
    before: Path
    home: Path

    @property
    def target(self) -> Target:
        return self.source.target()

    @contextmanager
    def copy(self, name: str, *, standby: bool = False) -> Iterator[TargetRequest]:
        """Start a copy of the source as it was before the load."""
        folder, (port,) = self.home / name, free_ports(1)
        assert copied(self.before, folder)
        account = pwd.getpwnam(self.target.os_user) if self.target.os_user else pwd.getpwuid(os.geteuid())
        if standby:
            (folder / "standby.signal").touch()
            os.chown(folder / "standby.signal", account.pw_uid, account.pw_gid)
        words = f"-p {port} -k {folder} -c listen_addresses= -c log_directory=own -c hot_standby=on"
        ctl = [str(self.target.program("pg_ctl")), "-D", str(folder), "-w", "-l", str(folder / "ctl.log")]
        run = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run([*ctl, "-o", words, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/", **run)
        try:
            yield TargetRequest(dsn=make_conninfo(host=str(folder), port=port, user="postgres", dbname="postgres"))
        finally:
            subprocess.run([*ctl, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/", **run)
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def captured() -> Iterator[Captured]:
    home = public_dir()
    source = Sandbox.open_or_create("source", root=home)
    try:
        settings = "".join(f"{name} = '{value}'\n" for name, value in LOGGING.items())
        write_as_owner(source.data_directory / "postgresql.auto.conf", settings)
        source.start()
        source.stop()
        before = home / "before"
        assert copied(source.data_directory, before)
        shutil.rmtree(before / "captured", ignore_errors=True)
        source.start()
        given = source.target().postgres.parameters
        run_load(make_conninfo(host=given["host"], port=given.get("port"), user=given["user"], dbname="postgres"))
        source.stop()
        logs = sorted((source.data_directory / "captured").glob("*.csv"))
        trace = home / "load.parquet"
        meta = build_trace(logs, trace, BuildOptions())
        source.start()
        identifier = read_facts(source.target()).server.system_identifier
        facts = json.loads((home / "load.json").read_text())
        (home / "load.json").write_text(json.dumps({**facts, "system_identifier": identifier}))
        assert meta.statements > 80
        yield Captured(source, trace, before, home)
    finally:
        source.destroy()
        shutil.rmtree(home)


def options(captured: Captured, output: Path, **more: object) -> ReplayOptions:
    return replace(ReplayOptions(captured.trace, output), **more)


def owned(captured: Captured, folder: Path) -> None:
    """Give files to the account of the servers, who copies them."""
    if captured.target.os_user:
        account = pwd.getpwnam(captured.target.os_user)
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, account.pw_uid, account.pw_gid)


def marked(captured: Captured, request: TargetRequest) -> None:
    with opened(request) as copy:
        mark_copy(identify(copy, read_facts(copy)), copy, captured.target, None, "", UNKNOWN)
