"""Night runs, noise and self-test as a user calls them, on a real sandbox. Relations, never a machine's speed."""

import json
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta

import pytest
from test_cli_studies import last_json, pgdyno

from calm_load import calm
from fix_postgres import NIGHT
from pgdyno.model.trial import TrialState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.selftest.run import chosen
from server_image import write_as_owner
from warm_program import RunningPgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(600)]
LOAD = calm()
BURN = """
import time
while True:
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
    time.sleep(0.05)
"""
ANYWAY = ["--foreign-cpu", "100000", "--foreign-disk", "100000", "--foreign-sessions", "1000", "--look", "1"]
TUNE = [
    "tune", *LOAD, "--only", "work_mem", "--reload-only", "--trials", "30", "--noise-runs", "3",
    "--foreign-disk", "100000", "--foreign-sessions", "1000",
]  # fmt: skip


def clock(minutes):
    return f"{datetime.now() + timedelta(minutes=minutes):%H:%M}"


def jobs(home):
    return last_json(pgdyno(home, "queue", "list", "--all", "--json"))["jobs"]


def night(home, *flags, open_now=True, **kwargs):
    window = f"{clock(-60)}-{clock(120)}" if open_now else f"{clock(120)}-{clock(240)}"
    return pgdyno(home, "queue", "run", "--window", window, "--once", "--shortest", "1", *ANYWAY, *flags, **kwargs)


def stored(home):
    return Store.open(home / "data" / "pgdyno.db")


@pytest.mark.requirement("R-EXP-09")
def test_a_closed_window_starts_nothing_and_an_open_one_runs_the_job(pgdyno_home):
    assert pgdyno(pgdyno_home, "queue", "add", "--", "bench", *LOAD).returncode == 0
    closed = night(pgdyno_home, "--json", open_now=False)
    assert closed.returncode == 0, closed.stderr
    assert last_json(closed) == {"nights": []}
    assert "nothing is started" in closed.stderr
    assert jobs(pgdyno_home)[0]["attempts"] == 0
    for _ in range(6):  # once more where the machine is too busy for a steady window
        done = night(pgdyno_home, "--json")
        ((job,),) = [one["jobs"] for one in last_json(done)["nights"]]
        if job["exit_code"] != 6:
            break
        assert pgdyno(pgdyno_home, "queue", "add", "--", "bench", *LOAD).returncode == 0
    assert done.returncode == 0, done.stderr
    assert (job["state"], job["exit_code"]) == ("done", 0)
    with stored(pgdyno_home) as store:
        study = store.study(job["study"])
        assert study.options["job"] == job["id"]
        assert study.options["bounds"]["foreign_disk_mb_per_s"] == 100000


@pytest.mark.requirement("R-EXP-10")
def test_a_machine_that_is_not_quiet_gets_no_job(pgdyno_home):
    assert pgdyno(pgdyno_home, "queue", "add", "--", "bench", *LOAD).returncode == 0
    with burner():
        # A retry that the rest of the night has no time for: it gives up after one look.
        done = night(pgdyno_home, "--foreign-cpu", "20", "--look", "3", "--until", _in(300), "--retry", "600")
    assert done.returncode == 6, done.stderr
    (job,) = jobs(pgdyno_home)
    assert (job["state"], job["attempts"]) == ("waiting", 0)
    assert "foreign CPU is" in job["reason"]


@pytest.mark.requirement("R-EXP-09", "R-EXP-21")
def test_a_tune_survives_a_kill_of_its_runner_and_the_end_of_a_night(pgdyno_home):
    assert pgdyno(pgdyno_home, "queue", "add", "--", *TUNE).returncode == 0
    window = f"{clock(-60)}-{clock(120)}"
    words = ["queue", "run", "--window", window, "--once", *ANYWAY]
    with RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home)) as runner:
        first = until(lambda: finished(pgdyno_home, 1))
        assert night(pgdyno_home).returncode == 6, "there is a runner already"
        runner.send_signal(signal.SIGKILL)
    until(lambda: state_of(pgdyno_home) == "interrupted")  # its child was told to end with it
    assert night(pgdyno_home, open_now=False).returncode == 0
    (job,) = jobs(pgdyno_home)
    assert (job["state"], job["study"]) == ("interrupted", first.study_id)
    done = night(pgdyno_home, "--until", _in(32), "--restore", "8")
    assert done.returncode == 0, done.stderr
    assert f"tune --resume {first.study_id}" in done.stderr
    (job,) = jobs(pgdyno_home)
    assert (job["state"], job["attempts"], job["study"]) == ("interrupted", 2, first.study_id)
    assert "the window closed" in job["reason"]
    with stored(pgdyno_home) as store:
        assert len(store.studies()) == 1
        places = [(one.spec.role, one.spec.block, one.spec.slot) for one in store.trials(first.study_id)
                  if one.state is TrialState.COMPLETE and one.spec.repeats is None]  # fmt: skip
        assert len(places) == len(set(places)), "no trial was made twice"
    sessions = json.loads(pgdyno(pgdyno_home, "rollback", "--list", "--json").stdout)["sessions"]
    assert not [one for one in sessions if one["state"] == "abandoned"]


@pytest.mark.requirement("R-EXP-10")
def test_a_burner_disturbs_a_run_and_the_run_is_repeated(pgdyno_home):
    words = ["bench", *LOAD, "--foreign-cpu", "20"]
    with RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home)) as bench:
        with burner():
            first = until(lambda: finished(pgdyno_home, 1))
        bench.communicate()
    assert bench.returncode in (0, 6)
    assert first.state in (TrialState.DISTURBED, TrialState.UNSTEADY)
    with stored(pgdyno_home) as store:
        trials = store.trials(first.study_id)
    assert [trial.spec.repeats for trial in trials][:2] == [None, first.id]
    if first.state is TrialState.DISTURBED:
        assert "foreign CPU was" in first.outcome.reason


@pytest.mark.requirement("R-EXP-11")
def test_noise_prints_what_can_be_told_and_changes_nothing(pgdyno_home, tmp_path):
    page = tmp_path / "noise.html"
    done = pgdyno(pgdyno_home, "noise", *LOAD, "--measure", "5", "--minutes", "0.1", "--report", str(page), "--json")
    assert done.returncode in (0, 3), done.stderr
    result = last_json(done)
    throughput = result["metrics"][0]
    assert len(result["runs"]) >= 3
    assert [window["measured"] for window in throughput["windows"]][-2:] == [False, False]
    assert "Throughput" in page.read_text()
    assert json.loads(pgdyno(pgdyno_home, "rollback", "--list", "--json").stdout)["sessions"] == []


@pytest.mark.requirement("R-EXP-11")
@pytest.mark.parametrize("case", ["wal", "planner"] if NIGHT else ["wal"])
def test_the_selftest_finds_a_sabotage_and_puts_it_back(pgdyno_home, case):
    """Of a push the one whose sabotage waits: that of the planner has all CPUs work.

    Commits of the server as it is wait for 5 ms: without that its load uses up two CPUs, and what is shown is a ratio.
    """
    with Sandbox.open_or_create(root=pgdyno_home / "cache") as sandbox:
        main = sandbox.data_directory / "postgresql.conf"
        write_as_owner(main, main.read_text() + "commit_delay = 5000\ncommit_siblings = 0\n")
    words = ["selftest", "--case", case, "--quick", "--window", "2", "-c", "1"]
    done = pgdyno(pgdyno_home, *words, "--foreign-cpu", "100000", "--steal", "100", "--json")
    assert done.returncode in (0, 3), done.stderr
    sabotage, restored = last_json(done)["cases"]
    assert sabotage["result"] in ("pass", "not resolved here")
    assert sabotage["verdict"] is None or sabotage["verdict"]["ratio"] < 0.5
    assert restored["result"] == "pass"


def test_a_planner_that_is_misled_as_the_selftest_does_leaves_the_index(sandbox18):
    (case,) = chosen(["planner"])
    with sandbox18.target().postgres.connect() as session:
        session.execute("CREATE TEMPORARY TABLE item AS SELECT g AS id, '' AS filler FROM generate_series(1, 20000) g")
        session.execute("ALTER TABLE item ADD PRIMARY KEY (id)")
        session.execute("ANALYZE item")

        def plan():
            return str(session.execute("EXPLAIN SELECT filler FROM item WHERE id = 7").fetchall())

        assert "Index Scan" in plan()
        for name, value in case.settings.items():
            session.execute("SELECT set_config(%s, %s, false)", [name, value])
        assert "Seq Scan" in plan()


def _in(seconds):
    return f"{datetime.now() + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def finished(home, count):
    """Return the newest finished trial once there are so many, else None."""
    if not (home / "data" / "pgdyno.db").exists():
        return None
    with stored(home) as store:
        trials = [trial for study in store.studies() for trial in store.trials(study.id) if trial.outcome is not None]
    return trials[count - 1] if len(trials) >= count else None


def state_of(home):
    with stored(home) as store:
        return store.studies()[0].state.value


def until(found, timeout=240):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (value := found()) is not None and value is not False:
            return value
        time.sleep(1.0)  # to open a store takes CPU time
    raise AssertionError("it did not happen in time")


class burner:
    """Something else that uses half a CPU: on a machine that is busy with other tests, what it can get of one."""

    def __enter__(self):
        self._hot = subprocess.Popen([sys.executable, "-c", BURN])

    def __exit__(self, *_):
        self._hot.kill()
        self._hot.wait()
