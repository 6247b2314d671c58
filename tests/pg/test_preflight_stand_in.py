"""The stand-in of a data directory: private, without a copy of a secret, and nothing that a kill leaves lasts."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fix_postgres import BUILDS, find_build
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain
from pgdyno.owner.runner import LocalRunner
from pgdyno.preflight.examine import examine
from pgdyno.preflight.stand_in import home_of, stand_in, sweep
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.pg
SECRET = "hunter2-of-the-standby"
_PROGRAM = """
import sys, time
from pathlib import Path
from pgdyno.preflight.stand_in import stand_in
from pgdyno.owner.runner import LocalRunner
with stand_in(LocalRunner(), Path(sys.argv[1]), sys.argv[2] or None) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=BUILDS)
def server(request: pytest.FixtureRequest, make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    sandbox = make_sandbox("stands", bin_dir=find_build(request.param))
    sandbox.start()
    sandbox.target().postgres.execute(f"ALTER SYSTEM SET primary_conninfo = 'host=nowhere password={SECRET}'")
    return sandbox


def secrets_below(folder: Path) -> list[Path]:
    """Return the plain files that hold the secret; links are not followed."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_preflight_that_was_killed_leaves_no_secret_and_the_next_one_sweeps_it(
    server: Sandbox, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    target = server.target()
    user = target.os_user
    command = [sys.executable, "-c", _PROGRAM, str(server.data_directory), user or ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        left = Path(child.stdout.readline().strip())
        assert left.is_relative_to(pgdyno_home)
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        assert stat.S_IMODE(left.parent.stat().st_mode) == 0o700
        assert left.stat().st_uid == server.data_directory.stat().st_uid
        sweep(LocalRunner(), left.parent, user)
        assert left.is_dir(), "the process that made it lives"
        child.send_signal(signal.SIGKILL)
    assert left.is_dir()
    assert secrets_below(pgdyno_home) == []
    results = examine(target, Configuration.of({"shared_buffers": "48MB"}), ())
    assert not left.exists()
    assert list(home_of(user).iterdir()) == []
    assert list(tmp_path.iterdir()) == []
    said = json.dumps([plain(result) for result in results])
    assert SECRET not in said
    assert "cannot be written" not in said


def test_the_program_reads_what_alter_system_wrote_through_the_link(server: Sandbox, pgdyno_home: Path) -> None:
    """A value that stops a start, from postgresql.auto.conf: the stand-in would not know it without that file."""
    target = server.target()
    with stand_in(target.runner, server.data_directory, target.os_user) as folder:
        assert (folder / "postgresql.auto.conf").is_symlink()
        done = target.runner.run(
            [str(target.bin_dir / "postgres"), "-D", str(folder), "-c",
             f"config_file={server.data_directory}/postgresql.conf", "-c", f"data_directory={folder}",
             "-C", "primary_conninfo"], user=target.os_user, check=False,
        )  # fmt: skip
        assert SECRET in done.stdout, done.stderr
    assert not folder.exists()
    assert (server.data_directory / "postgresql.auto.conf").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder for another account")
def test_root_gives_each_account_its_own_folder_and_follows_no_link(pgdyno_home: Path, tmp_path: Path) -> None:
    folder = home_of("nobody")
    assert folder.stat().st_uid != 0
    assert folder.parent.stat().st_uid == 0
    assert not folder.parent.stat().st_mode & stat.S_IWOTH
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("keep me")
    (folder / "12-34-x-link").symlink_to(tmp_path / "precious")
    (folder / "strange").mkdir()
    os.chown(folder / "strange", folder.stat().st_uid, -1)
    sweep(LocalRunner(), folder, "nobody")
    assert list(folder.iterdir()) == []
    assert (tmp_path / "precious" / "file").read_text() == "keep me"
