"""The sections on what held runs back and what happened inside them, and the same as JSON."""

import math
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pgdyno.cli.compare import command as compare_command
from pgdyno.cli.report import command as report_command
from pgdyno.errors import UsageError
from pgdyno.model.bottleneck import WORDS, BottleneckVerdict, Candidate, Resource
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.run_evidence import RunEvidence, Smoothness
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.report.bottleneck_section import bottleneck_section, headline
from pgdyno.report.drawing.markdown import render
from pgdyno.report.run_details import (
    CAVEAT,
    failures_text,
    plan_section,
    plans_of_arms,
    run_details,
    side_plan_section,
    slow_clients,
)
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report
from pgdyno.trial.run_evidence import read_evidence
from result_example import made
from study_example import make_study
from study_recording import client, record_filling

CANDIDATE = Candidate(Resource.LOCKS, 0.6, True, "60 % waited.", "(Threshold 30 %.)")
VERDICT = BottleneckVerdict(Resource.LOCKS, Resource.CPU, ("60 % waited.",), (CANDIDATE,), ("A note.",))


def texts(section):
    return str(section)


@pytest.mark.requirement("R-MON-14")
def test_the_verdict_its_evidence_and_what_is_next_are_in_the_section():
    section = bottleneck_section([("A", 3, VERDICT)])
    assert section.title == "What limited it?"
    assert "A, trial 3: locks limited it; next: the processors." in texts(section)
    assert "60 % waited." in texts(section)
    assert "A note." in texts(section)
    assert bottleneck_section([]) is None
    assert set(WORDS) == set(Resource)
    assert headline(BottleneckVerdict(Resource.UNKNOWN, None, ("x",))) == "what limited it is unknown."
    assert (
        headline(BottleneckVerdict(Resource.NONE, Resource.CPU, ("x",)))
        == "nothing limited it; busiest: the processors."
    )


@pytest.mark.requirement("R-MON-10")
def test_a_client_that_is_served_badly_is_named():
    even = [client(number, 5.0) for number in range(4)]
    assert slow_clients(even) == ()
    assert slow_clients([*even, client(9, 50.0)]) == (9,)
    assert slow_clients([client(0, 5.0)]) == ()
    section = run_details([("the run", 1, RunEvidence(VERDICT, clients=(*even, client(9, 50.0))))])
    assert "client 9 waited far longer" in texts(section)


@pytest.mark.requirement("R-MON-15")
def test_no_failure_is_told_and_not_recorded_is_another_thing():
    none = dict.fromkeys(("crash", "restart", "deadlock"), 0)
    assert "no crash" in failures_text(RunEvidence(VERDICT, none))
    assert "2 crashes" in failures_text(RunEvidence(VERDICT, {**none, "crash": 2}))
    assert "not recorded" in failures_text(RunEvidence(VERDICT, None, failed_transactions=1234))
    assert failures_text(RunEvidence(VERDICT, None, 1234)).startswith("1,234 failed transactions")


@pytest.mark.requirement("R-MON-09")
def test_evenness_of_both_sides_stands_with_its_caveat():
    runs = [
        (name, run, RunEvidence(VERDICT, smoothness=Smoothness(cv, 40, 90, 110, 0)))
        for name, run, cv in (("A", 1, 0.12), ("B", 2, 0.031))
    ]
    told = texts(run_details(runs))
    assert told.index("variation 12.0 %") < told.index("variation 3.1 %")
    assert CAVEAT in told


@pytest.mark.requirement("R-TUN-18")
def test_plans_that_changed_are_listed_with_both_shapes():
    changes = [
        PlanChange(
            "SELECT 1", ("Seq Scan on t",), ("Index Scan on t",), "changed", ("Seq Scan on t became Index Scan on t",)
        ),
        PlanChange("SELECT 2", ("Result",), ("Result",), "same"),
        PlanChange("SELECT 3", ("unknown: x",), ("Result",), "unknown"),
    ]
    section = plan_section(changes, ("A", "B"))
    table = section.blocks[-1].table
    assert "SELECT 1: Seq Scan on t became Index Scan on t." in texts(section.blocks[1])
    assert table.columns == ("plan", "statement", "A", "B")
    assert table.rows[0] == ("changed", "SELECT 1", "Seq Scan on t", "Index Scan on t")
    assert "1 statement changed the shape of the plan; 1 kept it; 1 could not be compared." in texts(section.blocks[0])
    assert "1 could not be compared" in texts(section.blocks[0])
    assert plan_section((), ("A", "B")) is None


def test_plans_are_listed_by_the_step_that_changed_them():
    turned = PlanChange(
        "SELECT 1", ("Seq Scan on t",), ("Index Scan on t",), "changed", ("Seq Scan on t became Index Scan on t",)
    )
    kept = PlanChange("SELECT 2", ("Result",), ("Result",), "same")
    unknown = PlanChange("SELECT 3", ("unknown: x",), ("Result",), "unknown")
    places = [
        (name, changes) for name, changes in (("step a", [kept, turned]), ("step b", [kept, unknown]), ("step c", []))
    ]
    section = side_plan_section(places, "step", ("without it", "with it"))
    said, table = texts(section.blocks[1]), section.blocks[-1].table
    assert "step a: 1 statement changed the shape of the plan; 1 kept it." in said
    assert "step b: 1 statement kept the shape of the plan; 1 could not be compared." in said
    assert "step a, SELECT 1: Seq Scan on t became Index Scan on t." in said
    assert "step c" not in said, "where no plan was recorded nothing is said of plans"
    assert table.columns == ("step", "plan", "statement", "without it", "with it")
    assert table.rows == (
        ("step a", "changed", "SELECT 1", "Seq Scan on t", "Index Scan on t"),
        ("step b", "unknown", "SELECT 3", "unknown: x", "Result"),
    )
    assert side_plan_section(places[2:], "step", ("without it", "with it")) is None
    (_, only_same) = side_plan_section([("step b", [kept])], "step", ("a", "b")).blocks
    assert "step b: 1 statement kept the shape of the plan" in texts(only_same)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "s.db") as made:
        made.add_study(make_study(StudyKind.BENCH, "bench-1"))
        yield made


@pytest.mark.requirement("R-MON-11")
def test_three_phases_of_a_warm_up_are_flagged_as_not_steady(store):
    study = store.study("bench-1")
    found = read_evidence(store, study, record_filling(store, study))
    assert len(found.filling) == 3
    assert "shared memory grew" in found.filling[0]
    assert "middle" in found.filling[1]
    assert "not steady" in texts(run_details([("the run", 1, found)]))
    steady = read_evidence(store, study, record_filling(store, study, grows=False, slow_middle=False))
    assert steady.filling == ()
    assert "not steady" not in texts(run_details([("the run", 2, steady)]))


@pytest.mark.requirement("R-MON-14", "R-MON-10", "R-MON-15")
def test_json_and_report_say_the_same_of_a_recorded_run(store):
    study = store.study("bench-1")
    trial = record_filling(store, study)
    found = read_evidence(store, study, trial)
    image = plain(found)
    assert image["bottleneck"]["resource"] == found.bottleneck.resource.value == "client"
    assert image["failures"] == {"crash": 0, "restart": 0}
    assert [one["client"] for one in image["clients"]] == [0, 1]
    assert image["plans"] == [{"statement": "SELECT 1", "shape": "abc", "plan": "Result"}]
    assert image["checks"] == [{"condition": "C01", "violations": 0, "meaning": "sums agree"}]
    store.update_study(
        study.id, result=made(StudyKind.BENCH, {"study": study.id, "run": trial.id, "tps": 20.0, **image})
    )
    page = render(build_report(store, study.id))
    assert "What limited it?" in page
    assert "Inside the runs" in page
    assert found.bottleneck.evidence[0][:40] in page


@pytest.mark.requirement("R-MON-14")
def test_a_run_that_was_not_measured_has_an_unknown_bottleneck_with_the_reason(store):
    study = store.study("bench-1")
    run = store.begin_trial(study.id, TrialSpec(BASELINE, Role.ARM, "bench", 1, 0))
    store.finish_trial(run, Outcome(TrialState.FAILED, reason="the server died"))
    found = read_evidence(store, study, store.trial(run))
    assert found.bottleneck.resource is Resource.UNKNOWN
    assert "the server died" in found.bottleneck.evidence[0]
    assert found.failures is None
    assert math.isclose(sum(one.share for one in found.bottleneck.candidates), 0.0)


def test_the_arms_of_a_sweep_or_factorial_have_their_plans_compared_with_the_first():
    arms = {"neither": "Seq Scan", "a": "Index Scan", "b": "Seq Scan"}
    trials = [Trial(n, "s", TrialSpec(BASELINE, Role.ARM, arm, n, 0), TrialState.COMPLETE)
              for n, arm in enumerate([*arms, *arms], start=1)]  # fmt: skip
    records = {trial.id: (PlanRecord("q", arms[trial.spec.arm], arms[trial.spec.arm]),) for trial in trials}
    record = StudyRecord(make_study(StudyKind.SWEEP, "s"), tuple(trials), records=records)
    section = plans_of_arms(record, [*arms], "arm")
    assert [row[:3] for row in section.blocks[-1].table.rows] == [("a", "changed", "q")]
    assert "b: 1 statement kept the shape of the plan" in texts(section.blocks[1])
    assert plans_of_arms(record, [], "arm") is None


@pytest.mark.requirement("R-REP-01")
@pytest.mark.parametrize("kind", [StudyKind.STAIRCASE, StudyKind.MATRIX, StudyKind.BENCH])
def test_any_run_has_a_report_of_its_own(tmp_path, kind):
    """A run of a study of any kind is told as a bench is: its figures, what limited it, what happened inside."""
    place, page = tmp_path / "s.db", tmp_path / "run.md"
    with Store.open(place) as store:
        store.add_study(make_study(kind, "study-1"))
        run = record_filling(store, store.study("study-1")).id
        cell = {"clients": "3", "instances": "2", "jobs": "1", "mode": "select-only", "scale": "7", "smt": "4"}
        spec = TrialSpec(Configuration.of({"jit": "off"}), Role.CELL, "x", 1, 1, factors=cell)
        begun = store.begin_trial("study-1", spec)
    done = CliRunner().invoke(report_command, [str(run), "--store", str(place), "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert f"arm bench of {kind.value} study study-1, complete" in text
    for words in ("20 transactions per second", "one run, no comparison", "## What limited it?", "## Inside the runs",
                  f"| runs | {run} |"):  # fmt: skip
        assert words in text, words
    asked = CliRunner().invoke(report_command, [str(begun), "--store", str(place), "--format", "md"]).output
    assert "the run is running" in asked
    assert "jit = off" in asked
    assert "smt 4" in asked
    assert "Select-only at scale 7, 3 clients" in asked
    assert isinstance(CliRunner().invoke(report_command, ["99", "--store", str(place)]).exception, UsageError)


@pytest.mark.requirement("R-REP-01")
def test_a_comparison_of_two_runs_is_a_page_too(tmp_path):
    place, page = tmp_path / "s.db", tmp_path / "pair.md"
    with Store.open(place) as store:
        for name, version in (("study-1", "17.9"), ("study-2", "18.3")):
            made = make_study(StudyKind.BENCH, name)
            server = {**made.facts["server"], "version": version}
            store.add_study(replace(made, facts={**made.facts, "server": server}))
            record_filling(store, store.study(name))
    words = ["1", "2", "--store", str(place)]
    assert CliRunner().invoke(compare_command, [*words, "-o", str(page)], standalone_mode=False).return_value == 3
    text = page.read_text()
    assert text.startswith("# Run 2 beside run 1: not resolved, one pair that is not interleaved proves nothing")
    assert "| throughput | 20 tps | 20 tps | 1.000 |" in text
    assert "| PostgreSQL | 17.9 | 18.3 |" in text
    for words_ in ("The first, trial 1: the load generator limited it", "The second, trial 2", "## Flight recorder",
                   "not interleaved pairs of one study", "| runs | 1-2 |"):  # fmt: skip
        assert words_ in text, words_
    assert "each block is random" not in text, "nobody drew the order of these two"
    assert CliRunner().invoke(compare_command, [*words, "--format", "md"]).stdout == text
    assert CliRunner().invoke(compare_command, words).stdout.startswith("metric")


@pytest.mark.requirement("R-REP-01")
def test_two_arms_of_one_study_have_the_verdict_of_all_its_pairs(tmp_path):
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(make_study(StudyKind.AB, "ab-1"))
        for block in range(1, 9):
            for arm, jit, tps in (("A", "on", 100.0 + block), ("B", "off", 150.0 + block)):
                spec = TrialSpec(Configuration.of({"jit": jit}), Role.ARM, arm, block, 0)
                run = store.begin_trial("ab-1", spec)
                done = Outcome(TrialState.COMPLETE, began_at=1.0, steady_from=1.0, ended_at=9.0, throughput=tps)
                store.finish_trial(run, done)
    words = ["1", "2", "--store", str(tmp_path / "s.db"), "--format", "md"]
    text = CliRunner().invoke(compare_command, words).stdout
    assert text.startswith("# Run 2 is better: throughput 1.4")
    assert "each block is random" in text
    assert "| jit | on | off |" in text
