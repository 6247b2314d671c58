"""A certification from end to end, from 13 to 18: killed in the middle, gone on with, a criterion edited, judged."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from certification_example import certification, edit
from fix_postgres import find_build
from pgdyno.report.drawing.pdf import BROWSERS
from pgdyno.sandbox import registry
from pgdyno.studies.project.run_record import ProjectRunRecord, read_run_record
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = pytest.mark.pg
CALM = {"PGDYNO_FOREIGN_CPU": "100000"}
"""Levels are measured beside other tests: what they say is no matter here."""
WAIT_S = 900.0


def recorded(plan: Path) -> ProjectRunRecord:
    record = read_run_record(plan)
    assert record is not None
    return record


def killed_in(plan: Path, key: str) -> None:
    """Run the plan until the verb of a step is at work, and kill the run."""
    with RunningPgdyno("project", "run", str(plan), "--apply", **CALM) as process:
        deadline = time.monotonic() + WAIT_S
        while not is_at_work(plan, key):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.kill()
        process.wait(WAIT_S)


def is_at_work(plan: Path, key: str) -> bool:
    record = read_run_record(plan)
    step = None if record is None else record.steps.get(key)
    return step is not None and step.process is not None


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.requirement("R-PRJ-01", "R-PRJ-02", "R-PRJ-03", "R-PRJ-04")
def test_four_scenarios_are_run_killed_gone_on_with_and_judged(
    pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    plan = certification(tmp_path / "bank", programs=find_build("npm-13"), small=True)
    dry = run_pgdyno("project", "run", str(plan), timeout_s=WAIT_S)
    assert dry.returncode == 0, dry.stderr
    assert "nothing was run" in dry.stderr
    assert not registry.list_records()
    assert {path.suffix for path in plan.parent.iterdir()} == {".toml", ".sql"}

    killed_in(plan, "replay performance old 1")
    half = recorded(plan)
    assert {"prepare", "migrate migration", "capture", "trace", "cut"} <= half.done().keys()
    assert "replay performance old 1" not in half.done()
    edit(plan, "at_least = -10", "at_least = -90")
    edit(plan.parent / "month-end.toml", 'name = "regions"', 'name = "by region"')

    for _ in range(6):  # where others stall the machine's memory a guard ends a replay, and the next run goes on there
        done = run_pgdyno("project", "run", str(plan), "--apply", timeout_s=WAIT_S, **CALM)
        if "guard memory-stall" not in done.stderr:
            break
    assert done.returncode in (0, 1, 3), done.stderr
    assert "step 2 of" not in done.stderr
    whole = recorded(plan)
    assert {key: whole.steps[key] for key in half.done()} == {key: half.steps[key] for key in half.done()}
    assert whole.done().keys() == whole.steps.keys()
    assert not registry.list_records()
    assert whole.dropped_at is not None
    assert not (plan.parent / "certification.toml.run").exists()
    assert all(one.process is None or not one.process.is_alive() for one in whole.steps.values())

    shown = (plan.parent / "certification-report" / "project.md").read_text()
    assert "criterion.at\\_least | -10.0 | -90.0" in shown
    assert "month-end.toml was edited after the run had begun" in shown
    pages = re.findall(r"\]\((studies/[\w-]+\.html)\)", shown)
    assert len(pages) == len({one.study for one in whole.steps.values() if one.study}) == 8
    assert all((plan.parent / "certification-report" / page).is_file() for page in pages)
    told = json.loads(run_pgdyno("project", "check", str(plan), "--json").stdout)
    by_name = {one["scenario"]: one for one in told["scenarios"]}
    assert by_name["migration"]["standing"] == "met"
    assert by_name["batch"]["measured"] is None, "one execution of the chain has no interval"
    assert any("1 execution has no interval" in note for note in whole.notes["batch"])
    rows = {found.row.name: found.row for found in whole.rows}
    assert {"window, s", "close, s", "statements, s", "hand over, s"} <= rows.keys()
    saved = 100 * (1 - (rows["window, s"].after or 0) / 600)
    assert f"{saved:.2f} %" in shown, "the headline is computed of the row"

    pdf = plan.parent / "certification-report" / "project.pdf"
    assert pdf.is_file() == any(map(shutil.which, BROWSERS))
    # Without a browser to print the same once more, which takes as much CPU as two replays.
    again = run_pgdyno("project", "run", str(plan), "--apply", timeout_s=WAIT_S, PATH=str(tmp_path))
    assert again.returncode == done.returncode
    assert "step 1 of" not in again.stderr
