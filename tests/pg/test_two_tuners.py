"""Two pgdyno at once, as people start them: on one server under two accounts, and on one study in two shells."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

import pgdyno
from calm_load import SCRIPT, calm
from fix_postgres import ONE_BUILD, find_build, public_dir
from pgdyno.model.study import StudyState
from pgdyno.model.trial import TrialState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.store.catalogue import Store
from pgdyno.targets.connect import open_target
from pgdyno.undo import server_lock
from pgdyno.undo.apply import Session
from server_image import files_of, settings_of
from store_copies import content_of
from warm_program import RunningPgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow]
SAME = "pg/test_two_tuners.py::test_the_second_tuner_of_another_account_is_refused_and_the_first_goes_on"
TUNE = ["--trials", "1", "--noise-runs", "3", "--pairs", "2", "3", "--only", "work_mem",
        "--reload-only"]  # fmt: skip
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
PATIENCE_S = 180.0


def await_until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


class Account:
    """An account that runs pgdyno with a state folder of its own: root, or the one that owns the server."""

    def __init__(self, user: str | None, home: Path) -> None:
        self.home, self.user = home, user
        self._ids: dict[str, object] = {}
        if user is not None:
            account = pwd.getpwnam(user)
            shutil.chown(home, account.pw_uid, account.pw_gid)
            self._ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            self.python = f"/usr/bin/python3.{sys.version_info.minor}"
        packages = [Path(pgdyno.__file__).parents[1], Path(click.__file__).parents[1]]
        self.env = {
            "PATH": os.environ["PATH"],
            "PGDYNO_HOME": str(home),
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
            return subprocess.CompletedProcess(words, process.returncode, out, err)

    @contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        if self.user is None:
            with RunningPgdyno(*words, PGDYNO_HOME=str(self.home)) as process:
                try:
                    yield process  # type: ignore[misc]  # it has all that is called here
                finally:
                    process.kill()
            return
        with subprocess.Popen(
            [self.python, "-m", "pgdyno", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", env=self.env, **self._ids,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def account_of() -> Iterator[Callable[[str | None], Account]]:
    homes: list[Path] = []

    def make(user: str | None) -> Account:
        homes.append(public_dir())
        made = Account(user, homes[-1])
        try:
            done = made.run("--version")
        except OSError as error:
            pytest.skip(f"{user} cannot run our Python: {error}")
        if done.returncode != 0:
            pytest.skip(f"{user} cannot run our Python: {done.stderr}")
        return made

    yield make
    for home in homes:
        shutil.rmtree(home)


@pytest.fixture(params=ONE_BUILD)
def server(request: pytest.FixtureRequest, make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    sandbox = make_sandbox("twice", bin_dir=find_build(request.param))
    sandbox.start()
    return sandbox


def target_words(server: Sandbox) -> list[str]:
    return ["--target", server.target().postgres.conninfo, "--yes"]


def load_of(account: Account) -> list[str]:
    """Return the flags of a load whose script the account may read."""
    return calm(Path(conf(account.home, "calm.sql", SCRIPT.read_text())))


@contextmanager
def waiting_for_its_store(account: Account) -> Iterator[None]:
    """Keep a study of the account, whose store is there, from its next trial."""
    locker = sqlite3.connect(account.home / "data" / "pgdyno.db", isolation_level=None, timeout=PATIENCE_S)
    locker.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        locker.execute("ROLLBACK")
        locker.close()


def conf(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return str(path)


@needs_root
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "root_is_first",
    [
        pytest.param(
            True,
            marks=pytest.mark.night(SAME),
        ),
        False,
    ],
)
def test_the_second_tuner_of_another_account_is_refused_and_the_first_goes_on(
    server: Sandbox, account_of: Callable[[str | None], Account], root_is_first: bool, tmp_path: Path
) -> None:
    owner = server.target().os_user
    first, second = account_of(None if root_is_first else owner), account_of(owner if root_is_first else None)
    pair = [conf(first.home, "a.conf", ""), conf(first.home, "b.conf", "work_mem = 8MB\n")]
    before, files = settings_of(server), files_of(server.data_directory)
    ab = ["experiment", "--ab", *pair, "--pairs", "2", "2", "--restarts", "none", *load_of(first), "--json"]
    with first.start(*ab, *target_words(server)) as running:
        await_until(lambda: server_lock.look(server.data_directory), running)
        holder = server_lock.look(server.data_directory)
        assert holder is not None
        assert holder.process.pid == running.pid
        with waiting_for_its_store(first):  # on a slow machine it would be over before the second has begun
            for words in (["bench"], ["tune", *TUNE]):
                refused = second.run(*words, *load_of(second), *target_words(server)[: 2 if words == ["bench"] else 3])
                assert refused.returncode == 6, (words, refused.stderr)
                assert f"session {holder.session}" in refused.stderr
                assert f"Process {running.pid} of user {holder.user} is working on it" in refused.stderr
            assert running.poll() is None
        out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode in (0, 1, 3), err
    result = json.loads(out.splitlines()[-1])
    copy = tmp_path / "copy.db"  # root opens no store in a folder of another account
    copy.write_bytes(content_of(first.home / "data" / "pgdyno.db"))
    with Store.open(copy) as store:
        states = {trial.state for trial in store.trials(result["study"])}
    assert TrialState.ABANDONED not in states
    assert TrialState.VOID not in states
    assert files_of(server.data_directory) == files
    assert snapshot.differences(before, settings_of(server)) == ()


@needs_root
@pytest.mark.timeout(600)
def test_after_a_kill_the_other_account_begins_when_the_watchdog_is_done(
    server: Sandbox, account_of: Callable[[str | None], Account], tmp_path: Path
) -> None:
    first = account_of(server.target().os_user)
    before, files = settings_of(server), files_of(server.data_directory)
    pair = [conf(first.home, "a.conf", "work_mem = 9MB\n"), conf(first.home, "b.conf", "work_mem = 8MB\n")]
    ab = ["experiment", "--ab", *pair, "--pairs", "20", "20", "--restarts", "none", *load_of(first)]
    with first.start(*ab, *target_words(server)) as running:
        await_until(lambda: (server.data_directory / "pgdyno.conf").exists(), running)
        running.send_signal(signal.SIGKILL)
    target = open_target(server.target().postgres.conninfo)
    await_until(lambda: server_lock.look(server.data_directory) is None)
    with Session.begin(target, study="after", undo_root=tmp_path / "undo") as session:
        assert session.id
        assert snapshot.differences(before, settings_of(server)) == ()
    assert files_of(server.data_directory) == files


@pytest.mark.timeout(600)
def test_a_study_that_runs_is_resumed_by_nobody_and_waits_for_a_store_that_is_locked(
    server: Sandbox, account_of: Callable[[str | None], Account]
) -> None:
    shell = account_of(None)
    database = shell.home / "data" / "pgdyno.db"
    with (
        shell.start("tune", *TUNE, *load_of(shell), "--json", *target_words(server)) as running,
        Store.open(shell_store(shell)) as store,
    ):
        await_until(lambda: store.studies() and store.trials(store.studies()[0].id), running)
        study = store.studies()[0].id
        with waiting_for_its_store(shell):  # on a slow machine it would be over before it was asked for twice
            since = time.monotonic()
            for name in ("last", study):
                refused = shell.run("tune", "--resume", name, "--yes")
                assert refused.returncode == 6, refused.stderr
                assert f"study {study} is running as process {running.pid}" in refused.stderr
                assert store.study(study).state is StudyState.RUNNING
            # Longer than a transaction waits by itself: the point of the test.
            time.sleep(max(0.0, 12 - (time.monotonic() - since)))
            assert running.poll() is None
        _, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode in (0, 3), err
        assert err.count(f'store "{database}" is locked by process {os.getpid()}') >= 1
        assert store.study(study).state is StudyState.COMPLETE
        assert TrialState.ABANDONED not in {trial.state for trial in store.trials(study)}


def shell_store(shell: Account) -> Path:
    (shell.home / "data").mkdir(exist_ok=True)
    return shell.home / "data" / "pgdyno.db"


@pytest.mark.timeout(600)
def test_a_store_that_stays_locked_does_not_keep_the_server_from_being_put_back(
    server: Sandbox, account_of: Callable[[str | None], Account]
) -> None:
    """SIGTERM while the study waits: the server first, and within the time that a watchdog would give."""
    shell = account_of(None)
    before, files = settings_of(server), files_of(server.data_directory)
    pair = [conf(shell.home, "a.conf", "work_mem = 9MB\n"), conf(shell.home, "b.conf", "work_mem = 8MB\n")]
    ab = ["experiment", "--ab", *pair, "--pairs", "20", "20", "--restarts", "none", *load_of(shell)]
    with (
        shell.start(*ab, *target_words(server)) as running,
        Store.open(shell_store(shell)) as store,
    ):
        await_until(lambda: (server.data_directory / "pgdyno.conf").exists(), running)
        locker = sqlite3.connect(shell_store(shell), isolation_level=None)
        locker.execute("BEGIN EXCLUSIVE")
        assert running.stderr is not None
        await_until(lambda: "is locked by process" in running.stderr.readline(), running)  # type: ignore[union-attr]
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 130
        locker.execute("ROLLBACK")
        locker.close()
        assert [study.state for study in store.studies()] != [StudyState.COMPLETE]
    assert files_of(server.data_directory) == files
    assert snapshot.differences(before, settings_of(server)) == ()
    assert server_lock.look(server.data_directory) is None
