"""The verbs as a user calls them, on a real sandbox. Relations and exit codes, never a machine's timing."""

import json
import os
import re
import signal
import time

import pytest

from calm_load import DECIDED, SCRIPT, calm
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = pytest.mark.pg
measures = pytest.mark.xdist_group("cli-studies")  # what takes a CPU does so one after another

QUICK = ["--warmup", "1", "--measure", "2", "--foreign-cpu", "1000", "--steal", "100"]
LOAD = ["-w", "select-only", "-D", "scale=1", "-c", "1", "-R", "50", *QUICK]
CALM = calm()
VERDICT = {"word", "ratio", "ci", "confidence", "pairs", "metric", "smallest_effect", "more_pairs"}


def pgdyno(home, *words, timeout=240, **environment):
    return run_pgdyno(*words, timeout_s=timeout, PGDYNO_HOME=str(home), **environment)


def bench(home, *words):
    """Measure again while the machine is too busy for a steady window: what it can do just now is not ours to say."""
    for _ in range(6):
        done = pgdyno(home, "bench", *words)
        if done.returncode != 6 or "state" not in done.stdout:
            break
    return done


def last_json(done):
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def conf(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


@measures
@pytest.mark.requirement("R-BEN-09")
def test_bench_prints_the_published_fields_and_the_store_has_the_run(pgdyno_home):
    done = bench(pgdyno_home, *LOAD, "--json")
    assert done.returncode == 0, done.stderr
    result = last_json(done)
    published = {"run", "tps", "latency_ms", "transactions", "failed", "retried", "driver_cpu_s", "server_cpu_s"}
    assert published | {"foreign_cpu_pct", "settings_fingerprint"} <= result.keys()
    assert re.fullmatch("[0-9a-f]{12}", result["settings_fingerprint"])  # of a server that nothing was changed of, too
    assert result["tps"] > 0
    assert result["failed"] == 0
    assert result["latency_ms"]["p50"] <= result["latency_ms"]["p95"] <= result["latency_ms"]["p99"]
    sizes = result["sizes"]
    assert {"database", "pgbench_accounts", "pgbench_history"} <= sizes.keys()
    assert all(0 <= one["before"] <= sizes["database"]["before"] for one in sizes.values())
    assert sizes["pgbench_accounts"]["before"] == sizes["pgbench_accounts"]["after"] > 10e6  # scale 1, which only reads
    shown = pgdyno(pgdyno_home, "store", "show", str(result["run"]), "--json")
    assert shown.returncode == 0, shown.stderr
    compared = pgdyno(pgdyno_home, "compare", str(result["run"]), str(result["run"]), "--json")
    assert compared.returncode == 3, compared.stderr
    assert last_json(compared)["verdict"]["word"] == "not resolved"


@measures
def test_an_experiment_finds_a_sabotage_and_leaves_the_server_as_it_was(pgdyno_home, tmp_path):
    good, bad = conf(tmp_path, "a.conf", ""), conf(tmp_path, "b.conf", "enable_indexscan = off\n")
    report = tmp_path / "ab.html"
    done = pgdyno(
        pgdyno_home, "experiment", "--ab", good, bad, *calm(DECIDED), "--pairs", "3", "6", "--restarts", "none",
        "--report", str(report), "--json",
    )  # fmt: skip
    assert done.returncode in (1, 3), done.stderr
    result = last_json(done)
    assert result["verdict"].keys() >= VERDICT
    assert result["verdict"]["word"] in ("worse", "not resolved")
    assert result["verdict"]["ratio"] == pytest.approx(0.5, abs=0.2)
    assert report.read_text().startswith("<!DOCTYPE html>")
    assert not re.search(r"""(src|href)=["']?https?:""", report.read_text())


@pytest.mark.slow
def test_an_experiment_keeps_to_its_restart_budget_or_is_refused_beforehand(pgdyno_home, tmp_path):
    big, light = conf(tmp_path, "big.conf", "shared_buffers = 64MB\n"), conf(tmp_path, "light.conf", "work_mem = 8MB\n")
    pairs = [*CALM, "--pairs", "2", "2", "--json"]
    refused = pgdyno(pgdyno_home, "experiment", "--ab", big, light, "--restarts", "none", *pairs)
    assert refused.returncode == 2, refused.stderr
    assert "restart budget none is too small: 2 pairs need" in refused.stderr
    assert "shared_buffers needs a restart" in refused.stderr
    assert "hint: Give --restarts" in refused.stderr
    sessions = json.loads(pgdyno(pgdyno_home, "rollback", "--list", "--json").stdout)["sessions"]
    reloads = last_json(pgdyno(pgdyno_home, "experiment", "--ab", light, "/dev/null", "--restarts", "none", *pairs))
    assert reloads["outage"] == {"expected": None, "measured": None, "restarts": 0}
    after = json.loads(pgdyno(pgdyno_home, "rollback", "--list", "--json").stdout)["sessions"]
    assert len(after) == len(sessions) + 1, "the refused one began no session"
    few = last_json(pgdyno(pgdyno_home, "experiment", "--ab", big, light, "--restarts", "4", "--seed", "1", *pairs))
    assert 0 < few["outage"]["restarts"] <= 4
    assert few["outage"]["measured"]["seconds"] > 0


@pytest.mark.slow
def test_a_tune_ends_with_one_json_object_and_the_baseline_in_force(pgdyno_home, tmp_path):
    rival = conf(tmp_path, "rival.conf", "work_mem = 8MB\n")
    report = tmp_path / "tune.html"
    done = pgdyno(
        pgdyno_home, "tune", *CALM, "--trials", "3", "--noise-runs", "3", "--pairs", "2", "2",
        "--only", "work_mem", "--only", "random_page_cost", "--reload-only", "--rival", f"mine={rival}",
        "--report", str(report), "--json",
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    result = last_json(done)
    expected = {"study", "verdict", "noise_floor", "baseline", "winner", "effects", "trials", "elapsed_s", "report"}
    assert expected <= result.keys()
    assert result["verdict"].keys() >= VERDICT
    assert {"settings", "throughput", "latency_ms", "server_cpu_ms_per_tx"} <= result["winner"].keys()
    assert sum(result["trials"].values()) >= 3 + 3 + 2 * 2
    assert report.stat().st_size < 3_000_000
    assert pgdyno(pgdyno_home, "rollback", "--last").returncode == 0
    again = pgdyno(pgdyno_home, "tune", "--resume", result["study"])
    assert again.returncode == 2
    assert "complete" in again.stderr


@pytest.mark.slow
@pytest.mark.night("pg/test_night_live.py::test_a_tune_survives_a_kill_of_its_runner_and_the_end_of_a_night")
@pytest.mark.parametrize("delay_s", [2.0, 9.0])
def test_a_killed_tune_is_rolled_back_and_resumed(pgdyno_home, delay_s):
    command = [
        "tune", *CALM, "--trials", "2", "--noise-runs", "3", "--pairs", "2", "2",
        "--only", "work_mem", "--json",
    ]  # fmt: skip
    with RunningPgdyno(*command, PGDYNO_HOME=str(pgdyno_home)) as tuner:
        for line in tuner.stderr:
            if "noise floor" in line:
                break
        time.sleep(delay_s)
        tuner.kill()
    undone = pgdyno(pgdyno_home, "rollback", "--last")
    assert undone.returncode == 0, undone.stderr
    before = json.loads(pgdyno(pgdyno_home, "store", "show", "last", "--json").stdout)
    finished = [t["id"] for t in before["trials"] if t["state"] not in ("running", "abandoned")]
    resumed = pgdyno(pgdyno_home, "tune", "--resume", "last", "--json")
    assert resumed.returncode in (0, 3), resumed.stderr
    after = json.loads(pgdyno(pgdyno_home, "store", "show", "last", "--json").stdout)
    states = {t["id"]: t["state"] for t in after["trials"]}
    assert [states[number] for number in finished] == [t["state"] for t in before["trials"] if t["id"] in finished]
    assert "running" not in states.values()


def test_an_interrupt_restores_and_says_how_to_go_on_which_takes_the_same_script(pgdyno_home, tmp_path):
    script = tmp_path / "mix.sql"
    script.write_text(SCRIPT.read_text())
    with RunningPgdyno(
        "experiment", "--sweep", "work_mem=4MB,8MB", *calm(script), PGDYNO_HOME=str(pgdyno_home)
    ) as tuner:
        for line in tuner.stderr:
            if "trial 1" in line:
                break
        tuner.send_signal(signal.SIGTERM)
        said = tuner.stderr.read()
    assert tuner.returncode == 130
    assert "restoring the server" in said
    study = json.loads(pgdyno(pgdyno_home, "store", "show", "last", "--json").stdout)["study"]
    assert f"to continue: pgdyno experiment --resume {study['id']}" in said
    assert "Traceback" not in said
    listed = json.loads(pgdyno(pgdyno_home, "rollback", "--list", "--json").stdout)["sessions"]
    assert {session["state"] for session in listed} <= {"closed"}
    script.write_text("SELECT 2;\n")
    resumed = pgdyno(pgdyno_home, "experiment", "--resume", "last")
    assert resumed.returncode == 2
    assert "is not the one that it was begun with" in resumed.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["bench", "--target", "host=/nowhere-at-all dbname=x"], 6, "/nowhere-at-all"),
        (["tune", "--only", "no_such_knob"], 2, "no_such_knob"),
        (["tune", "--only", "fsync"], 2, "fsync"),
        (["tune", "--include", "synchronous_commit"], 2, "synchronous_commit"),
        (["bench", "-w", "ybio", "-D", "no_such_parameter=1"], 2, "no_such_parameter"),
        (["bench", "--sandbox-bin", "/usr/share", "--sandbox", "wrong"], 2, "/usr/share"),
        (["tune", "--report", "/no-such-folder/report.html"], 2, "/no-such-folder"),
        (["report", "no-such-study"], 2, "no-such-study"),
    ],
)
def test_bad_input_is_one_clear_error_with_a_hint(pgdyno_home, words, code, said):
    options = QUICK if words[0] in ("tune", "bench") else []
    done = pgdyno(pgdyno_home, *words, *options)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


BAD = {
    "shared_bufers = 1GB\n": (2, "shared_buffers"),
    "fsync = off\n": (2, "fsync"),
    "work_mem = 1kB\n": (2, "work_mem"),
    "work_mem\n": (2, "b.conf:1"),
    "max_connections = 5\nsuperuser_reserved_connections = 6\n": (6, "arm B"),
    "shared_buffers = 4TB\n": (6, "arm B cannot be measured here: shared_buffers = 4TB is more than half"),
}


def test_bad_settings_are_refused_and_the_server_is_as_before(pgdyno_home, tmp_path):
    for text, (code, said) in BAD.items():
        files = conf(tmp_path, "a.conf", ""), conf(tmp_path, "b.conf", text)
        done = pgdyno(pgdyno_home, "experiment", "--ab", *files, *CALM, "--pairs", "3", "3")
        assert done.returncode == code, (text, done.stderr)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert "trial 1" not in done.stderr, "nothing runs for what arithmetic can tell"
    assert bench(pgdyno_home, *CALM, "--json").returncode == 0


@pytest.mark.slow
@pytest.mark.night("pg/test_watchdog.py::test_a_server_that_died_is_started")
def test_a_server_that_dies_under_a_trial_costs_that_trial_and_not_the_tune(pgdyno_home):
    command = [
        "tune", *CALM, "--trials", "2", "--noise-runs", "3", "--pairs", "2", "2",
        "--only", "work_mem", "--sandbox", "dies", "--json",
    ]  # fmt: skip
    lock = pgdyno_home / "cache" / "sandboxes" / "dies" / "server" / "data" / "postmaster.pid"
    with RunningPgdyno(*command, PGDYNO_HOME=str(pgdyno_home)) as tuner:
        for line in tuner.stderr:
            if "search: up to" in line:
                break
        time.sleep(2.5)  # the first search trial restarts the server, then its load runs
        kill_server(lock)
        said = tuner.stderr.read()
        tuner.wait(240)
    assert tuner.returncode in (0, 3), said
    assert "Traceback" not in said
    assert "search ended" in said
    assert pgdyno(pgdyno_home, "sandbox", "remove", "dies").returncode == 0


def kill_server(lock):
    """Kill a server by its lock file, as soon as there is one: it may be on its way up or down."""
    deadline = time.monotonic() + 60
    while True:
        try:
            os.kill(int(lock.read_text().splitlines()[0]), signal.SIGKILL)
            return
        except (FileNotFoundError, IndexError, ProcessLookupError):
            assert time.monotonic() < deadline, "there is no server"
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "--clients", "0"], "--clients"),
        (["bench", "--measure", "1"], "--measure"),
        (["bench", "-D", "scale=0"], "scale"),
        (["bench", "-c", "5000"], "max_connections"),
        (["bench", "-w", "custom", "--script", "no-such.sql"], "no-such.sql"),
        (["bench", "--conf", "no-such.conf"], "no-such.conf"),
        (["tune", "--pairs", "5", "3"], "--pairs"),
        (["tune", "--resume", "no-such-study"], "no-such-study"),
        (["no-such-verb"], "no-such-verb"),
    ],
)
def test_wrong_flags_are_told_as_any_other_error(pgdyno_home, words, said):
    done = pgdyno(pgdyno_home, *words)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert lines[-1].startswith("hint: ")


def test_several_scripts_with_weights_make_one_mix(pgdyno_home, tmp_path):
    one, two = (
        conf(tmp_path, f"{name}.sql", f"SELECT {value}, pg_sleep(0.1);\n") for name, value in (("one", 1), ("two", 2))
    )
    done = bench(pgdyno_home, "-w", "custom", "--script", f"{one}@3", "--script", two, "-c", "1", *QUICK, "--json")
    assert done.returncode == 0, done.stderr
    shown = pgdyno(pgdyno_home, "store", "show", "last")
    assert "one@3, two@1" in shown.stdout
