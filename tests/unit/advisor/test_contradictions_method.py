"""The contradictions about method: both statements are told, and the part that is named keeps to the resolution."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from advice_example import make_advice, make_finding
from pgdyno.advisor.rulebook import contradictions, documents, shipped_rules
from pgdyno.knobs.policy import Durability, ruling_of
from pgdyno.model.configuration import BASELINE
from pgdyno.model.finding import Resolution
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState, WorkloadSpec
from pgdyno.model.verdict import Word
from pgdyno.report.advice.explain import explain_contradiction
from pgdyno.report.drawing.text import print_report
from pgdyno.report.provenance import workload
from study_example import make_study

PROJECT = Path(__file__).parents[3]
WORKLOADS = (PROJECT / "docs" / "reference" / "workloads.md").read_text("utf-8")


def told(name: str, advice=None) -> str:
    stream = StringIO()
    print_report(explain_contradiction(name, advice), stream)
    return " ".join(stream.getvalue().split())


@pytest.mark.parametrize("name", contradictions())
def test_both_statements_have_document_and_section(name: str) -> None:
    found = contradictions()[name]
    assert found.first.text != found.second.text
    for side in (found.first, found.second):
        assert side.document in documents()
        assert len(side.section) > 3
    text = told(name)
    for words in (found.first.text, found.second.text, found.resolution):
        assert " ".join(words.split()) in text


@pytest.mark.parametrize("name", contradictions())
def test_what_decides_is_a_rule_or_a_part_that_is_named(name: str) -> None:
    decider = contradictions()[name].decided_by
    if " " not in decider:
        assert decider in {rule.id for rule in shipped_rules()} or name == "CON-20"
    for word in decider.replace("(", " ").replace(")", " ").replace(",", " ").split():
        if word.endswith((".py", ".toml", ".md")):
            assert any((folder / word).exists() for folder in (PROJECT, PROJECT / "src" / "pgdyno")), word


@pytest.mark.requirement("CON-01", "CON-35")
def test_the_statements_of_the_modes_are_listed() -> None:
    assert "without the updates of tellers and branches" in WORKLOADS
    assert "insert into history stay" in WORKLOADS
    assert "There are no deletes" in WORKLOADS[WORKLOADS.index("## tpcb-like") : WORKLOADS.index("## simple-update")]


@pytest.mark.requirement("CON-01", "CON-35")
def test_a_report_prints_the_statements_of_the_modes_that_ran() -> None:
    study = replace(make_study(), workload=WorkloadSpec("tpcb-like", {}, "0" * 16, "", read_only=False))
    specs = [
        TrialSpec(BASELINE, Role.ARM, "", 1, 0, factors={"mode": mode}) for mode in ("simple-update", "select-only")
    ]
    trials = [Trial(n, study.id, spec, TrialState.COMPLETE, None) for n, spec in enumerate(specs)]
    rows = dict(workload(study, trials).rows)
    simple = rows["statements of simple-update"]
    assert [part.split()[0] for part in simple.split("; ")] == ["BEGIN", "UPDATE", "SELECT", "INSERT", "END"]
    assert "tellers" not in simple
    assert rows["statements of select-only"].startswith("SELECT abalance")
    assert "statements of tpcb-like" not in rows
    default = dict(workload(study, []).rows)["statements of tpcb-like"]
    assert [default.count(word) for word in ("UPDATE", "SELECT", "INSERT", "DELETE")] == [3, 1, 1, 0]


@pytest.mark.requirement("CON-02")
def test_a_new_connection_for_each_transaction_needs_its_own_flag() -> None:
    from pgdyno.cli.bench import command

    flags = {name: option for option in command.params for name in option.opts}
    assert flags["-c"].name == "clients"
    assert flags["-j"].name == "jobs"
    assert flags["-C"].name == "connect_each"
    assert flags["-C"].is_flag


@pytest.mark.requirement("CON-03")
def test_no_figure_rests_on_fsync() -> None:
    ruling = ruling_of("fsync")
    assert ruling is not None
    assert ruling.durability is Durability.X
    assert not [rule.id for rule in shipped_rules() for change in rule.changes if change.knob == "fsync"]


@pytest.mark.requirement("CON-05")
def test_a_verdict_has_four_words_and_no_adjective() -> None:
    assert {word.value for word in Word} == {"better", "worse", "equivalent", "not resolved"}


@pytest.mark.requirement("CON-36")
def test_no_figure_rests_on_rows_that_are_not_printed() -> None:
    figures = [effect for rule in shipped_rules() for effect in rule.effects if effect.low is not None]
    assert not [effect.text for effect in figures if "SMT2" in effect.text or "SMT2" in effect.source.section]


@pytest.mark.requirement("CON-37")
def test_latency_is_of_every_transaction() -> None:
    from pgdyno.model.verdict import Metric

    assert {"latency_p50", "latency_p95", "latency_p99"} <= {metric.value for metric in Metric}


@pytest.mark.requirement("CON-41")
def test_times_are_upper_bounds_that_can_be_set() -> None:
    from pgdyno.cli.bench import command

    flags = {name: option for option in command.params for name in option.opts}
    assert "Longest warm-up" in flags["--warmup"].help
    measure = flags["--measure"]
    assert measure.type.convert(measure.default, None, None) == 30.0


@pytest.mark.requirement("CON-42")
def test_the_sandbox_is_the_default_target() -> None:
    from pgdyno.studies.session.target_request import TargetRequest

    assert (TargetRequest().dsn, TargetRequest().sandbox) == (None, "default")


@pytest.mark.requirement("CON-44")
def test_a_project_names_the_mean_that_it_prints() -> None:
    from pgdyno.model import project

    rows = [project.ProjectRow(name=f"job {n}", count=n, before=100, after=after) for n, after in ((1, 54), (9, 44))]
    plain, weighted = project.row_metric(rows, "mean_saved"), project.row_metric(rows, "weighted_saved")
    assert plain is not None
    assert weighted is not None
    assert (plain.value, weighted.value) == (pytest.approx(51.0), pytest.approx(55.0))
    assert [project.ROW_METRICS[name][0] for name in ("mean_saved", "weighted_saved")] == [
        "plain mean of the rows",
        "mean of the rows, weighted by their counts",
    ]
    assert f"model/{Path(project.__file__).name}" in contradictions()["CON-44"].decided_by


@pytest.mark.requirement("CON-31")
def test_a_per_cent_of_production_is_a_level_in_a_scalability_study() -> None:
    from pgdyno.studies.scale import words

    assert f"studies/scale/{Path(words.__file__).name}" in contradictions()["CON-31"].decided_by
    assert "decided here the same on every target, by studies/scale/words.py" in told("CON-31")


@pytest.mark.requirement("CON-43")
def test_denominators_stand_side_by_side_in_a_comparison_of_platforms() -> None:
    from pgdyno.studies.platforms import comparing as platforms

    assert f"studies/platforms/{Path(platforms.__file__).name}" in contradictions()["CON-43"].decided_by


def test_what_a_rule_decided_here_is_told_with_the_rule() -> None:
    finding = make_finding("read-ahead", resolutions=(Resolution("CON-04", "the rows hold here"),))
    assert "decided here by read-ahead the rows hold here" in told("CON-04", make_advice(finding))
    assert "the same on every target, by reports" in told("CON-04", make_advice(make_finding("read-ahead")))
