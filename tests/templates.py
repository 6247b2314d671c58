"""What tests make by the hundred, made once: data directories of sandboxes, copies of builds, and empty stores.

The first sandbox of a build and account in a run of pytest is made by initdb (0.5 CPU seconds), and a copy of it is
the template of the rest. Each copy gets a system identifier of its own, in pg_control and in the first page of its
log, because pgdyno knows servers by it. A copy that fails, as on a full disk, leaves work and error to initdb.

A build that a server's account cannot enter, as below root's own folder, is copied once in a run: 60 MB for each
worker and each home of a test were half a CPU second to make and to remove.

The first new SQLite store of a process is built by Alembic (0.1 CPU seconds); the rest get the statements that it
ran. A store of an earlier version is upgraded by Alembic as ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.engine import Connection

from pgdyno.owner.runner import Runner
from pgdyno.sandbox import cluster
from pgdyno.server import binaries
from pgdyno.server.binaries import Build
from pgdyno.store import migrate
from pgdyno.store.schema import REVISION, VERSION

FOLDER = "PGDYNO_TEST_TEMPLATES"
_initdb, _upgrade, _copy_build = cluster.initialise, migrate._upgrade, binaries._copy


def use_templates() -> None:
    """Make what this process makes anew by copies; sandboxes where a run of pytest has a folder for them."""
    migrate._upgrade = _build
    if FOLDER in os.environ:
        cluster.initialise = _initialise
        binaries._copy = _copied_build


def _copied_build(build: Build, builds: Path) -> Path:
    if FOLDER not in os.environ:  # a program that a test gives few variables
        return _copy_build(build, builds)
    place = Path(os.environ[FOLDER]) / f"build-{hashlib.sha256(str(build.bin_dir).encode()).hexdigest()[:16]}"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _copy_build(build, place)


def _initialise(runner: Runner, build: Build, data: Path, user: str | None) -> None:
    made_once(f"{build.bin_dir} {build.version} {user}", data, lambda: _initdb(runner, build, data, user))


def made_once(name: str, data: Path, initialise: Callable[[], None]) -> None:
    """Make a data directory, which is not there yet, as a copy of the first that was made so."""
    key = hashlib.sha256(f"{name} {os.geteuid()}".encode()).hexdigest()[:16]
    template = Path(os.environ[FOLDER]) / key
    with template.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.is_dir():
            initialise()
            partial = template.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            if copied(data, partial):
                partial.rename(template)
            return
    if copied(template, data):
        _identify(data, secrets.randbits(63).to_bytes(8, "little"))
    else:
        shutil.rmtree(data, ignore_errors=True)
        initialise()


def copied(source: Path, place: Path) -> bool:
    """Copy a folder with owners and modes; False where it could not be, as on a full disk."""
    command = ["cp", "-a", "--reflink=auto", str(source), str(place)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _identify(data: Path, identifier: bytes) -> None:
    """Write another system identifier; where the checksum of pg_control stands depends on the version."""
    control, (segment,) = data / "global" / "pg_control", (data / "pg_wal").glob("0*")
    content = control.read_bytes()
    length = next(n for n in range(200, 512, 4) if _crc32c(content[:n]) == content[n : n + 4])
    body = identifier + content[8:length]
    _put(control, 0, body + _crc32c(body))
    _put(segment, 24, identifier)


def _put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def _build(connection: Connection, name: str) -> None:
    if connection.dialect.name != "sqlite" or migrate._revision(connection, name) is not None:
        _upgrade(connection, name)
        return
    for statement in empty_store():
        connection.exec_driver_sql(statement)
    connection.execute(insert(VERSION).values(version_num=REVISION))


@cache
def empty_store() -> tuple[str, ...]:
    """Return the statements that make an empty store, as Alembic ran them the first time in this process."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        _upgrade(connection, "the template")
        found = tuple(connection.execute(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")).scalars())
    engine.dispose()  # its pool would leave the connection to the garbage collector, of which Python 3.13 warns
    return found


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        from fix_postgres import public_dir

        os.environ[FOLDER] = str(public_dir())
    use_templates()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(FOLDER))
