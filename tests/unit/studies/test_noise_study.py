"""The noise study: recorded runs of a known scatter, the table that they come to, and its page."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import HistogramRow, SampleRow
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report, print_summary
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.store.codec import result_from_json
from pgdyno.studies.noise.run import FEWEST_RUNS, noise_result, run_noise, series_of
from pgdyno.studies.reports import build_report
from pgdyno.trial.company import Company
from simulated_laboratory import SimulatedLaboratory, flat, simulated_study

pytestmark = pytest.mark.requirement("R-EXP-11")
DESIGN = Design(confidence=0.95, min_pairs=4)
SECONDS, BEGAN = 16, 1_700_000_000
_HISTOGRAM = LatencyHistogram()
_HISTOGRAM.record(np.array([1000]))
BLOB = _HISTOGRAM.encode()


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        study = replace(simulated_study(), kind=StudyKind.NOISE, state=StudyState.COMPLETE)
        opened.add_study(replace(study, plan=replace(study.plan, warmup_s=4.0, measure_s=SECONDS)))
        yield opened


def add_run(store, block, counts, cpu_s=0.5, began=None):
    """Record a run whose window begins amid a second; the seconds that lie whole in it hold `counts`."""
    began = began or BEGAN + 100 * block
    trial = store.begin_trial("s1", TrialSpec(BASELINE, Role.ARM, "A", block, 0))
    rows = [HistogramRow(began + i, 0, "x", int(n), 0, 0, 0, 0, BLOB) for i, n in enumerate(counts)]
    store.add_histograms(trial, rows)
    names = TABLES["cpu"].column_names()[1:]
    row = tuple({"interval_s": 1.0, "server_cpu_s": cpu_s}.get(name) for name in names)
    store.add_samples(trial, [SampleRow("cpu", began + i + 1.0, row) for i in range(len(counts))])
    tps = float(np.mean(counts))
    outcome = Outcome(
        TrialState.COMPLETE,
        began_at=began - 3.0,
        elapsed_s=len(counts) + 4.0,
        steady_from=float(began),
        ended_at=float(began + len(counts)),
        throughput=tps,
        server_cpu_ms_per_tx=None if cpu_s is None else 1000 * cpu_s / tps,
    )
    store.finish_trial(trial, outcome)
    return store.trial(trial)


def noisy(store, count=12, cv=0.03, plan=None, **more):
    rng = np.random.default_rng(3)
    runs = [add_run(store, i, rng.normal(1000 * rng.normal(1, cv), 50, SECONDS), **more) for i in range(1, count + 1)]
    study = store.study("s1")
    study = replace(study, plan=replace(study.plan, **(plan or {})))
    laboratory = SimpleNamespace(study=study, store=store, spent_s=count * (SECONDS + 4.0))
    return runs, plain(noise_result(laboratory, runs, design=DESIGN, effect=0.02, seed=1))


def test_the_table_has_every_window_with_its_minutes_and_effects(store):
    runs, result = noisy(store)
    json.dumps(result)
    for metric in result["metrics"]:
        assert [window["window_s"] for window in metric["windows"]] == [2, 4, 8, 16, 32, 64]
        for window in metric["windows"]:
            assert window["pair_s"] == pytest.approx(2 * (window["window_s"] + 4))
            for cell in window["cells"]:
                assert cell["minutes"] == pytest.approx(cell["pairs"] * window["pair_s"] / 60)
            assert window["hour"]["pairs"] == int(3600 // window["pair_s"])
            assert window["hour"]["detectable"] < window["hour"]["at_most"]
        best = min(window["hour"]["detectable"] for window in metric["windows"])
        assert metric["hour"]["detectable"] == best
        advice = metric["advice"]
        assert advice["at_most"]["pairs"] >= advice["pairs"]
        assert advice["at_most"]["minutes"] >= advice["minutes"]
        assert advice["minutes"] == pytest.approx(advice["pairs"] * 2 * (advice["window_s"] + 4) / 60)
    assert result["word"] == "measured"
    assert f"{100 * result['metrics'][0]['hour']['detectable']:.2g} %" in result["title"]
    assert len(result["runs"]) == len(runs)


@pytest.mark.parametrize("measure_s", [10.0, 30.0])
def test_the_minutes_are_those_of_runs_with_the_flags_that_are_proposed(store, measure_s):
    """A run of 20 s whose window is 16 s: what of its warm-up was measured is not paid twice, and not for nothing."""
    _, result = noisy(store, plan={"warmup_s": 9.0, "measure_s": measure_s})
    early = max(0.0, 16.0 - measure_s)
    assert (result["early_s"], result["beside_s"]) == (pytest.approx(early), pytest.approx(4.0))
    for window in result["metrics"][0]["windows"]:
        assert window["measure_s"] == pytest.approx(max(2.0, window["window_s"] - early))
        assert window["pair_s"] == pytest.approx(2 * (4.0 + early + window["measure_s"]))
    store.update_study("s1", result=result_from_json(StudyKind.NOISE, result))
    text = io.StringIO()
    print_report(build_report(store, "s1"), text)
    advice = result["metrics"][0]["advice"]
    said = " ".join(text.getvalue().split())
    assert f"--warmup 9 --measure {advice['measure_s']:.3g}" in said
    assert ("did not need 6 s" in said) == (measure_s == 10.0)


def test_equal_runs_judged_against_themselves_make_no_claim(store):
    _, result = noisy(store, count=20)
    assert [metric["aa"]["word"] for metric in result["metrics"]] != ["better", "better"]
    assert all(metric["aa"]["word"] in ("equivalent", "not resolved") for metric in result["metrics"])


def test_one_run_that_stands_apart_is_left_out_and_named(store):
    rng = np.random.default_rng(3)
    counts = [rng.normal(1000, 20, SECONDS) for _ in range(8)]
    counts[3] /= 4
    runs = [add_run(store, i, row) for i, row in enumerate(counts, start=1)]
    laboratory = SimpleNamespace(study=store.study("s1"), store=store, spent_s=100.0)
    result = plain(noise_result(laboratory, runs, design=DESIGN, effect=0.02, seed=1))
    assert result["odd"]["run"] == runs[3].id
    assert result["metrics"][0]["cv"] < 0.1


def test_a_server_whose_cpu_is_unknown_has_a_reason_and_throughput_still(store):
    _, result = noisy(store, count=5, cpu_s=None)
    throughput, cpu = result["metrics"]
    assert throughput["windows"]
    assert "could not be read" in cpu["reason"]


def test_seconds_are_those_that_lie_whole_in_the_window(store):
    trial = add_run(store, 1, [10, 20, 30, 40])
    moved = replace(trial, outcome=replace(trial.outcome, steady_from=BEGAN + 100.4, ended_at=BEGAN + 103.9))
    series = series_of(store, moved, Metric.THROUGHPUT)
    assert list(series.above) == [20, 30]
    cpu = series_of(store, moved, Metric.SERVER_CPU)
    assert list(cpu.above) == [pytest.approx(500), pytest.approx(500)]


def test_the_page_shows_the_answer_in_every_format(store):
    _, result = noisy(store)
    store.update_study("s1", result=result_from_json(StudyKind.NOISE, result))
    report = build_report(store, "s1")
    text, short = io.StringIO(), io.StringIO()
    print_report(report, text)
    print_summary(report, short)
    pages = (text.getvalue(), short.getvalue(), markdown.render(report), html.render(report))
    for page in pages:
        assert "measured" in page
        assert "in one hour" in " ".join(page.split())
        assert "--measure" in page
    assert "extrapolated" in pages[0]
    assert [figure.id for figure in report.figures()][:2] == ["noise-throughput", "noise-server_cpu_ms_per_tx"]


def test_an_unfinished_study_has_a_page_too(store):
    add_run(store, 1, [10, 20, 30])
    assert "No answer" in build_report(store, "s1").title


def test_it_measures_until_the_time_is_over_and_four_times_in_any_case():
    laboratory = SimulatedLaboratory(flat, cv=0.02)
    assert len(run_noise(laboratory, budget_s=1.0, announce=lambda _: None)) == FEWEST_RUNS
    laboratory = SimulatedLaboratory(flat, cv=0.02)
    runs = run_noise(laboratory, budget_s=100.0, announce=lambda _: None)
    assert len(runs) == 12
    assert laboratory.spent_s <= 100


def test_a_machine_that_never_gives_a_usable_run_ends_it():
    laboratory = SimulatedLaboratory(flat, disturbed=1.0)
    with pytest.raises(EnvironmentUnsuitable, match="could not be used"):
        run_noise(laboratory, budget_s=100.0, announce=lambda _: None)


@pytest.mark.parametrize(("quiet", "made"), [(0, 3), (1, 10)])
def test_a_machine_that_others_keep_busy_from_the_start_costs_three_runs_and_not_nine(quiet: int, made: int):
    """Nine were made, 11 minutes of the usual length, and called three; where runs are there, others may leave."""
    asked: list[TrialSpec] = []

    def run(spec: TrialSpec) -> Trial:
        asked.append(spec)
        state = TrialState.COMPLETE if len(asked) <= quiet else TrialState.DISTURBED
        return Trial(len(asked), "s", spec, state, Outcome(state, "foreign CPU"))

    laboratory = SimpleNamespace(run=run, spent_s=1.0, company=Company())
    with pytest.raises(EnvironmentUnsuitable, match=f"^{made - quiet} runs in a row could not be used$"):
        run_noise(laboratory, budget_s=100.0, announce=lambda _: None)
    assert len(asked) == made
