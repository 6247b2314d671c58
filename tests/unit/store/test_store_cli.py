"""`pgdyno store`: what a user sees, as text and as JSON."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgdyno.cli.store import command
from pgdyno.errors import StoreError, UsageError
from pgdyno.linux.identity import pid_namespace, uptime
from pgdyno.model.configuration import Configuration
from pgdyno.model.live import Live
from pgdyno.model.record import TextRecord
from pgdyno.model.samples import Event
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard, boot_id
from pgdyno.studies.reports import build_report
from result_example import made

WORKLOAD = WorkloadSpec("select-only", {"scale": 1}, "f", "select-only at scale 1", True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "store.db") as store:
        for name, created in (("20260101-one", 1.0), ("20260102-two", 2.0)):
            plan, facts = LoadPlan(4, 1, 1.0, 1.0), {"host": {}}
            kind, state = StudyKind.AB, StudyState.COMPLETE
            store.add_study(Study(name, kind, "n", state, created, "sandbox", "abc", facts, WORKLOAD, plan))
        store.update_study("20260102-two", result=made(StudyKind.AB, {"verdict": {"word": "better", "ratio": 2.5}}))
        run = store.begin_trial("20260102-two", TrialSpec(Configuration.of({"work_mem": "64MB"}), Role.ARM, "b", 3, 1))
        store.add_records(run, [TextRecord("runit.log", "one\ntwo\n")])
        store.add_events(run, [Event(1.0, "checkpoint", "checkpoint_timeout was over")])
        latency = LatencySummary(0.1, 0.25, 0.3, 0.4, 5.0, 0.15)
        counters = {"blks_hit": 123.0}
        outcome = Outcome(TrialState.COMPLETE, throughput=12345.6, latency_ms=latency, counters=counters)
        store.finish_trial(run, outcome)
    return tmp_path / "store.db"


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(command, [*words, "--store", str(path)], catch_exceptions=True)


def test_list_shows_the_newest_first(path: Path) -> None:
    text = run(path, "list").stdout
    assert text.index("20260102-two") < text.index("20260101-one")
    assert "better" in text


def test_list_tells_a_bench_whose_run_was_not_used(path: Path) -> None:
    with Store.open(path) as store:
        one = replace(store.study("20260101-one"), id="20260103-three", kind=StudyKind.BENCH)
        store.add_study(one)
        store.update_study(
            one.id, result=made(StudyKind.BENCH, {"runs": [{"state": "disturbed", "reason": "foreign CPU"}]})
        )
    assert re.search("20260103-three.* complete .* disturbed", run(path, "list").stdout)
    rows = json.loads(run(path, "list", "--json").stdout)
    (judgement,) = (row["judgement"] for row in rows if row["id"] == one.id)
    assert (judgement["word"], judgement["exit_code"]) == ("disturbed", 6)


def test_list_as_json(path: Path) -> None:
    rows = json.loads(run(path, "list", "--json").stdout)
    assert [row["id"] for row in rows] == ["20260102-two", "20260101-one"]
    assert rows[0]["trials"] == {"complete": 1}
    assert rows[0]["verdict"]["word"] == "better"
    assert rows[1]["verdict"] is None


@pytest.mark.parametrize(
    ("state", "age_s", "shown"),
    [
        (StudyState.RUNNING, 0.0, "running"),
        (StudyState.RUNNING, 3600.0, "silent"),
        (StudyState.COMPLETE, 3600.0, "complete"),
    ],
)
def test_a_study_that_was_killed_is_not_listed_as_one_that_runs(
    path: Path, state: StudyState, age_s: float, shown: str
) -> None:
    at = time.time() - age_s
    with Store.open(path) as store:
        store.update_study("20260102-two", state=state)
        LiveBoard(store).show(Live("20260102-two", at, at, "here", 1))
    listed = run(path, "list")
    row = next(line for line in listed.stdout.splitlines() if "20260102-two" in line)
    assert row.split()[4] == shown
    assert ("pgdyno rollback" in listed.stderr) == (shown == "silent")
    (found, other) = json.loads(run(path, "list", "--json").stdout)
    assert found["state"] == state.value
    assert (found["silent_s"] is not None) == (shown == "silent")
    assert other["silent_s"] is None


def test_a_killed_replay_is_called_so_everywhere_and_its_answers_are_named(path: Path) -> None:
    asked = {"trace": "/srv/monday.parquet", "output": "/srv/my run"}
    gone = Live("20260103-three", 0.0, 0.0, "here", 1, start_ticks=-1, boot_id=boot_id(), namespace=pid_namespace())
    with Store.open(path) as store:
        one = replace(store.study("20260101-one"), id=gone.study, kind=StudyKind.REPLAY, state=StudyState.RUNNING)
        store.add_study(replace(one, options={"replay": asked}, created_at=3.0))
        LiveBoard(store).show(replace(gone, uptime=uptime() - 60))
        page = build_report(store, gone.study)
    listed, shown = run(path, "list"), run(path, "show", gone.study).stdout
    assert re.search(f"{gone.study}.* replay +killed", listed.stdout)
    assert "pgdyno store show" in listed.stderr
    assert "rollback" not in listed.stderr
    assert f"{gone.study} (replay, killed)" in shown
    command = "pgdyno compare --replay /srv/monday.parquet '/srv/my run'"
    assert command in " ".join(shown.split())
    (left,) = [one for one in page.sections if one.id == "left"]
    assert command in str(left.blocks)
    assert page.word == "interrupted"


def test_an_empty_store_is_an_empty_list(tmp_path: Path) -> None:
    result = run(tmp_path / "new.db", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "empty" in result.stderr
    assert json.loads(run(tmp_path / "new.db", "list", "--json").stdout) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("kind = 'of tomorrow'", "'of tomorrow' is not a valid StudyKind"),
        ("plan = '{\"clients\": 4'", "delimiter"),
        ("workload = '{}'", "workload has no name"),
    ],
)
def test_a_study_that_cannot_be_read_hides_no_other(path: Path, damage: str, reason: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE study SET {damage} WHERE id = '20260102-two'")
    text = run(path, "list").stdout
    assert "20260101-one" in text
    assert next(line for line in text.splitlines() if "20260102-two" in line).split()[1] == "unreadable"
    assert reason in text
    (good, bad) = json.loads(run(path, "list", "--json").stdout)
    assert (good["id"], good["state"]) == ("20260101-one", "complete")
    assert (bad["id"], bad["state"]) == ("20260102-two", "unreadable")
    assert reason in bad["reason"]
    shown = run(path, "show", "20260102-two").exception
    assert isinstance(shown, StoreError)
    with Store.open(path) as store:
        assert [one.id for one in store.studies(target="sandbox")] == ["20260101-one"]
    assert reason in (shown.detail or "")
    assert shown.hint


def test_a_trial_that_cannot_be_read_is_named(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE trial SET state = 'of tomorrow'")
    listed = json.loads(run(path, "list", "--json").stdout)
    assert [one["trials"] for one in listed] == [{"of tomorrow": 1}, {}]
    shown = run(path, "show", "20260102-two").exception
    assert isinstance(shown, StoreError)
    assert shown.message == "trial 1 of study 20260102-two cannot be read"
    assert "'of tomorrow' is not a valid TrialState" in (shown.detail or "")


def test_show_a_study(path: Path) -> None:
    text = run(path, "show", "last").stdout
    for part in ("20260102-two", "select-only at scale 1", "12,346", "0.25", "work_mem=64MB"):
        assert part in text
    found = json.loads(run(path, "show", "20260102", "--json").stdout)
    assert found["study"]["id"] == "20260102-two"
    assert found["trials"][0]["spec"]["role"] == "arm"
    assert found["trials"][0]["outcome"]["throughput"] == 12345.6


def test_show_a_trial(path: Path) -> None:
    text = run(path, "show", "1").stdout
    for part in ("trial     1", "work_mem = '64MB'", "12,346", "checkpoint_timeout was over", "runit.log, 2 lines"):
        assert part in text
    assert "evidence  what limited it is unknown" in text
    assert "failures  0 failed transactions; failures of the server were not recorded" in text
    found = json.loads(run(path, "show", "1", "--json").stdout)
    assert (found["run"], found["tps"], found["settings"]) == (1, 12345.6, {"work_mem": "64MB"})
    assert found["counters"] == {"blks_hit": 123.0}
    assert found["events"][0]["kind"] == "checkpoint"
    assert found["bottleneck"]["resource"] == "unknown"
    assert found["texts"] == {"runit.log": "one\ntwo\n"}


@pytest.mark.parametrize("name", ["99", "nothing", "2026"])
def test_what_is_not_there_is_a_usage_error(path: Path, name: str) -> None:
    result = run(path, "show", name)
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint
    assert result.stdout == ""


def test_export(path: Path, tmp_path: Path) -> None:
    assert run(path, "export", "last", "--output", str(tmp_path / "x.json")).exit_code == 0
    assert json.loads((tmp_path / "x.json").read_text())["tables"]["trial"][0]["arm"] == "b"
    assert run(path, "export", "last", "--format", "csv", "--output", str(tmp_path / "x")).exit_code == 0
    assert (tmp_path / "x" / "trial.csv").is_file()
