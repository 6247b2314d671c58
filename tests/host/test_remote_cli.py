"""The verbs with --host, as a user types them, through a real sshd."""

from __future__ import annotations

import contextlib
import json
import pwd
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from test_remote_session import Found, kill_all, pids_with

from calm_load import calm
from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.errors import ConnectError
from pgdyno.model.configuration import Configuration
from pgdyno.remote import payload
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import INSTALLED, HostRequest
from pgdyno.remote.host import opened_host
from pgdyno.targets.target import Target
from pgdyno.undo.bundle import UndoBundle, bundle_directories
from pgdyno.undo.watch import Deadlines
from pgdyno.workloads.template import APPLICATION_NAME
from server_image import eventually
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow]
LOAD = [
    "-w",
    "tpcb-like",
    "-D",
    "scale=1",
    "-c",
    "2",
    "-R",
    "200",
    "--warmup",
    "1",
    "--measure",
    "3",
    "--yes",
    "--json",
]
ROOMY = ["--foreign-cpu", "100000", "--steal", "100"]


server = pytest.fixture(foreign_debian)


def pgdyno(*words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(*words, timeout_s=280)


def where(sshd: Sshd, server: Target) -> list[str]:
    return ["--host", sshd.url, "--target", server.postgres.conninfo]


def conf(folder: Path, name: str, lines: Sequence[str]) -> str:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def is_loaded(server: Target) -> bool:
    try:
        found = server.postgres.fetch(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND datname LIKE '%%load'", [APPLICATION_NAME]
        )
    except ConnectError:  # it is being restarted
        return False
    return bool(found)


def test_bench_measures_the_host(sshd: Sshd, server: Target, pgdyno_home: Path, tmp_path: Path) -> None:
    settings = conf(tmp_path, "a.conf", ["work_mem = 8MB"])
    for attempt in range(1, 4):  # once more where the machine is too busy for a steady window
        done = pgdyno("bench", *where(sshd, server), *LOAD, *ROOMY, "--conf", settings)
        assert len(bundle_directories(sshd.undo_root)) == attempt
        if done.returncode != 6:
            break
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "complete"
    with contextlib.closing(sqlite3.connect(pgdyno_home / "data" / "pgdyno.db")) as store:
        seen = store.execute("SELECT cpus, server_cpu_s, driver_cpu_s, self_cpu_s, foreign_cpu_pct FROM cpu").fetchall()
    assert len(seen) > 1
    assert all(value is not None for row in seen for value in row)
    assert sum(row[1] for row in seen) > 0
    assert sum(row[2] for row in seen) > 0
    assert not (pgdyno_home / "state" / "undo").exists() or not list((pgdyno_home / "state" / "undo").iterdir())


def test_an_experiment_reloads_and_restarts_there(
    sshd: Sshd, server: Target, pgdyno_home: Path, tmp_path: Path
) -> None:
    found = Found(server)
    one = conf(tmp_path, "one.conf", ["work_mem = 8MB"])
    two = conf(tmp_path, "two.conf", ["shared_buffers = 48MB", "work_mem = 8MB"])
    pairs = ["--pairs", "2", "2", "--seed", "1"]
    done = pgdyno("experiment", "--ab", one, two, *pairs, *where(sshd, server), *calm(), "--yes", "--json")
    assert done.returncode in (0, 1, 3), done.stderr
    assert json.loads(done.stdout)["verdict"]["word"]
    (directory,) = bundle_directories(sshd.undo_root)
    kinds = [record.kind for record in UndoBundle.open(directory).reading().records]
    assert kinds.count("in force") >= 4
    found.assert_again()


def test_a_killed_tuner_leaves_the_host_restored(sshd: Sshd, server: Target, pgdyno_home: Path, tmp_path: Path) -> None:
    found = Found(server)
    settings = conf(tmp_path, "a.conf", ["work_mem = 8MB"])  # put back by a reload, which ends no session
    load = [word if word != "3" else "600" for word in LOAD]
    with RunningPgdyno("bench", *where(sshd, server), *load, "--conf", settings) as tuner:
        try:
            eventually(lambda: is_loaded(server), "the load runs")
            assert server.postgres.fetch("SHOW work_mem") == [{"work_mem": "8MB"}]
        finally:
            tuner.send_signal(signal.SIGKILL)
            tuner.wait()
    (directory,) = bundle_directories(sshd.undo_root)
    eventually(UndoBundle.open(directory).is_closed, "the host restores when the tuner is killed")
    found.assert_again()
    eventually(lambda: not pids_with(str(pgdyno_home / "state" / "runs")), "its load generator ends too")


def test_rollback_lists_and_restores_what_is_on_the_host(sshd: Sshd, server: Target, pgdyno_home: Path) -> None:
    found = Found(server)
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        host.target(server.postgres.conninfo)
        session = host.begin(study="left", watch=Deadlines())
        session.apply(Configuration.of({"work_mem": "8MB"}))
        of_the_host = (str(sshd.home / "cache"), str(sshd.undo_root))
        kill_all(*of_the_host)
        eventually(lambda: not any(pids_with(word) for word in of_the_host), "agent and watchdogs are gone")
    listed = json.loads(pgdyno("rollback", "--list", "--json", "--host", sshd.url).stdout)["sessions"]
    assert [(entry["session"], entry["state"]) for entry in listed] == [(session.id, "abandoned")]
    assert "no sessions" in pgdyno("rollback", "--list").stdout
    done = pgdyno("rollback", session.id[:20], "--host", sshd.url)
    assert done.returncode == 0, done.stderr
    assert "as they were found" in done.stdout
    found.assert_again()
    assert "nothing to roll back" in pgdyno("rollback", "--host", sshd.url).stdout


def test_check_says_what_works_and_what_is_missing(sshd: Sshd, server: Target, pgdyno_home: Path) -> None:
    good = pgdyno("host", "check", *where(sshd, server), "--json")
    assert good.returncode == 0, good.stdout + good.stderr
    assert {finding["what"] for finding in json.loads(good.stdout)} >= {"ssh", "python", "agent", "server", "changes"}
    bad = pgdyno("host", "check", "--host", sshd.url, "--target", "host=/nonexistent")
    assert bad.returncode == 6
    assert "missing  server" in bad.stdout
    assert "Traceback" not in bad.stderr


def test_sudo_gets_no_interpreter_of_the_users_own(bare_sshd: Sshd, pgdyno_home: Path) -> None:
    """The digest covers the agent and not what runs it: that must be root's."""
    url = bare_sshd.url.replace("postgres@", "root@")
    with opened_host(HostRequest(HostAddress.parse(url))) as host:
        plain = host.payload.digest
    printed = pgdyno("host", "sudoers", "--host", url)
    assert printed.returncode == 0, printed.stderr
    digest = printed.stdout.rpartition("sha256:")[2].split()[0]
    assert digest == payload.build("/usr/bin/python3").digest
    assert (digest == plain) == (host.look.python == "/usr/bin/python3")


@contextlib.contextmanager
def allowed_by_sudo(flags: Sequence[str]) -> Iterator[None]:
    """Install agent and rule as the printed file says, until the block ends; PGDYNO_HOME stays the test's."""
    rule, agent = Path("/etc/sudoers.d/pgdyno-test"), Path(INSTALLED)
    if not Path("/usr/bin/sudo").exists() or agent.exists():
        pytest.skip("no sudo, or an agent of somebody's is installed")
    printed = pgdyno("host", "sudoers", *flags)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert [line for line in lines if not line.startswith("#") and line] == lines[-1:]
    (install,) = (line.removeprefix("#").split() for line in lines if "install -D" in line)
    try:
        subprocess.run(install, check=True)
        rule.write_text(f"{printed.stdout}Defaults env_keep += PGDYNO_HOME\n")
        rule.chmod(0o440)
        subprocess.run(["visudo", "-c", "-f", str(rule)], check=True, capture_output=True)
        yield
    finally:
        rule.unlink(missing_ok=True)
        agent.unlink(missing_ok=True)


@pytest.mark.xdist_group("sudo")
def test_sudo_starts_the_agent_that_it_knows_and_no_other(sshd: Sshd, pgdyno_home: Path) -> None:
    flags = ["--host", sshd.url, "--sudo-user", "nobody"]
    refused = pgdyno("rollback", "--list", *flags)
    assert refused.returncode == 6
    assert "pgdyno host sudoers" in refused.stderr
    sshd.home.chmod(0o755)
    with allowed_by_sudo(flags):
        done = pgdyno("rollback", "--list", *flags)
        assert (done.returncode, done.stdout) == (0, "no sessions\n"), done.stderr
        with Path(INSTALLED).open("ab") as file:
            file.write(b"x")
        changed = pgdyno("rollback", "--list", *flags)
        assert changed.returncode == 6
        assert "sudo does not start the agent" in changed.stderr


@pytest.mark.xdist_group("sudo")
def test_a_session_by_sudo_that_is_cut_restores(bare_sshd: Sshd, server: Target, pgdyno_home: Path) -> None:
    """The ssh user, who could not do it, works as the server's owner."""
    found = Found(server)
    url = bare_sshd.url.replace("postgres@", "root@")
    with allowed_by_sudo(["--host", url, "--sudo-user", "postgres"]):
        with opened_host(HostRequest(HostAddress.parse(url), "postgres")) as host:
            host.target(server.postgres.conninfo)
            host.begin(study="sudo", watch=Deadlines()).apply(Configuration.of({"work_mem": "8MB"}))
            (directory,) = bundle_directories(bare_sshd.undo_root)
            bundle = UndoBundle.open(directory)
            assert directory.stat().st_uid == pwd.getpwnam("postgres").pw_uid
            kill_all(f"ControlPath={host.connection.folder}")
            eventually(bundle.is_closed, "restored behind sudo")
        found.assert_again()
