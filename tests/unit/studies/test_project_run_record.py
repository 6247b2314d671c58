"""What a run has found: kept beside the plan, read again, and part of the project's report and its criteria."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from batch_example import csv_of, month_chain, month_rows, recorded
from certification_example import certification
from pgdyno.errors import UsageError
from pgdyno.model.project import CriterionStatus, ProjectRow
from pgdyno.report.drawing import markdown
from pgdyno.studies.batch.comparing import compare
from pgdyno.studies.project.build import ProjectFacts, read_project
from pgdyno.studies.project.file import parse_project
from pgdyno.studies.project.judged import judged
from pgdyno.studies.project.page import project_page
from pgdyno.studies.project.run_figures import chain_found, replays_found
from pgdyno.studies.project.run_record import (
    FoundFigure,
    FoundRow,
    ProjectRunRecord,
    RunStepRecord,
    read_run_record,
    run_record_path,
    with_run,
    write_run_record,
)

RECORD = ProjectRunRecord(
    files={"day.sql": "ab"},
    planned={"batch": 240.0},
    sandboxes={"new": "bank-new"},
    steps={"batch": RunStepRecord("batch", 100.0, 2, 190.0, 1)},
    figures=(FoundFigure("batch", "batch_window_pct", 88.0, 80.0, 96.0, "three executions"),),
    rows=(FoundRow("batch", ProjectRow("close", before=10.0, after=6.0)),),
    notes={"batch": ("one execution does not count",)},
    edits=("day.sql was edited",),
)


def facts(plan: Path, record: ProjectRunRecord) -> ProjectFacts:
    return read_project(with_run(parse_project(plan.read_text()), record), None, record)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    assert read_run_record(plan) is None
    write_run_record(plan, RECORD)
    assert read_run_record(plan) == RECORD
    run_record_path(plan).write_text('{"version": 1, "steps": 7}')
    with pytest.raises(UsageError, match="is not the record of a run"):
        read_run_record(plan)


@pytest.mark.requirement("R-RPL-12")
def test_the_reference_of_a_scenario_is_told_by_sides_and_not_by_the_names_of_steps(tmp_path: Path) -> None:
    """Scenarios have any names: `load old days` was taken for replays of `load` on its old platform."""
    sides = {"load": ("old", "new"), "load old days": ("new", "old")}
    steps = {
        f"replay {name} {side} 1": RunStepRecord(name, 1.0, 1, 2.0, 0, f"{name}, {side}", side=side)
        for name, both in sides.items()
        for side in both
    }
    record = replace(RECORD, steps={"prepare": RunStepRecord("", 0.0), **RECORD.steps, **steps})
    for name in sides:
        assert record.references(name) == {f"{name}, old"}
    plan = tmp_path / "plan.toml"
    write_run_record(plan, record)
    assert read_run_record(plan) == record
    old = json.loads(run_record_path(plan).read_text())
    for step in old["steps"].values():
        del step["side"]
    run_record_path(plan).write_text(json.dumps({**old, "version": 1}))
    assert read_run_record(plan) == record, "as the versions before told it"


@pytest.mark.requirement("R-PRJ-01", "R-PRJ-04")
def test_figures_and_rows_of_a_run_judge_the_criterion_and_make_the_headline(tmp_path: Path) -> None:
    plan = certification(tmp_path / "bank", programs=tmp_path)
    project = with_run(parse_project(plan.read_text()), RECORD)
    standing = {one.scenario.name: one.standing for one in judged(project, facts(plan, RECORD))}
    assert standing["batch"] is CriterionStatus.MET
    assert standing["migration"] is CriterionStatus.OPEN
    missed = replace(RECORD, figures=(replace(RECORD.figures[0], value=130.0, lo=120.0, hi=140.0),))
    assert {one.scenario.name: one.standing for one in judged(project, facts(plan, missed))}["batch"] is (
        CriterionStatus.MISSED
    )
    shown = markdown.render(project_page(project, facts(plan, RECORD), None, (), {}))
    assert "by the summed windows: 40.00 %" in shown
    assert "1:30 min of 4:00 min" in shown
    assert "one execution does not count" in shown
    other = replace(RECORD, rows=(FoundRow("batch", ProjectRow("close", before=10.0, after=5.0)),))
    changed = with_run(parse_project(plan.read_text()), other)
    assert "by the summed windows: 50.00 %" in markdown.render(project_page(changed, facts(plan, other), None, (), {}))


@pytest.mark.requirement("R-BAT-03")
def test_windows_of_processes_are_rows_and_the_worst_is_the_figure() -> None:
    chain = month_chain()
    reference = recorded(chain, csv_of(month_rows(3, new=False)))
    said = compare(chain, reference, recorded(chain, csv_of(month_rows(3, new=True))))
    found = chain_found(said)
    assert [row.name for row in found.rows] == [f"{one.name}, s" for one in said.processes]
    (figure,) = found.figures.values()
    assert figure.value == max(one.share_pct or 0 for one in said.processes)
    assert figure.lo <= figure.value <= figure.hi
    spoilt = replace(said, processes=(*said.processes[:-1], replace(said.processes[-1], share_pct=None, reason="lost")))
    assert chain_found(spoilt).figures == {}
    assert chain_found(spoilt).notes == (f"{said.processes[-1].name}: lost",)
    once = chain_found(compare(chain, reference, recorded(chain, csv_of(month_rows(1, new=True)))))
    assert once.figures == {}, "one execution has no interval, and no criterion is met by chance"
    assert once.rows
    assert all("1 execution has no interval" in note for note in once.notes)


def test_replays_of_which_none_counts_leave_the_reason() -> None:
    found = replays_found([], ["pair 1: not resolved: new 1 does not count"])
    assert (found.figures, found.rows) == ({}, ())
    assert found.notes == ("pair 1: not resolved: new 1 does not count",)
