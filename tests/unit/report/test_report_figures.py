"""The figures: golden JSON of each kind, and what must hold for any data."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.figure import Figure
from pgdyno.model.results.tune import Effect
from pgdyno.model.samples import Event
from pgdyno.model.trial import Role, TrialState
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.report.drawing.payload import figures_json
from pgdyno.report.figures import MetricRow, TrialPoint, forest, history, pairs
from pgdyno.report.recorder import align, recorder
from pgdyno.report.traces import LoadBin, RunTrace

GOLDEN = Path(__file__).parent / "golden"
VERDICT = Verdict(Word.BETTER, Interval(3.13, 3.04, 3.22, 0.95), 4, Metric.THROUGHPUT, 0.02)


def compare(name: str, drawn: object) -> None:
    """Compare with the golden file; PGDYNO_BLESS=1 writes it anew."""
    text = json.dumps(drawn, indent=1, sort_keys=True) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("PGDYNO_BLESS"):
        path.write_text(text)
    assert json.loads(path.read_text()) == json.loads(text)


def effect(knob: str, ratio: float, lo: float, hi: float) -> Effect:
    told = {"knob": knob, "before": "1", "after": "2", "why": "why", "durability": "A", "context": "user"}
    return Effect(**told, interval=Interval(ratio, lo, hi, 0.95), word=Word.BETTER)


def points() -> list[TrialPoint]:
    return [
        TrialPoint(1, Role.BASELINE, TrialState.COMPLETE, 1.01, "as found"),
        TrialPoint(2, Role.BASELINE, TrialState.COMPLETE, 0.99, "as found"),
        TrialPoint(3, Role.SEARCH, TrialState.COMPLETE, 1.5, "jit = off"),
        TrialPoint(4, Role.SEARCH, TrialState.REFUSED, None, "shared_buffers = 6GB", "too much memory"),
        TrialPoint(5, Role.SEARCH, TrialState.COMPLETE, 1.2, "jit = on"),
        TrialPoint(6, Role.SEARCH, TrialState.DISTURBED, 2.9, "jit = off", "foreign CPU"),
        TrialPoint(7, Role.SEARCH, TrialState.COMPLETE, 2.5, "shared_buffers = 4GB"),
        TrialPoint(8, Role.CONFIRM, TrialState.COMPLETE, 2.4, "winner"),
    ]


def trace(run: int = 5, *, speed: float = 100.0, seconds: int = 6) -> RunTrace:
    times = [1000.5 + second for second in range(seconds)]
    full: list[float | None] = [1.0] * seconds
    return RunTrace(
        run=run,
        name="the run",
        began_at=1000.0,
        steady_from=1002.0,
        ended_at=1000.0 + seconds,
        cores=2,
        load=[LoadBin(t, speed + index, 1.0, 2.0, 4.0 + index) for index, t in enumerate(times)],
        samples={
            "cpu": {
                "t": times,
                "interval_s": full,
                "cpus": [2] * seconds,
                "usr_pct": [50.0] * seconds,
                "sys_pct": [20.0] * seconds,
                "steal_pct": [None] * seconds,
                "foreign_cpu_pct": [10.0] * seconds,
            },
            "database": {
                "t": times,
                "interval_s": [2.0] * seconds,
                "blks_hit": [4000] * seconds,
                "blks_read": [2000] * seconds,
            },
            "sessions": {"t": times, "active": [2] * seconds},
            "waits": {
                "t": [times[0], times[0], times[2], times[3]],
                "wait_event_type": ["CPU", "IO", "CPU", "Extension"],
                "sessions": [2, 1, 1, 1],
            },
            "wal": {"t": times, "interval_s": full, "bytes": [3 * 1024**2] * seconds},
            "disk": {
                "t": [t for t in times for _ in "ab"],
                "device": ["sda", "sdb"] * seconds,
                "rkb_per_s": [0.0, 2000.0] * seconds,
                "wkb_per_s": [500.0, 0.0] * seconds,
            },
        },
        events=[
            Event(1003.0, "checkpoint", "time"),
            Event(1004.0, "probe", "not drawn"),
            Event(2000.0, "restart", "later"),
        ],
    )


def by_key(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.id.rsplit("-", 1)[0]: figure for figure in figures}


def test_history_golden() -> None:
    compare("history", asdict(history(points(), pair_sd=0.03)))


def test_history_does_not_take_a_disturbed_trial_for_the_best() -> None:
    figure = history(points())
    assert "trial 7, 2.5x" in figure.title
    best = next(series for series in figure.series if series.name == "best so far")
    assert best.y == (1.5, 1.5, 2.5)


def test_history_puts_unscored_trials_on_the_lower_edge() -> None:
    figure = history(points())
    refused = next(series for series in figure.series if series.name == "refused")
    assert refused.x == (4.0,)
    assert refused.y == (figure.y.lo,)
    assert "too much memory" in refused.labels[0]


def test_history_of_a_study_without_a_search_claims_nothing() -> None:
    assert history(points()[:2]).title == "2 trials, none of a search"


def test_forest_golden() -> None:
    effects = [effect("shared_buffers", 2.9, 2.7, 3.1), effect("jit", 1.02, 0.99, 1.05)]
    compare("forest", asdict(forest(effects, smallest_effect=0.02, total=VERDICT)))


def test_forest_names_the_largest_effect_with_its_interval() -> None:
    figure = forest([effect("jit", 1.1, 1.05, 1.15), effect("work_mem", 1.2, 1.1, 1.3)], smallest_effect=0.02)
    assert figure.title == "The largest single effect is that of work_mem: 1.2x [1.1, 1.3]"


def test_pairs_golden() -> None:
    latency = Verdict(Word.NOT_RESOLVED, Interval(0.98, 0.9, 1.07, 0.95), 2, Metric.LATENCY_P99, 0.02, 7)
    rows = [MetricRow(VERDICT, {"block 1": 3.1, "block 2": 3.2}), MetricRow(latency, {"block 1": 0.95})]
    compare("pairs", asdict(pairs(rows, subject="the winner", reference="the baseline")))


def test_pairs_takes_its_title_from_the_verdict() -> None:
    figure = pairs([MetricRow(VERDICT)], subject="B", reference="A")
    assert figure.title == VERDICT.sentence("B", "A")


@pytest.mark.parametrize(("ends", "scale"), [((0.97, 1.04), "linear"), ((0.3, 3.2), "log")])
def test_ratio_axis_is_logarithmic_from_a_doubling_on(ends: tuple[float, float], scale: str) -> None:
    verdict = Verdict(Word.NOT_RESOLVED, Interval(1.0, *ends, 0.95), 3, Metric.THROUGHPUT, 0.02)
    figure = pairs([MetricRow(verdict)], subject="B", reference="A")
    assert figure.y.scale == scale
    assert figure.y.lo <= ends[0] < ends[1] <= figure.y.hi


def test_an_unbounded_interval_can_be_drawn() -> None:
    verdict = Verdict(Word.NOT_RESOLVED, Interval(1.1, 0.0, math.inf, 0.95), 1, Metric.THROUGHPUT, 0.02)
    figure = pairs([MetricRow(verdict)], subject="B", reference="A")
    assert 0 < figure.y.lo < 1.1 < figure.y.hi < math.inf
    assert "Infinity" not in figures_json([figure])


def test_recorder_golden() -> None:
    compare("recorder", [asdict(figure) for figure in recorder(trace())])


def test_recorder_turns_deltas_into_rates() -> None:
    strips = by_key(recorder(trace()))
    hits, reads = strips["blocks"].series
    assert set(hits.y) == {2.0}, "4000 blocks in two seconds are 2 thousand a second"
    assert set(reads.hi) == {3.0}, "reads lie on top of hits"
    assert set(strips["wal"].series[0].y) == {3.0}


def test_recorder_leaves_out_what_a_machine_does_not_have() -> None:
    strips = by_key(recorder(trace()))
    assert [series.name for series in strips["cpu"].series] == ["usr", "sys", "foreign"]
    assert set(strips["cpu"].series[2].y) == {5.0}, "10 % of one core of two"
    old = trace()
    without_wal = RunTrace(5, "old", 1000.0, None, 1006.0, samples={"cpu": old.samples["cpu"]})
    assert [figure.id for figure in recorder(without_wal)] == ["cpu-5"]
    assert recorder(without_wal)[0].bands[0].label == "never steady"


def test_a_second_without_wait_rows_has_no_waiting_sessions() -> None:
    waits = by_key(recorder(trace()))["waits"]
    assert {series.name: series.y for series in waits.series} == {
        "CPU": (2.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        "IO": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "other": (0.0, 0.0, 0.0, 1.0, 0.0, 0.0),
    }
    assert waits.y.hi >= 2, "the line of cores is inside"


def test_missing_seconds_are_a_gap() -> None:
    whole = trace(seconds=10)
    holed = {name: [*values[:3], *values[7:]] for name, values in whole.samples["wal"].items()}
    figure = by_key(recorder(RunTrace(1, "x", 1000.0, 1000.0, 1010.0, samples={"wal": holed})))["wal"]
    assert None in figure.series[0].y


def test_only_events_inside_the_run_are_marked() -> None:
    assert [(mark.at, mark.kind) for mark in recorder(trace())[0].marks] == [(3.0, "checkpoint")]


def test_strips_of_two_runs_share_their_axes() -> None:
    rows = align([recorder(trace(1, speed=100)), recorder(trace(2, speed=900, seconds=9))])
    for row in rows:
        assert len({(figure.x, figure.y) for figure in row if figure}) == 1
    assert [bool(row[0] and row[0].x.label) for row in rows] == [False] * (len(rows) - 1) + [True]


def test_a_strip_that_one_run_lacks_stays_empty_there() -> None:
    poor = RunTrace(2, "poor", 1000.0, 1000.0, 1006.0, load=trace().load)
    rows = align([recorder(trace(1)), recorder(poor)])
    assert [row[1] is None for row in rows] == [False, False, True, True, True, True, True]


def test_a_long_run_is_binned_to_the_most_points() -> None:
    long = trace(seconds=40)
    binned = RunTrace(1, "x", 1000.0, 1000.0, 1040.0, samples=long.samples, bin_s=10)
    figure = by_key(recorder(binned))["wal"]
    assert len(figure.series[0].y) == 4
    assert figure.caption == "each point covers 10 s"


def test_a_verdict_never_lacks_its_figures_in_the_table() -> None:
    figure = pairs([MetricRow(VERDICT)], subject="B", reference="A")
    assert figure.table is not None
    assert figure.table.rows == (("throughput", "better", "3.13", "[3.04, 3.22]", "4"),)


finite = st.floats(0.01, 100)


@given(st.lists(st.tuples(finite, st.sampled_from(list(TrialState)), st.sampled_from(list(Role))), max_size=30))
def test_any_history_lies_inside_its_axes(drawn: list[tuple[float, TrialState, Role]]) -> None:
    figure = history([TrialPoint(i, role, state, ratio, "s") for i, (ratio, state, role) in enumerate(drawn, 1)])
    for series in figure.series:
        assert all(figure.x.lo <= x <= figure.x.hi for x in series.x)
        assert all(y is None or figure.y.lo <= y <= figure.y.hi for y in series.y)
