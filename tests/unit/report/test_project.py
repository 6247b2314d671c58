"""Benchmark projects: the plan of seed 004, criteria fixed and amended, verdicts from rows and from the store."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import study_example as example
from pgdyno.cli.project import command
from pgdyno.errors import UsageError
from pgdyno.model.project import (
    Criterion,
    CriterionStatus,
    Peak,
    Project,
    row_metric,
)
from pgdyno.model.trial import TrialState
from pgdyno.report.drawing import markdown
from pgdyno.report.sections import Report, TableBlock
from pgdyno.store.catalogue import Store
from pgdyno.studies.project.build import (
    ProjectFacts,
    busy_cores,
    greatest_mean,
    read_project,
    scenario_facts,
    server_cores,
)
from pgdyno.studies.project.file import parse_project
from pgdyno.studies.project.fix import amend, digest, fix, moment_of, pending, read_record, record_path
from pgdyno.studies.project.judged import judged, late_scenarios, overall
from pgdyno.studies.project.page import project_page

SEED = Path(__file__).parents[2] / "data" / "projects" / "customer_benchmark.toml"
NOW = 1_790_000_000.0


@pytest.fixture
def seed() -> Project:
    return parse_project(SEED.read_text("utf-8"), source=SEED.name)


def page(project: Project) -> Report:
    return project_page(project, read_project(project, None), None)


def table(report: Report, section: str, number: int = 0) -> tuple[tuple[str, ...], ...]:
    blocks = [block for one in report.sections if one.id == section for block in one.blocks]
    return [block.table.rows for block in blocks if isinstance(block, TableBlock)][number]


@pytest.mark.requirement("R-PRJ-01", "R-PRJ-03")
def test_the_plan_of_the_source_stands_beside_what_was_done(seed: Project) -> None:
    rows = {row[0]: row for row in table(page(seed), "plan")}
    assert {name: row[3:6] for name, row in rows.items()} == {
        "performance": ("12", "12", "56"),
        "batch": ("21", "10", "3"),
        "scalability": ("7", "11", "36"),
        "migration": ("19", "not recorded", "12"),
    }
    assert {name: row[6:] for name, row in rows.items()} == {
        "performance": ("95.00 %", "met"),
        "batch": ("67.00 %", "met"),
        "scalability": ("not measured", "open"),
        "migration": ("15.00 h", "met"),
    }


@pytest.mark.requirement("R-PRJ-04")
def test_headlines_are_computed_from_rows_and_say_which_mean(seed: Project) -> None:
    text = markdown.render(page(seed))
    assert "Response time of all transactions saved: 50.00 %" in text
    assert "Batch time saved: 46.45 % (mean of the rows, weighted by their counts" in text
    batch = next(one for one in seed.scenarios if one.name == "batch")
    means = {name: row_metric(batch.rows, name) for name in ("mean_saved", "weighted_saved")}
    assert {name: round(one.value, 1) for name, one in means.items() if one} == {
        "mean_saved": 46.3,
        "weighted_saved": 46.4,
    }
    for part in ("Constraint: The load is that of one day", "goal", "criterion", "verdict"):
        assert part in text
    assert page(seed).title.endswith(": 3 met, 1 open of 4 scenarios")


@pytest.mark.requirement("R-PRJ-04", "R-REP-03")
def test_another_row_makes_another_conclusion(seed: Project) -> None:
    text = SEED.read_text("utf-8").replace("after = 54\n", "after = 108\n").replace("value = 15", "value = 41")
    changed = parse_project(text)
    assert "batch: met" in markdown.render(page(seed)).lower()
    shown = markdown.render(page(changed))
    assert "Batch: missed; 108.00 % against at most 100 %" in shown
    assert "Migration: missed; 41.00 h against at most 40 h" in shown
    assert "46.45" not in shown


@pytest.mark.requirement("R-PRJ-05")
def test_phases_and_deliverables_are_checked_off_and_missing_ones_are_told(seed: Project) -> None:
    phases, deliverables = (table(page(seed), "phases", number) for number in (0, 1))
    assert [(row[0], row[1]) for row in phases] == [
        ("✓", "scope workshop"), ("✓", "design workshop"), ("✓", "proof of concept")]  # fmt: skip
    assert [(row[0], row[1]) for row in deliverables] == [
        ("✓", "support plan"),
        ("–", "system management model"),
        ("–", "implementation plan with migration strategy"),
        ("–", "cost estimate of the transition"),
    ]


@pytest.mark.requirement("R-PRJ-06")
def test_seven_goals_follow_from_the_scenarios_that_serve_them(seed: Project) -> None:
    rows = table(page(seed), "goals")
    assert [row[1] for row in rows] == ["reached", "reached", "reached", "reached", "reached", "open", "stated"]
    assert rows[0][2] == "performance, batch"
    assert rows[-1][2] == "a support plan was defined"


@pytest.mark.requirement("R-PRJ-07")
def test_a_size_follows_from_the_peak_and_the_headroom(seed: Project) -> None:
    assert table(page(seed), "sizing")[0][1:5] == ("6.20", "9", "48 GiB", "64 GiB")
    tight = replace(seed, headroom_pct=0.0, peaks=(Peak("h", 8.0, None, "s"),))
    assert table(page(tight), "sizing")[0][1:5] == ("8.00", "8", "", "")
    none = markdown.render(page(replace(seed, peaks=())))
    assert "No peak was measured" in none


@given(st.lists(st.floats(0, 1e3), max_size=40), st.integers(1, 12))
def test_a_peak_lies_between_the_mean_and_the_greatest_value(values: list[float], width: int) -> None:
    peak = greatest_mean(values, width)
    if values:
        assert min(values) - 1e-9 <= peak <= max(values) + 1e-9


def test_waiting_for_a_disk_is_not_busy() -> None:
    samples = {"cpus": [8, 8, None], "idle_pct": [25.0, 100.0, 1.0], "iowait_pct": [25.0, 0.0, 1.0]}
    assert busy_cores(samples) == [4.0, 0.0]


def test_the_servers_own_cores_count_before_those_of_the_machine() -> None:
    samples = {"cpus": [4, 4], "idle_pct": [0.0, 0.0], "iowait_pct": [0.0, 0.0], "server_cpu_pct": [150.0, None]}
    assert server_cores(samples) == [1.5]
    assert server_cores({**samples, "server_cpu_pct": [None, None]}) == [4.0, 4.0]


# ---- fixing and amending --------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copied = tmp_path / "project.toml"
    copied.write_text(SEED.read_text("utf-8"))
    return copied


@pytest.mark.requirement("R-PRJ-02")
def test_an_edit_after_the_fix_is_an_amendment_with_date_and_old_text(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    edited = parse_project(path.read_text().replace("at_least = 95", "at_least = 90"))
    record = read_record(path)
    assert record is not None
    assert pending(seed, record, NOW) == ()
    (found,) = pending(edited, record, NOW)
    assert (found.scenario, found.field, found.old, found.new) == ("performance", "criterion.at_least", "95.0", "90.0")
    shown = markdown.render(project_page(edited, read_project(edited, None), record.fixed, (found,)))
    assert "Edits are not on record" in shown
    amend(edited, path, record, "agreed with the customer", NOW + 86_400)
    again = read_record(path)
    assert again is not None
    assert pending(edited, again, NOW) == ()
    text = markdown.render(project_page(edited, read_project(edited, None), again.fixed))
    assert "| 2026-09-22 14:13:20 UTC |" in text
    assert "| performance | criterion.at\\_least | 95.0 | 90.0 | agreed with the customer |" in text
    assert "1 amendment since" in text


@pytest.mark.requirement("R-PRJ-02")
def test_what_is_fixed_is_not_fixed_again_and_its_record_is_not_edited(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    with pytest.raises(UsageError, match="has fixed this project already"):
        fix(seed, path, NOW)
    place = record_path(path)
    place.write_text(place.read_text().replace("95.0", "90.0"))
    with pytest.raises(UsageError, match="was edited"):
        read_record(path)


@pytest.mark.requirement("R-PRJ-02")
@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another account")
def test_what_another_account_says_was_fixed_is_not_believed(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    place = record_path(path)
    os.chown(place, 65534, -1)
    with pytest.raises(UsageError, match="cannot be read") as refused:
        read_record(path)
    assert "who did not write the plan" in (refused.value.detail or "")
    os.chown(path, 65534, -1)
    assert read_record(path) is not None, "who wrote the project may fix it"
    place.chmod(0o666)
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(path)
    place.chmod(0o660)
    os.chown(place, -1, 65534)
    with pytest.raises(UsageError, match="cannot be read") as refused:
        read_record(path)
    assert "its group may write it, and not the plan" in (refused.value.detail or "")
    os.chown(place, -1, 0)
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(path)
    os.chown(place, -1, 65534)
    path.chmod(0o660)
    os.chown(path, -1, 65534)
    assert read_record(path) is not None, "as a umask of 002 leaves both"


def test_a_record_that_is_a_link_or_damaged_is_refused_in_words(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    place = record_path(path)
    whole = json.loads(place.read_text())
    for name, value in (
        ("terms", [1]), ("terms", {"oltp": 1}), ("at", None), ("at", "soon"), ("by", 1), ("version", 2),
        ("version", True), ("amendments", [{}]), ("amendments", {}), ("more", 1),
    ):  # fmt: skip
        damaged = {**whole, name: value}
        if name == "terms":
            damaged["sha256"] = digest(value)  # type: ignore[arg-type]
        place.write_text(json.dumps(damaged))
        with pytest.raises(UsageError, match="cannot be read"):
            read_record(path)
    place.rename(path.with_name("elsewhere.json"))
    place.symlink_to(path.with_name("elsewhere.json"))
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(path)
    with pytest.raises(UsageError, match="has fixed this project already"):
        fix(seed, path, NOW)


def test_a_removed_and_an_added_scenario_are_amendments(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    record = read_record(path)
    assert record is not None
    renamed = replace(seed, scenarios=(replace(seed.scenarios[0], name="oltp"), *seed.scenarios[1:]))
    found = {(one.scenario, one.field): (one.old, one.new) for one in pending(renamed, record, NOW)}
    assert found["performance", "planned_days"] == ("12", "")
    assert found["oltp", "planned_days"] == ("", "12")


@pytest.mark.requirement("R-PRJ-02")
def test_criteria_that_are_younger_than_the_first_run_are_told(seed: Project, path: Path, tmp_path: Path) -> None:
    project = with_study(seed, "throughput", at_least=1000.0)
    with Store.open(tmp_path / "store.db") as store:
        example.add_bench(store)
        facts = read_project(project, store)
    first = min(one.facts.actual.first or math.inf for one in judged(project, facts))
    for at, wanted in ((first - 86_400, ()), (first - 1, ()), (first + 1, ("oltp",)), (first + 86_400, ("oltp",))):
        fixed = fix(project, tmp_path / f"{at}.toml", at)
        assert late_scenarios(fixed, judged(project, facts)) == wanted


def test_an_older_record_has_the_minute_alone(seed: Project, path: Path) -> None:
    fix(seed, path, NOW)
    place = record_path(path)
    place.write_text(place.read_text().replace("14:13:20 UTC", "14:13 UTC"))
    record = read_record(path)
    assert record is not None
    assert moment_of(record.fixed.at) == NOW - 20


# ---- figures of the store --------------------------------------------------------------------------------------------


def with_study(
    seed: Project,
    metric: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    study: str = "bench-77aa01",
) -> Project:
    criterion = Criterion("a bound", metric, at_least, at_most)
    one = replace(seed.scenarios[0], name="oltp", criterion=criterion, studies=(study,), rows=(), headline=None)
    return replace(seed, scenarios=(one,), peaks=())


@pytest.mark.requirement("R-PRJ-03", "R-PRJ-07")
def test_days_runs_figures_and_peaks_come_from_the_store(seed: Project, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        study = store.study(example.add_bench(store))
        project = with_study(seed, "throughput", at_least=1000.0)
        facts = read_project(project, store)
        outcome = store.trials(study.id)[0].outcome
    known = facts.scenarios["oltp"]
    assert outcome is not None
    assert known.measured is not None
    assert known.measured.value == outcome.throughput
    assert known.measured.runs == (1,)
    assert (known.actual.days, known.actual.runs) == (1.0, 1), "and not what the file states"
    assert len(facts.peaks) == 1
    assert 0 < (facts.peaks[0].cores or 0) <= 2
    text = markdown.render(project_page(project, facts, None))
    assert "bench-77aa01" in text
    assert "store.db" in text


def test_a_ratio_is_judged_by_its_interval(seed: Project, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        study = example.add_ab(store)  # 1.008 [0.984, 1.033]
        standings = {}
        for bound in (0.98, 1.0, 1.05):
            project = with_study(seed, "throughput_ratio", at_least=bound, study=study)
            standings[bound] = overall(judged(project, read_project(project, store)))
    assert standings == {0.98: CriterionStatus.MET, 1.0: CriterionStatus.NOT_RESOLVED, 1.05: CriterionStatus.MISSED}


def test_runs_that_cannot_be_used_are_told_and_not_quoted(seed: Project, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        study = store.study(example.add_bench(store))
        trials = [replace(trial, state=TrialState.DISTURBED) for trial in store.trials(study.id)]
    unverdicted = replace(study, result=None)
    scenario = with_study(seed, "throughput", at_least=1.0).scenarios[0]
    facts = scenario_facts(scenario, [(unverdicted, trials)])
    assert facts.measured is None
    assert facts.studies[0].sentence == "no usable run (1 disturbed); the study is complete"
    text = markdown.render(project_page(replace(seed, scenarios=(scenario,)), ProjectFacts({"oltp": facts}, ()), None))
    assert "no usable figure of what the criterion names (throughput; runs: 1 disturbed)" in text


def test_a_counter_that_no_run_has_is_open(seed: Project, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        project = with_study(seed, "nopm", at_least=1.0, study=example.add_bench(store))
        assert overall(judged(project, read_project(project, store))) is CriterionStatus.OPEN


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-PRJ-01", "R-PRJ-02", "R-REP-01")
def test_a_project_from_the_command_line(path: Path, tmp_path: Path) -> None:
    run = CliRunner()

    def call(*words: str) -> tuple[int, str]:
        done = run.invoke(command, [*words], standalone_mode=False)
        assert done.exception is None, done.output
        return done.return_value if isinstance(done.return_value, int) else 0, done.output

    assert call("fix", str(path))[0] == 0
    code, told = call("check", str(path), "--json")
    document = json.loads(told)
    assert code == 3, "one criterion is open"
    assert document["standing"] == "open"
    assert document["fixed"]["sha256"]
    assert [one["standing"] for one in document["scenarios"]] == ["met", "met", "open", "met"]
    path.write_text(path.read_text().replace("at_most = 40", "at_most = 14"))
    code, told = call("check", str(path))
    assert code == 1
    assert "missed        migration: 15.00" in told
    assert "not on record" in told
    assert "14.0" in call("amend", str(path), "--reason", "a shorter night")[1]
    for name in ("project.html", "project.md", "project.json", "project.csv"):
        call("report", str(path), "-o", str(tmp_path / name))
        assert (tmp_path / name).exists()
    assert "a shorter night" in (tmp_path / "project.html").read_text()
    assert "a shorter night" in call("report", str(path))[1]
    new = tmp_path / "new.toml"
    call("new", str(new))
    assert parse_project(new.read_text())
