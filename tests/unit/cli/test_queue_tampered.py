"""Rows of the queue that somebody with a hand on the store has changed: refused, named, left, and never run."""

import json
import socket
import sqlite3
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

from pgdyno.cli.queue import command
from pgdyno.store.catalogue import Store
from pgdyno.store.queue import Queue
from pgdyno.studies.night.work import NightWork

pytestmark = pytest.mark.requirement("R-EXP-09")


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """The words that work on a queue of its own; what a runner starts is in `started`, and ends at once."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PGDYNO_STORE", raising=False)
    started = []

    class Child:
        def poll(self):
            return 0

    monkeypatch.setattr(NightWork, "start", lambda self, job, words: started.append(tuple(words)) or Child())
    monkeypatch.setattr(NightWork, "disturbance", lambda self, job: None)
    path = tmp_path / "store.db"

    def call(verb, *words):
        return CliRunner().invoke(command, [verb, "--store", str(path), *words], standalone_mode=False)

    call.path, call.started = path, started
    return call


def run(queue):
    done = queue("run", "--window", "00:00-23:59", "--once", "--shortest", "0", "--restore", "0", "--json")
    (night,) = json.loads(done.stdout)["nights"]
    return done.return_value, night


def change(queue, statement, *values):
    with closing(sqlite3.connect(queue.path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


def add(queue, *words):
    added = queue("add", "--json", "--", *words)
    assert added.exit_code == 0, added.output
    return json.loads(added.stdout)["id"]


def test_jobs_of_our_own_run_and_are_over(queue):
    add(queue, "bench", "-c", "3")
    code, night = run(queue)
    assert (code, night["refused"], queue.started) == (0, [], [("bench", "-c", "3")])


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE job SET argv = ?", '["bench", "--restart-command", "sh -c evil"]'),
        ("UPDATE job SET folder = ?", "/tmp"),
        ("UPDATE job SET added_at = ?", 1.0),
        ("UPDATE job SET id = ?", 99),
        ("INSERT INTO job (added_at, argv, state, attempts, host, folder) "
         "SELECT added_at, ?, state, attempts, host, folder FROM job; ", '["bench", "-c", "9"]'),
    ],
)  # fmt: skip
def test_a_row_that_was_changed_or_made_is_refused_and_stays(queue, statement, value):
    add(queue, "bench", "-c", "3")
    change(queue, statement, value)
    code, night = run(queue)
    (refused,) = night["refused"]
    assert code == 6
    assert refused["state"] == "waiting"
    assert refused["reason"].startswith("refused: ")
    assert set(queue.started) <= {("bench", "-c", "3")}
    assert "refused: " in queue("list").stdout


def test_a_copy_of_a_row_is_refused(queue):
    add(queue, "bench", "-c", "3")
    change(
        queue,
        "INSERT INTO job (added_at, argv, state, attempts, host, folder) "
        "SELECT added_at, argv, state, attempts, host, folder FROM job",
    )
    code, night = run(queue)
    assert (code, len(night["jobs"]), len(night["refused"]), len(queue.started)) == (6, 1, 1, 1)


@pytest.mark.parametrize("ending", ["run", "remove"])
def test_a_job_that_is_over_is_not_run_again(queue, ending):
    job = add(queue, "bench", "-c", "3")
    if ending == "run":
        assert run(queue)[0] == 0
    else:
        assert queue("remove", str(job)).exit_code == 0
    queue.started.clear()
    change(queue, "UPDATE job SET state = 'waiting', attempts = 0, study = NULL")
    code, night = run(queue)
    assert (code, len(night["refused"]), queue.started) == (6, 1, [])
    assert "put back into the queue" in night["refused"][0]["reason"]


def test_a_job_of_an_older_version_or_another_account_is_refused_and_says_what_to_do(queue):
    with Store.open(queue.path) as store:
        Queue(store).add(["bench"], host=socket.gethostname(), folder="/", at=1.0)
    add(queue, "bench", "-c", "3")
    code, night = run(queue)
    assert code == 6
    assert "pgdyno queue add" in night["refused"][0]["reason"]
    assert queue.started == [("bench", "-c", "3")]


def test_what_a_terminal_would_obey_is_not_printed(queue):
    add(queue, "bench")
    change(queue, "UPDATE job SET reason = ?, argv = ?", "\x1b[2J", '["bench", "\\u001b]0;x\\u0007"]')
    listed = queue("list").stdout
    assert "\x1b" not in listed
    assert "\x07" not in listed


@pytest.mark.parametrize("argv", ["[]", "{}", '"tune"', "3"])
def test_a_row_without_words_is_named(queue, argv):
    add(queue, "bench")
    change(queue, "UPDATE job SET argv = ?", argv)
    done = queue("list")
    assert done.exit_code != 0
    assert "job 1 cannot be read" in str(done.exception)


def test_a_module_in_the_folder_of_a_job_is_not_ours(tmp_path, monkeypatch):
    """The real start: a folder with a `pgdyno` and a `click` of somebody else."""
    from pgdyno.model.job import Job
    from pgdyno.studies.session.exclusive import ExclusiveLimits

    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "job"
    folder.mkdir()
    for name in ("pgdyno", "click", "json"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'caught')!r}, 'w')\n")
    monkeypatch.setenv("PYTHONPATH", f".:{tmp_path / 'other'}:" + ":".join(path for path in sys.path if path))
    with Store.open(tmp_path / "s.db") as store:
        work = NightWork(store, str(tmp_path / "s.db"), ExclusiveLimits(1, 1, 1), resume=lambda *_: None,
                         target_of=lambda _: None, announce=lambda _: None)  # fmt: skip
        child = work.start(Job(1, 0.0, ("bench",), folder=str(folder)), ["--version"])
        while child.poll() is None:
            pass
    assert not (tmp_path / "caught").exists()
    assert "pgdyno" in (tmp_path / "home" / "state" / "queue" / "job-1-0.out").read_text()
