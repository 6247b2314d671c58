"""As root, beside a server whose owner is hostile: no program of his runs with root's rights, no socket is trusted."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import root_audit

import fix_postgres
from fix_lair import Lair
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, ExitCode
from pgdyno.linux.peer import required_peer
from pgdyno.model.configuration import Configuration
from pgdyno.owner.programs import check_program, doubt_about
from pgdyno.owner.runner import LocalRunner
from pgdyno.server.binaries import client_bin_dir
from pgdyno.targets import connect
from pgdyno.targets.connect import open_target
from pgdyno.undo.apply import Session
from warm_program import run_pgdyno

pytestmark = [
    pytest.mark.pg,
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose"),
]


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["advise"],
        ["guards"],
        ["privileges", "--for", "tune"],
        ["bench", "--workload", "tpcb-like", "-D", "scale=1", "-c", "1", "-R", "50", "--measure", "2", "--warmup", "1"],
    ],
    ids=lambda words: words[0],
)
def test_no_program_of_the_owner_runs_as_root(lair: Lair, words: list[str], pgdyno_home: Path) -> None:
    _run(lair, words)


def test_the_plan_of_a_change_runs_no_program_of_the_owner_as_root(lair: Lair, pgdyno_home: Path) -> None:
    postgres = lair.target.postgres
    postgres.execute("ALTER SYSTEM SET log_checkpoints = off")  # so that there is something to propose
    postgres.fetch("SELECT pg_reload_conf()")
    try:
        assert "log_checkpoints: off -> on" in _run(lair, ["apply", "log-checkpoints", "--dry-run"])
    finally:
        postgres.execute("ALTER SYSTEM RESET log_checkpoints")
        postgres.fetch("SELECT pg_reload_conf()")


def test_a_server_whose_programs_do_not_run_is_read_and_not_restarted(lair: Lair, pgdyno_home: Path) -> None:
    program = lair.target.bin_dir / "postgres"
    spy = program.read_text()
    try:
        program.write_text("#!/bin/sh\nexit 1\n")
        told = open_target(lair.target.postgres.conninfo)
        assert told.control is None
        assert told.no_control == f'"{program}" does not run as user nobody'
        assert "PostgreSQL" in _run(lair, ["inspect"])
    finally:
        program.write_text(spy)


def _run(lair: Lair, words: list[str]) -> str:
    """Run a verb as root on the lair's server, see who ran its programs, and return what the verb printed."""
    lair.log.write_text("")
    done = run_pgdyno(*words, "--target", lair.target.postgres.conninfo)
    assert done.returncode != ExitCode.USAGE, f"the verb did not begin its work: {done.stderr}"
    assert "Traceback" not in done.stderr
    ran = [line for line in lair.spied() if line.startswith("0 ")]
    assert not ran, done.stderr
    return done.stdout + done.stderr


def test_a_session_runs_the_owners_programs_as_the_owner(lair: Lair, tmp_path: Path) -> None:
    lair.log.write_text("")
    target = open_target(lair.target.postgres.conninfo)
    assert target.os_user == "nobody"
    with Session.begin(target, study="boundaries", undo_root=tmp_path) as session:
        session.apply(Configuration.of({"work_mem": "8MB"}))
        session.apply(Configuration.of({"shared_buffers": "32MB"}))
    assert lair.spied(), "the restart went through pg_ctl"
    assert {line.split()[0] for line in lair.spied()} == {str(lair.account.uid)}


def test_root_opens_no_file_of_the_server(lair: Lair, tmp_path: Path) -> None:
    """The whole class at once: an audit of every file that root's own process opens, renames, removes or lists."""
    script = Path(__file__).with_name("audited_session.py")
    done = subprocess.run(
        [sys.executable, str(script), lair.target.postgres.conninfo, str(tmp_path)],
        env={**os.environ, root_audit.FOLDER: str(lair.folder), "PYTHONPATH": str(Path(root_audit.__file__).parent)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["applied"] == 2
    assert told["touched"] == []


def test_clients_of_the_owner_are_not_used_for_a_load(lair: Lair) -> None:
    assert client_bin_dir(lair.target.bin_dir) != lair.target.bin_dir


def test_a_program_that_others_could_change_is_not_run_as_root(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert LocalRunner().run([str(program)]).stdout == "ran\n"
    for change, reason in (
        (lambda: program.chmod(0o777), "can be written by others"),
        (lambda: os.chown(program, pwd.getpwnam("nobody").pw_uid, -1), 'belongs to user "nobody"'),
        (lambda: tmp_path.chmod(0o757), "can be written by others"),
    ):
        change()
        with pytest.raises(EnvironmentUnsuitable, match=reason):
            LocalRunner().run([str(program)])
        program.chmod(0o755)
        os.chown(program, 0, 0)
        tmp_path.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(program)
    assert check_program(str(link), 0) == str(link)
    os.lchown(link, pwd.getpwnam("nobody").pw_uid, -1)
    assert 'belongs to user "nobody"' in (doubt_about(link, 0) or "")


def test_a_socket_that_nobody_named_must_belong_to_somebody_trusted() -> None:
    folder = fix_postgres.public_dir()
    folder.chmod(0o1777)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / ".s.PGSQL.5999"))
            assert required_peer(folder, "5999") == {"requirepeer": "root"}
            os.chown(folder / ".s.PGSQL.5999", pwd.getpwnam("nobody").pw_uid, -1)
            with pytest.raises(ConnectError, match='belongs to user "nobody", whom nobody named'):
                required_peer(folder, "5999")
            folder.chmod(0o755)
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
            assert required_peer(folder, "5999") == {"requirepeer": "nobody"}
        assert required_peer(folder, "6000") == {}
    finally:
        shutil.rmtree(folder)


def test_who_looks_for_a_server_is_told_of_the_socket_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, empty = fix_postgres.public_dir(), fix_postgres.public_dir()
    folder.chmod(0o1777)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / ".s.PGSQL.5998"))
            os.chown(folder / ".s.PGSQL.5998", pwd.getpwnam("nobody").pw_uid, -1)
            monkeypatch.setattr(connect, "SOCKET_FOLDERS", (str(empty), str(folder)))
            with pytest.raises(ConnectError, match="whom nobody named") as caught:
                open_target("port=5998 user=postgres dbname=postgres")
            assert f"host={folder}" in (caught.value.hint or "")
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(empty)


def test_a_guessed_server_of_a_strange_account_gets_no_session(
    lair: Lair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = lair.folder / "home" / "data"
    guessed = fix_postgres.public_dir()
    guessed.chmod(0o1777)
    try:
        (guessed / ".s.PGSQL.54329").symlink_to(data / ".s.PGSQL.54329")
        os.lchown(guessed / ".s.PGSQL.54329", 0, 0)  # as if it were trusted: then libpq asks the kernel who listens
        monkeypatch.setattr(connect, "SOCKET_FOLDERS", (str(guessed),))
        with pytest.raises(ConnectError) as caught:
            open_target("port=54329 user=postgres dbname=postgres")
        assert "requirepeer" in (caught.value.detail or "")
    finally:
        shutil.rmtree(guessed)
