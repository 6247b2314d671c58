"""Levels and client curve from made runs: verdicts, what is counted and not shown, reasons, and the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.results.scale import Constancy, LevelFigures, ScaleResult
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import StudyKind, StudyState, result_type
from pgdyno.model.trial import TrialState
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kinds import judged as judgement_of
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.scale.run import bottleneck_words
from pgdyno.studies.scale.runs import ScaleRun, curve_of, levels_of
from pgdyno.studies.scale.words import curve_sentences
from scale_example import PLAN, judged, made_runs, planned
from study_example import make_study

ROOT = Path(__file__).parents[3]


def result_of(runs: list[ScaleRun]) -> ScaleResult:
    plan = planned()
    return ScaleResult(
        study="scale-1", plan=plan.name, reference=plan.reference, response=plan.criterion.metric.value,
        levels=levels_of(plan, runs, judged), curve=curve_of(plan, runs, judged),
    )  # fmt: skip


def page_of(result: ScaleResult) -> Report:
    study = replace(make_study(StudyKind.SCALE), state=StudyState.COMPLETE, result=result)
    return kind_of(StudyKind.SCALE).page(StudyRecord(study, ()))


def text_of(report: Report) -> str:
    buffer = StringIO()
    print_report(report, buffer)
    return " ".join(buffer.getvalue().split())


def level(result: ScaleResult, percent: float) -> LevelFigures:
    return next(one for one in result.levels if one.percent == percent)


@pytest.mark.requirement("R-SCA-01", "R-SCA-02")
def test_a_load_that_scales_is_constant_at_every_level() -> None:
    result = result_of(made_runs(planned()))
    assert [one.standing for one in result.levels] == [Constancy.CONSTANT] * 4
    assert result.exit_code is ExitCode.OK
    found = {check.criterion: check for check in level(result, 150).checks}
    assert set(found) == {"success rate", "response time", "path length"}
    assert all(check.ratio is not None and check.pairs == 6 for check in found.values())


@pytest.mark.requirement("R-SCA-02", "R-SCA-03")
def test_a_level_whose_path_grows_is_not_constant_and_the_criterion_is_named() -> None:
    result = result_of(made_runs(planned(), path=lambda percent: 1.0 if percent <= 125 else 1.3))
    assert [one.standing for one in result.levels] == [Constancy.CONSTANT] * 3 + [Constancy.NOT_CONSTANT]
    assert result.exit_code is ExitCode.FINDINGS
    assert level(result, 150).path_s == pytest.approx(1.3 * 0.0005, rel=0.05)
    text = text_of(page_of(result))
    assert re.search(r"Level 150 %: not constant \(path length \+(28|29|30|31)\.", text)
    assert "| CPU s/transaction |" in markdown.render(page_of(result))
    assert judgement_of(replace(make_study(StudyKind.SCALE), result=result)).alert


@pytest.mark.requirement("R-SCA-02")
def test_a_level_at_which_nothing_is_answered_in_time_is_not_constant() -> None:
    late = {"150"}
    runs = [replace(one, within=0.0 if one.trial.spec.factors.get("level") in late else 1.0)
            for one in made_runs(planned())]  # fmt: skip
    top = level(result_of(runs), 150)
    success = next(check for check in top.checks if check.criterion == "success rate")
    assert (success.word, success.pairs, top.success) == (Constancy.NOT_CONSTANT, 6, 0.0)
    assert top.standing is Constancy.NOT_CONSTANT
    assert "Level 150 %: not constant (success rate −100.0 % [−100, −100] %" in text_of(page_of(result_of(runs)))


def test_scatter_resolves_nothing_and_is_not_called_constant() -> None:
    result = result_of(made_runs(planned(), noise=0.4))
    assert Constancy.CONSTANT not in [one.standing for one in result.levels if one.percent != 100]
    assert result.exit_code is ExitCode.NOT_RESOLVED


@pytest.mark.requirement("R-SCA-02")
def test_a_hot_row_that_keeps_the_server_behind_its_rate_is_not_constant_and_named() -> None:
    plan = planned()
    runs = made_runs(plan, reached=lambda percent: min(1.0, 110 / percent))

    def locks(trial, busy):
        return bottleneck_words(
            BottleneckVerdict(Resource.LOCKS, None, ("80 % of the time in Lock:transactionid",)), busy
        )

    levels = levels_of(plan, runs, locks)
    by_name = {one.percent: one for one in levels}
    assert by_name[100].standing is Constancy.CONSTANT
    assert by_name[150].standing is Constancy.NOT_CONSTANT
    assert by_name[150].reason == "the server fell behind in 6 of 6 runs: it reached 73 % of the rate"
    assert by_name[150].bottleneck == "locks"
    assert by_name[150].qualified == ()
    assert dict(by_name[150].others) == {"behind its rate": 6}


def test_a_bound_that_is_used_up_is_named_where_the_whole_machine_was_idle() -> None:
    idle = BottleneckVerdict(Resource.NONE, None, ("no resource was short",))
    assert bottleneck_words(idle, 0.97).words == "the level's CPUs"
    assert bottleneck_words(idle, 0.5).words == "nothing"
    assert bottleneck_words(BottleneckVerdict(Resource.LOCKS, None, ()), 0.97).words == "locks"


@pytest.mark.requirement("R-SCA-04")
def test_runs_are_counted_by_level_and_only_qualified_ones_are_shown() -> None:
    plan, runs = planned(), made_runs(planned())
    spoilt = []
    for one in runs:
        if one.trial.spec.factors.get("level") == "125" and one.trial.spec.block in (2, 4):
            assert one.trial.outcome is not None
            wild = replace(one.trial.outcome, state=TrialState.DISTURBED, server_cpu_ms_per_tx=99.0)
            lost = replace(one.trial, id=one.trial.id + 1000, state=TrialState.DISTURBED, outcome=wild)
            spoilt.append(replace(one, trial=lost))
            if one.trial.spec.block == 4:
                continue  # the other was repeated
        spoilt.append(one)
    found = next(one for one in levels_of(plan, spoilt, judged) if one.percent == 125)
    assert found.runs == 7
    assert len(found.qualified) == 5
    assert dict(found.others) == {"disturbed": 2}
    assert found.path_s == pytest.approx(0.0005, rel=0.05)
    assert found.run in found.qualified
    result = replace(result_of(runs), levels=levels_of(plan, spoilt, judged))
    text = text_of(page_of(result))
    assert "25 runs of all levels; 23 qualified and shown, 2 counted only: 2 disturbed." in text


@pytest.mark.requirement("R-SCA-06")
def test_the_client_curve_has_its_peak_its_decline_the_laws_and_locks_by_mode() -> None:
    result = result_of(made_runs(planned()))
    assert result.curve is not None
    assert result.curve.peak is not None
    assert result.curve.peak.connections == 16
    assert result.curve.usl is not None
    assert result.curve.usl.declines
    for text in (text_of(page_of(result)), " ".join(markdown.render(page_of(result)).split())):
        for words in ("at 16 connections", "less at 32", "Universal Scalability Law"):
            assert words in text
    assert "host CPU | RowExclusiveLock | AccessShareLock | ExclusiveLock | limited by" in text


def test_a_law_that_takes_more_loads_is_named_beside_the_one_that_is_fitted() -> None:
    for loads, words in (
        ("[1, 2, 4]", "The Universal Scalability Law is not fitted: it takes 4 different loads, and there are 3."),
        ("[1, 2]", "No law is fitted: it takes 4 different loads, and there are 2."),
    ):
        plan = planned(PLAN.replace("[1, 2, 4, 8, 16, 32]", loads))
        curve = curve_of(plan, made_runs(plan), judged)
        assert curve is not None
        assert words in curve_sentences(curve)


def test_the_page_is_drawn_everywhere_and_its_result_survives_the_store() -> None:
    result = result_of(made_runs(planned()))
    report = page_of(result)
    drawn = html.render(report)
    for name in ("scale-response", "scale-path", "scale-clients"):
        assert name in drawn
    assert shaped(result_type(StudyKind.SCALE), plain(result), strict=False) == result
    stored = json.loads(json.dumps(plain(result)))
    assert stored["levels"][-1]["held_back"] == result.levels[-1].bottleneck != "", "stores of before have that name"
    assert "No verdict" in text_of(
        kind_of(StudyKind.SCALE).page(StudyRecord(replace(make_study(StudyKind.SCALE), result=None), ()))
    )


@pytest.mark.requirement("R-SCA-05", "CON-31")
def test_a_per_cent_of_production_is_called_a_level_and_never_an_increase() -> None:
    result = result_of(made_runs(planned()))
    named = ("src/pgdyno/cli/scale.py", "src/pgdyno/model/results/scale.py", "docs/reference/scale.md")
    texts = [path.read_text() for path in (ROOT / "src/pgdyno/studies/scale").glob("*.py")]
    texts += [(ROOT / name).read_text() for name in (*named, "examples/scale/levels.toml")]
    texts += [text_of(page_of(result)), markdown.render(page_of(result))]
    for text in texts:
        assert "increase" not in text.lower()
    assert "Level 150 %" in texts[-2]
