"""The verdict against the window, planned against actual, trend and comparison, and the page that tells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.model.bottleneck import Resource
from pgdyno.model.results.migrate import (
    AssessFinding,
    EarlierRehearsal,
    FindingWeight,
    ItemEnd,
    ItemTiming,
    LoadSetting,
    MigrateResult,
    MigrationPhase,
    PhaseTiming,
    ReplayedLoad,
    ValidationFinding,
    ValidationResult,
    WayBack,
    WayBackEvidence,
)
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.report.drawing import html, markdown
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.migrate.kind import KIND
from pgdyno.studies.migrate.timing import NOT_SEEN, judged_phases, outage_of, path_of
from pgdyno.studies.migrate.words import against_plan, compare_lines, continue_text, phase_pairs, window_text

P = MigrationPhase


def phase(name: P, began: float, ended: float, *after: P, **more: object) -> PhaseTiming:
    return PhaseTiming(phase=name, end=ItemEnd.DONE, after=after, began_s=began, ended_s=ended, **more)  # type: ignore[arg-type]


PHASES = (
    phase(P.ASSESS, 0.0, 10.0),
    phase(P.EXPORT, 10.0, 210.0, P.ASSESS, bytes=2_000_000_000, planned_s=180.0),
    phase(P.IMPORT, 210.0, 360.0, P.EXPORT, bytes=3_000_000_000, rows=1_500_000, planned_s=300.0),
    phase(P.SEQUENCES, 210.0, 215.0, P.EXPORT),
    phase(P.INDEXES, 360.0, 400.0, P.IMPORT),
    phase(P.VALIDATION, 400.0, 420.0, P.INDEXES, P.SEQUENCES),
)
WHOLE = MigrateResult(
    study="s1", plan="shop to 18", fingerprint="f", mover="dump", source="old", source_version="13",
    target_version="18", database="shop", jobs=2, window_s=600.0, planned_s=480.0, total_s=420.0, outage_s=420.0,
    source_bytes=3_000_000_000, target_bytes=2_800_000_000, phases=PHASES,
    items=(ItemTiming(phase=P.IMPORT, item="sales.orders", kind="table", end=ItemEnd.DONE, began_s=210.0, ended_s=350.0,
                      bytes=3_000_000_000, rows=1_500_000),),
    assessment=(AssessFinding(weight=FindingWeight.DIFFERS, topic="data checksums", object="cluster",
                              text="off on the source, on on the target"),),
    validation=ValidationResult(compared={"tables": 4, "rows": 352_000}),
    settings=(LoadSetting(name="max_wal_size", before="1GB", during="16GB", after="1GB"),),
    way_back="the source is untouched",
)  # fmt: skip


REPLAYED = ReplayedLoad(study="r1", trace="/t.parquet", speed=2.0, sent=1000, unlike=10, unlike_limit_percent=1.0)


def page_of(result: MigrateResult) -> Report:
    study = Study(
        id="20261126-120000-migrate-0001", kind=StudyKind.MIGRATE, name="shop to 18", state=StudyState.COMPLETE,
        created_at=1_700_000_000.0, target="new", environment="e", facts={},
        workload=WorkloadSpec("migrate", {}, "f", "migration shop", read_only=False, unit="items"),
        plan=LoadPlan(2, 1, warmup_s=0.0, measure_s=600.0), result=result,
    )  # fmt: skip
    return KIND.page(StudyRecord(study, ()))


@pytest.mark.requirement("R-MIG-02")
@pytest.mark.parametrize(
    ("window", "exit_code", "word", "margin"),
    [(600.0, 0, "passes", "left, 30.0 %"), (60.0, 1, "fails", "missing, -600.0 %"), (144_000.0, 0, "passes", "99.7 %")],
)
def test_the_window_decides_with_its_margin(window: float, exit_code: int, word: str, margin: str) -> None:
    """One minute fails, ten minutes pass, and so do the 40 hours of the plan."""
    result = replace(WHOLE, window_s=window)
    said = KIND.judged(Study(
        id="x", kind=StudyKind.MIGRATE, name="x", state=StudyState.COMPLETE, created_at=0.0, target="t",
        environment="e", facts={}, workload=WorkloadSpec("migrate", {}, "", "", read_only=False, unit="items"),
        plan=LoadPlan(1, 1, warmup_s=0.0, measure_s=1.0), result=result,
    ))  # fmt: skip
    assert said is not None
    assert (int(result.exit_code), said.word) == (exit_code, word)
    assert margin in said.title


def test_the_page_has_the_forecast_and_the_way_back() -> None:
    back = WayBack(evidence=(WayBackEvidence(what="rows", found="none written", is_alike=True),), seconds=0.25)
    result = replace(WHOLE, forecast=("500 GB take 30 h", "model: a line"), back=back)
    sections = {one.id: one for one in page_of(result).sections}
    assert "500 GB take 30 h" in str(sections["forecast"])
    assert "none written" in str(sections["back"])
    assert {"forecast", "back"}.isdisjoint(one.id for one in page_of(WHOLE).sections)


@pytest.mark.requirement("R-MIG-02")
def test_fifteen_of_forty_hours_are_a_margin_of_62_5_percent() -> None:
    assert replace(WHOLE, total_s=15 * 3600.0, window_s=40 * 3600.0).margin_pct == 62.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"validation": None}, "nothing was validated"),
        ({"ended": "the stop file", "total_s": None}, "ended by the stop file"),
        ({"settings": (LoadSetting(name="a", before="1", during="2", after="2"),)}, "settings for the load are still"),
        ({"settings": (LoadSetting(name="a", before="1", during="2"),)}, "is unknown: they were not read again"),
        ({"validation": ValidationResult(unread=("a table",))}, "could not read 1 thing"),
        ({"replay": replace(REPLAYED, unlike=11)}, "answered 11 of 1,000 statements not as captured, more than 1 %"),
        ({"replay": replace(REPLAYED, void="it was late")}, "the replay on the target does not count: it was late"),
    ],
)  # fmt: skip
def test_what_is_no_success_is_told_as_such(change: dict[str, object], words: str) -> None:
    result = replace(WHOLE, **change)  # type: ignore[arg-type]
    assert int(result.exit_code) == 1
    assert words in "; ".join(result.faults)
    assert words in markdown.render(page_of(result))


def test_a_setting_that_was_not_read_again_is_not_said_to_be_in_force() -> None:
    result = replace(WHOLE, ended="the stop file", settings=(LoadSetting(name="a", before="1", during="2"),))
    assert "settings for the load are still in force" not in result.faults
    lines = markdown.render(page_of(result)).splitlines()
    (row,) = [line for line in lines if "| not read again |" in line]
    assert row.split("|")[-2].strip() == "unknown"


def test_a_phase_that_failed_is_told_once_and_stands_against_no_plan() -> None:
    failed = replace(phase(P.IMPORT, 10.0, 11.0), end=ItemEnd.FAILED, reason="no room", planned_s=3600.0)
    result = replace(WHOLE, ended="import failed: no room", total_s=None, phases=(failed,))
    assert result.faults == ("phase import failed: no room",)
    assert against_plan(failed) == ""
    assert against_plan(replace(failed, end=ItemEnd.DONE)) == "-100 %"


def test_a_window_of_no_length_is_no_traceback() -> None:
    assert window_text(replace(WHOLE, window_s=0.0)) == "7:00 min in all; no window is named"


def test_the_command_that_continues_can_be_copied() -> None:
    assert continue_text(Path("my plan.toml"), "s1").endswith("rehearse 'my plan.toml' --apply --resume s1")


@pytest.mark.requirement("R-MIG-01")
def test_the_critical_path_adds_up_to_the_total() -> None:
    found = path_of(WHOLE)
    assert found.path == ("assess", "export", "import", "indexes", "validation")
    assert abs(found.end_s - 420.0) < 1.0
    assert found.jobs["sequences"].slack_s == 185.0


def test_overlapping_phases_are_drawn_as_overlapping() -> None:
    text = markdown.render(page_of(WHOLE))
    rows = {name: next(line for line in text.splitlines() if line.lstrip().startswith(name) and "█" in line)
            for name in ("export", "import", "sequences")}  # fmt: skip
    assert rows["export"].rindex("█") <= rows["import"].index("█")
    assert rows["import"].index("█") == rows["sequences"].index("█")
    assert rows["sequences"].rindex("█") < rows["import"].rindex("█")
    assert '"kind":"' in html.render(page_of(WHOLE))


@pytest.mark.requirement("R-MIG-10")
def test_planned_stands_against_actual() -> None:
    text = markdown.render(page_of(WHOLE))
    line = next(line for line in text.splitlines() if "import" in line and "-50 %" in line)
    assert "5:00 min" in line
    assert "2:30 min" in line
    assert any("+11 %" in line for line in text.splitlines() if "export" in line)


@pytest.mark.requirement("R-MIG-03")
def test_every_rehearsal_of_a_plan_is_in_its_trend() -> None:
    before = tuple(
        EarlierRehearsal(study=f"s{number}", began_at=1e9 + number, total_s=total, jobs=1)
        for number, total in enumerate((840.0, 600.0))
    )
    text = markdown.render(page_of(replace(WHOLE, earlier=before, number=3)))
    assert all(one in text for one in ("s0", "s1", "rehearsal 3", "-50 %"))


@pytest.mark.requirement("R-MIG-06", "R-MIG-09")
def test_two_rehearsals_are_compared_phase_by_phase() -> None:
    """Restore times of 20 and 13 minutes, by one job and two."""
    slow = replace(WHOLE, study="s0", jobs=1, phases=(phase(P.IMPORT, 0.0, 1200.0, bytes=12_000_000_000),))
    quick = replace(WHOLE, jobs=2, phases=(phase(P.IMPORT, 0.0, 780.0, bytes=12_000_000_000),))
    (pair,) = phase_pairs(slow, quick)
    assert pair.change_pct == pytest.approx(-35.0)
    assert (pair.a_rate, pair.b_rate) == ("9.5", "14.7"), "MB as sizes have it: 1.86 GB in 200 s"
    lines = compare_lines(slow, quick)
    assert "A s0: 1 job," in lines[0]
    assert any("20:00 min" in line and "13:00 min" in line and "-35 %" in line for line in lines)
    assert any("no verdict" in line for line in lines)
    (moment,) = phase_pairs(*(replace(slow, phases=(phase(P.IMPORT, 0.0, end),)) for end in (0.01, 0.05)))
    assert moment.change_pct is None
    assert not any("environment" in line for line in lines)
    there, here = replace(slow, environment="aaaa"), replace(quick, environment="bbbb")
    assert any("not of one environment" in line for line in compare_lines(there, here))
    assert compare_lines(there, replace(quick, environment="aaaa")) == lines


@pytest.mark.requirement("R-MIG-04")
def test_a_row_that_differs_is_named_on_the_page() -> None:
    finding = ValidationFinding(topic="rows", object="sales.orders", expected="352,000 rows", found="351,999 rows",
                                rows=("(17) missing",))  # fmt: skip
    result = replace(WHOLE, validation=ValidationResult(findings=(finding,)))
    text = markdown.render(page_of(result))
    assert "(17) missing" in text
    assert "the validation found 1 difference" in "; ".join(result.faults)


@pytest.mark.requirement("R-MIG-05")
def test_each_phase_has_its_limit_on_each_side() -> None:
    def cpu(at: float, busy: float) -> SampleRow:
        names = [name for name in TABLES["cpu"].column_names() if name != "t"]
        known = {"interval_s": 1.0, "cpus": 2, "usr_pct": busy, "idle_pct": 100 - busy, "run_queue": 9.0}
        return SampleRow("cpu", at, tuple(known.get(name, 0.0) for name in names))

    rows = [cpu(1000.0 + second, 99.0 if second <= 210 else 5.0) for second in range(420)]
    found = {one.phase: one for one in judged_phases(PHASES, {"source": (rows, True), "target": ((), True)}, 1000.0)}
    assert found[P.EXPORT].source_limit == Resource.CPU.value
    assert found[P.IMPORT].source_limit != Resource.CPU.value
    assert found[P.EXPORT].target_limit == Resource.UNKNOWN.value
    assert "99 % busy" in found[P.EXPORT].limits["source"]
    short = judged_phases((phase(P.SEQUENCES, 0.0, 1.0),), {"source": (rows, True)}, 1000.0)
    assert short[0].limits["source"] == NOT_SEEN


def test_what_was_seen_alike_on_both_sides_is_told_once() -> None:
    short = replace(phase(P.IMPORT, 0.0, 1.0), limits={"source": NOT_SEEN, "target": NOT_SEEN})
    text = markdown.render(page_of(replace(WHOLE, phases=(short,))))
    assert text.count(NOT_SEEN) == 1


def test_what_is_no_fault_is_told_on_the_page_all_the_same() -> None:
    note = "collation of the database: by version 2.31 expected, 2.36 found: text may sort differently than before"
    found = replace(WHOLE, validation=ValidationResult(compared={"tables": 4}, notes=(note,)))
    assert found.faults == ()
    assert note in markdown.render(page_of(found))


def test_the_outage_of_a_cut_over_that_a_killed_run_had_is_not_the_whole() -> None:
    cut = (*PHASES, phase(P.CUT_OVER, 400.0, 403.0))
    assert outage_of(1.5, cut, 420.0) == 1.5
    assert outage_of(None, cut, 420.0) == 3.0
    assert outage_of(None, PHASES, 420.0) == 420.0


def test_a_replay_that_stands_is_on_the_page_and_no_fault() -> None:
    result = replace(WHOLE, replay=REPLAYED)
    assert result.faults == ()
    told = "1,000 statements at speed 2, 10 answered differently than captured (study r1)"
    assert told in markdown.render(page_of(result))
