"""The words of a job: what may wait for the night, and what goes on with a study."""

import getpass
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pgdyno.cli.queue import command
from pgdyno.cli.requests.queue_words import check_words, service_text, target_of, timer_text, words_of
from pgdyno.errors import UsageError
from pgdyno.model.job import Job
from pgdyno.model.study import StudyKind
from pgdyno.store.catalogue import Store
from pgdyno.store.queue import Queue
from pgdyno.studies.night.runner import HUNG_S
from simulated_laboratory import simulated_study

pytestmark = pytest.mark.requirement("R-EXP-09")
TUNE = ("tune", "-w", "ybio", "--trials", "5", "--report", "r.html")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR", "PGDYNO_STORE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "words",
    [TUNE, ("bench",), ("noise", "--minutes", "5"), ("selftest", "--quick"), ("tune", "--target", "host=db1", "--yes")],
)
def test_runs_are_taken(words):
    check_words(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs a verb"),
        (("report", "last"), '"report" is not a run'),
        (("queue", "run"), '"queue" is not a run'),
        (("rm", "-rf"), '"rm" is not a run'),
        (("bench", "--tarzan"), "no such option"),
        (("bench", "--clients", "none"), "none"),
        (("bench", "--help"), "prints help"),
        (("tune", "--target", "host=db1 password=geheim", "--yes"), "holds a password"),
        (("tune", "--target", "postgresql://u:geheim@db1/x", "--yes"), "holds a password"),
        (("tune", "--target", "host=db1"), "nobody to ask"),
        (("bench", "--store", "other.db"), "store of its queue"),
    ],
)
def test_what_could_not_run_unattended_is_refused(words, said):
    with pytest.raises(UsageError) as caught:
        check_words(words)
    assert said in caught.value.message
    assert "geheim" not in f"{caught.value.message} {caught.value.detail} {caught.value.hint}"
    assert caught.value.hint or said in ("none", "prints help")


def test_a_server_that_only_the_environment_names_is_refused(monkeypatch):
    monkeypatch.setenv("PGHOST", "/run/postgresql")
    with pytest.raises(UsageError, match=r"PG\* variables"):
        check_words(("tune",))


def job(*words):
    return Job(7, 0.0, words, host="a", folder="/")


def test_a_tune_goes_on_with_its_study():
    study = replace(simulated_study(), id="20260101-000000-tune-aaaa")
    assert words_of(job(*TUNE, "--json", "--yes"), study) == (
        "tune", "--resume", study.id, "--report", "r.html", "--yes", "--json",
    )  # fmt: skip
    assert words_of(job(*TUNE), None) == TUNE
    check_words(words_of(job(*TUNE), study))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("experiment", "--plan", "p.toml"), StudyKind.STAIRCASE),
        (("experiment", "--sweep", "work_mem=4MB,8MB"), StudyKind.SWEEP),
        (("matrix", "p.toml"), StudyKind.MATRIX),
    ],
)
def test_experiments_and_matrices_go_on_with_theirs(words, kind, tmp_path):
    (tmp_path / "p.toml").write_text("")
    study, waiting = replace(simulated_study(), kind=kind), replace(job(*words), folder=str(tmp_path))
    assert words_of(waiting, study) == (words[0], "--resume", study.id)
    check_words(words_of(waiting, study))


def test_a_folder_that_is_gone_is_said(tmp_path):
    with pytest.raises(UsageError, match="cannot be entered"):
        target_of(replace(job("bench"), folder=str(tmp_path / "gone")))


def test_two_configurations_begin_anew():
    assert words_of(job("experiment", "--ab", "a", "b"), replace(simulated_study(), kind=StudyKind.AB)) is None


def test_a_verb_without_resume_begins_anew():
    study = replace(simulated_study(), kind=StudyKind.BENCH)
    assert words_of(job("bench"), study) is None


def test_the_target_of_a_job_is_what_its_verb_reads():
    assert target_of(job("tune", "--target", "host=db1", "--yes")).dsn == "host=db1"
    assert target_of(job("bench", "--sandbox", "x")).sandbox == "x"


def test_add_list_and_remove(tmp_path):
    store = ["--store", str(tmp_path / "s.db")]
    run = CliRunner().invoke
    added = run(command, ["add", *store, "--json", "--", "bench", "-c", "3"])
    assert added.exit_code == 0, added.output
    job_id = json.loads(added.stdout)["id"]
    listed = json.loads(run(command, ["list", *store, "--json"]).stdout)["jobs"]
    assert [(one["id"], one["argv"], one["state"]) for one in listed] == [(job_id, ["bench", "-c", "3"], "waiting")]
    assert run(command, ["remove", *store, str(job_id)]).exit_code == 0
    assert json.loads(run(command, ["list", *store, "--json"]).stdout)["jobs"] == []
    every = json.loads(run(command, ["list", *store, "--all", "--json"]).stdout)["jobs"]
    assert [one["state"] for one in every] == ["removed"]


def test_the_units_run_one_window_and_give_time_to_restore(tmp_path):
    argv = ["/opt/py thon", "-m", "pgdyno", "queue", "run", "--window", "22:00-06:00", "--once"]
    service = service_text(argv, user="postgres", home="/srv/x", stop_s=1800)
    assert 'ExecStart="/opt/py thon" -m pgdyno queue run --window 22:00-06:00 --once\n' in service
    words = ["/bin/run", "it's", 'a "b"', "c\\d", "e%", "$HOME"]
    odd = service_text(words, user="postgres", home="/srv/a b%", stop_s=1)
    assert r'''ExecStart=/bin/run "it's" "a \"b\"" "c\\d" e%% "$$HOME"''' + "\n" in odd, "no shell reads them"
    assert 'Environment="PGDYNO_HOME=/srv/a b%%"\n' in odd
    assert "KillMode=mixed\nTimeoutStopSec=1800\n" in service
    assert "OnCalendar=*-*-* 22:00:00 Europe/Berlin\n" in timer_text("22:00", "Europe/Berlin")
    done = CliRunner().invoke(command, ["timer", "--window", "22:00-06:00", "-o", str(tmp_path / "units")])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "units").iterdir()) == [
        "pgdyno-night.service",
        "pgdyno-night.timer",
    ]


def test_the_timer_names_store_and_user_as_they_hold_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGDYNO_HOME", raising=False)
    argv = ["timer", "--window", "22:00-06:00", "--store", "night.db", "--json"]
    service = json.loads(CliRunner().invoke(command, argv).stdout)["pgdyno-night.service"]
    assert f"--store {tmp_path}/night.db\n" in service
    assert f"User={getpass.getuser()}\n" in service
    assert f"TimeoutStopSec={HUNG_S + 60:.0f}\n" in service  # the job gets HUNG_S, and its end is kept after that
    monkeypatch.setenv("PGDYNO_HOME", "laboratory")
    service = json.loads(CliRunner().invoke(command, argv).stdout)["pgdyno-night.service"]
    assert f'Environment="PGDYNO_HOME={tmp_path}/laboratory"\n' in service


def test_a_job_whose_runner_was_killed_is_listed_as_left(tmp_path):
    store = str(tmp_path / "s.db")
    with Store.open(store) as opened, subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
        queue, host = Queue(opened), socket.gethostname()
        for runner in (f"{host}:{gone.pid}", f"{host}:{os.getpid()}"):  # ours is alive, and no runner of a queue
            job = queue.add(["bench", "-D", "filler=a b"], host=host, folder="/", at=0.0)
            assert queue.claim(host=host, runner=runner, at=1.0).id == job.id
        far = queue.add(["bench"], host="elsewhere", folder="/", at=0.0)
        queue.claim(host="elsewhere", runner="elsewhere:1", at=1.0)
    listed = CliRunner().invoke(command, ["list", "--store", store]).stdout
    assert listed.count("is gone: the next pgdyno queue run picks it up") == 2
    assert "pgdyno bench -D 'filler=a b'" in listed
    jobs = json.loads(CliRunner().invoke(command, ["list", "--store", store, "--json"]).stdout)["jobs"]
    assert [one["abandoned"] for one in jobs] == [True, True, False]
    assert jobs[2]["id"] == far.id
