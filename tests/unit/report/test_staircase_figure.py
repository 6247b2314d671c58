"""The staircase as a figure: the published one of 2017, bars below 100, the honest last bar; and its page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.configuration import BASELINE
from pgdyno.model.figure import FigureKind
from pgdyno.model.record import PlanRecord
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import BY_HAND, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Interval
from pgdyno.report.drawing.markdown import render
from pgdyno.report.drawing.text_charts import framed_chart
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.reports import compose
from pgdyno.studies.staircase.figure import StairRow, staircase
from result_example import made
from simulated_laboratory import simulated_study

FIGURES = json.loads((Path(__file__).parents[2] / "data/staircase/figures_2017.json").read_text())


def rows_2017(**gains):
    return [
        StairRow(step["name"], 1 + gains.get(step["name"], step["gain"]), None, "keep") for step in FIGURES["steps"]
    ]


def bars(figure):
    placed = [(x, series.group, label, y) for series in figure.series
              for x, label, y in zip(series.x, series.labels, series.y, strict=True)]  # fmt: skip
    return [(group, label, y) for _, group, label, y in sorted(placed)]


@pytest.mark.requirement("R-EXP-03", "R-EXP-04")
def test_the_published_staircase_multiplies_to_144_beside_the_stated_145():
    figure = staircase(rows_2017(), stated_end=FIGURES["stated_end"])
    drawn = bars(figure)
    assert figure.kind is FigureKind.STAIRCASE
    assert drawn[0] == ("baseline", "baseline", 100.0)
    assert [round(y, 1) for group, _, y in drawn if group == "keep"] == [112.0, 114.2, 121.1, 129.6, 141.2, 144.1]
    assert [(label, round(y, 1)) for group, label, y in drawn if group == "total"] == [
        ("product of the kept", 144.1), ("end as stated", 145.0),
    ]  # fmt: skip
    assert round(drawn[-1][2], 1) == 100.7
    assert figure.title == "The 6 kept of 6 steps multiply to 144.1 %, beside 145.0 % as stated"
    assert "interval" in figure.table.columns
    assert figure.table.rows[0][3] == "unknown", "the guide states no interval, so none is drawn"


@pytest.mark.requirement("R-EXP-03")
def test_another_figure_in_the_rows_is_another_title():
    assert "144.1" not in staircase(rows_2017(**{"huge pages": 0.17}), stated_end=1.45).title


@pytest.mark.requirement("R-EXP-16")
def test_a_harmful_step_stands_below_100_and_the_next_goes_on_from_before_it():
    rows = [
        StairRow("harm", 0.98, Interval(0.98, 0.97, 0.99, 0.95), "drop"),
        StairRow("nothing", 1.0, Interval(1.0, 0.99, 1.01, 0.95), "null"),
        StairRow("good", 1.1, Interval(1.1, 1.08, 1.12, 0.95), "keep"),
    ]
    drawn = {label: (group, y) for group, label, y in bars(staircase(rows, end=Interval(1.1, 1.07, 1.13, 0.95)))}
    assert drawn["harm"][0] == "drop"
    assert drawn["harm"][1] == pytest.approx(98)
    assert drawn["nothing"] == ("null", pytest.approx(100))
    assert drawn["good"] == ("keep", pytest.approx(110))
    assert drawn["interaction"] == ("null", pytest.approx(100))


@pytest.mark.requirement("R-EXP-03")
def test_an_interval_of_any_length_leaves_the_bars_to_be_seen():
    wide = staircase([StairRow("good", 1.2, Interval(1.2, 0.01, 150.0, 0.95), "keep")])
    assert 120 < wide.y.hi < 1000
    assert "end at its edge" in wide.caption
    assert "15,000" in str(wide.table.rows[0]), "the table has it whole"
    endless = staircase([StairRow("good", 1.2, Interval(1.2, 0.0, float("inf"), 0.95), "keep")])
    assert endless.y.hi is None, "the renderer cuts what has no end"
    narrow = staircase([StairRow("good", 1.2, Interval(1.2, 1.1, 1.3, 0.95), "keep")])
    assert (narrow.y.hi, "edge" in narrow.caption) == (None, False)


def test_in_isolation_every_bar_stands_on_the_baseline():
    rows = [StairRow(name, 1.2, Interval(1.2, 1.1, 1.3, 0.95), "keep") for name in ("a", "b")]
    grown, alone = (
        {label: y for _, label, y in bars(staircase(rows, mode=mode))} for mode in ("accumulate", "isolate")
    )
    assert (round(grown["b"]), round(alone["b"])) == (144, 120)
    assert grown["product of the kept"] == alone["product of the kept"]


@given(
    st.lists(st.tuples(st.floats(0.3, 3), st.floats(1.001, 2), st.sampled_from(["keep", "drop", "null"])), max_size=8)
)
def test_the_last_level_is_the_product_of_the_kept_whatever_the_steps(steps):
    rows = [StairRow(str(at), ratio, Interval(ratio, ratio / width, ratio * width, 0.95), outcome)
            for at, (ratio, width, outcome) in enumerate(steps)]  # fmt: skip
    figure = staircase(rows, end=Interval(1.5, 1.4, 1.6, 0.95))
    expected = 100.0
    for ratio, _, outcome in steps:
        expected *= ratio if outcome == "keep" else 1
    drawn = {label: y for _, label, y in bars(figure)}
    if not any(outcome == "keep" for *_, outcome in steps):
        assert "product of the kept" not in drawn, "nothing was kept, so nothing is multiplied"
        return
    assert drawn["product of the kept"] == pytest.approx(expected)
    assert drawn["interaction"] == pytest.approx(100 * 150 / expected)
    for series in figure.series:
        for y, lo, hi in zip(series.y, series.lo, series.hi, strict=True):
            assert lo is None or lo <= y * (1 + 1e-9) <= hi * (1 + 1e-6)


def test_candidates_are_not_called_kept():
    figure = staircase([StairRow("a", 1.2, Interval(1.2, 1.1, 1.3, 0.95), "candidate")], mode="isolate")
    assert [series.name for series in figure.series] == ["baseline", "candidate"]
    assert figure.title == "1 step measured, 1 candidate found"
    (line,) = [line for line in framed_chart(figure, 110) if line.startswith("a ")]
    assert line.split()[1] == "candidate"
    assert "█" in line


VERDICT = {"confidence": 0.95, "pairs": 8, "metric": "throughput", "smallest_effect": 0.02, "more_pairs": None}


def step(name, outcome, ratio, word, **more):
    verdict = {**VERDICT, "word": word, "ratio": ratio, "ci": [ratio * 0.98, ratio * 1.02]}
    return {
        "step": name,
        "outcome": outcome,
        "settings": {"work_mem": "8MB"},
        "interleaved": True,
        "verdict": verdict,
        **more,
    }


def record(**changes):
    result = {
        "mode": "accumulate", "metric": "throughput", "kept": {"work_mem": "8MB"}, "kept_steps": ["good"],
        "start": {"settings": {}, "differs": {}, "out_of_the_box": True},
        "steps": [
            step("good", "keep", 1.2, "better"), step("bad", "drop", 0.9, "worse"),
            {"step": "people", "outcome": "skipped", "why": "it is for people: see its commands"},
        ],
        "product": {"ratio": 1.2, "ci": [1.18, 1.22], "confidence": 0.95},
        "verdict": {**VERDICT, "word": "better", "ratio": 1.21, "ci": [1.18, 1.24]},
        "effects_left_out": {}, "drift": {"sentence": ""}, "sentences": [], **changes,
    }  # fmt: skip
    study = replace(
        simulated_study(), kind=StudyKind.STAIRCASE, state=StudyState.COMPLETE, result=made(StudyKind.STAIRCASE, result)
    )
    return StudyRecord(study, ())


@pytest.mark.requirement("R-EXP-16", "R-EXP-24")
def test_the_page_tells_every_step_and_where_it_started():
    report = compose(record())
    text = render(report)
    assert report.title.startswith("The kept configuration is better")
    for words in ("out of the box", "bad", "dropped", "it is for people", "explains the measured end"):
        assert words in text, words
    assert "| bad |" in render(report)


@pytest.mark.requirement("R-EXP-16")
@pytest.mark.parametrize("word", ["equivalent", "not resolved"])
def test_a_null_step_says_whether_it_was_shown_to_do_nothing_or_not_resolved(word):
    report = compose(record(steps=[step("good", "keep", 1.2, "better"), step("nil", "null", 1.05, word)]))
    (table,) = [block.table for one in report.digest if one.id == "steps" for block in one.blocks]
    assert [row[4] for row in table.rows] == ["keep", f"null, {word}"]
    assert next(iter(report.figures())).table.rows[1][-1] == f"no effect shown; {word}"


@pytest.mark.requirement("R-EXP-16")
def test_a_step_of_too_few_pairs_is_drawn_and_told_and_its_interval_called_unbounded():
    open_ = {**VERDICT, "word": "not resolved", "ratio": 1.1, "ci": [0.0, None], "pairs": 3}
    steps = [step("good", "keep", 1.2, "better"), {**step("open", "null", 1.1, "x"), "verdict": open_}]
    report = compose(record(steps=steps))
    (table,) = [block.table for one in report.digest if one.id == "steps" for block in one.blocks]
    assert table.rows[1][2:5] == ("+10 %", "unbounded", "null, not resolved")
    figure = next(iter(report.figures()))
    assert ("null", "open", pytest.approx(132)) in bars(figure)
    assert figure.table.rows[1][3] == "unbounded"


def test_what_was_proved_is_told_with_the_baseline_of_its_plan():
    start = {"settings": {"jit": "off", "work_mem": "64kB"}, "differs": {}, "out_of_the_box": False}
    text = render(compose(record(start=start)))
    assert "jit = 'off'" in text
    assert "work_mem = '8MB'" in text
    assert "work_mem = '64kB'" not in text, "a kept step stands over it"
    assert "Settings of the plan's baseline" not in render(compose(record()))


def test_the_page_lists_the_plans_that_steps_changed_from_the_records_of_their_runs():
    runs = {"before": {"qualified": 1, "all": [1, 2]}, "after": {"qualified": 3, "all": [3, 4]}}
    made = record(
        steps=[step("good", "keep", 1.2, "better", runs=runs), step("bad", "drop", 0.9, "worse")],
        proof_runs={"baseline": {"qualified": 5, "all": [5]}, "all kept": {"qualified": 6, "all": [6]}},
    )
    shapes = {1: "Seq Scan", 2: "Seq Scan", 3: "Index Scan", 4: "Index Scan", 5: "Seq Scan", 6: "Seq Scan"}
    plans = {run: (PlanRecord("q", shape, shape),) for run, shape in shapes.items()}
    (section,) = [one for one in compose(replace(made, records=plans)).sections if one.id == "plans"]
    assert section.blocks[-1].table.rows == (("step good", "changed", "q", "Seq Scan", "Index Scan"),)
    assert "all kept against the baseline: 1 statement kept the shape of the plan" in str(section.blocks[1])
    assert "plans" not in {one.id for one in compose(made).sections}, "where no plan was recorded"


@pytest.mark.requirement("R-EXP-18")
def test_what_people_do_is_said_not_to_be_drawn_by_lot():
    runs = [Trial(n, "s", TrialSpec(BASELINE, Role.ARM, "before", n, 0), TrialState.FAILED) for n in (1, 2)]
    said = "their order cannot be random"
    alone = record()
    assert said not in render(compose(replace(alone, trials=tuple(runs))))
    runs[1] = replace(runs[1], spec=replace(runs[1].spec, factors={BY_HAND: "smt"}))
    assert said in render(compose(replace(alone, trials=tuple(runs))))


@pytest.mark.parametrize("kind", StudyKind)
def test_no_page_claims_an_order_or_a_verdict_that_its_runs_had_not(kind):
    runs = tuple(Trial(n, "s", TrialSpec(BASELINE, Role.ARM, "a", n, 0), TrialState.FAILED) for n in (1, 2))
    text = render(compose(StudyRecord(replace(simulated_study(), kind=kind), runs)))
    unmeasured = kind in (
        StudyKind.IMPORTED, StudyKind.LIVE, StudyKind.WATCH, StudyKind.REPLAY, StudyKind.BATCH, StudyKind.MIGRATE,
    )  # fmt: skip
    single = unmeasured or kind in (StudyKind.BENCH, StudyKind.NOISE, StudyKind.SCALE)
    assert ("each block is random" in text, "The verdict is a rule" in text) == (not single, not single)
    assert ("became steady" in text) == (not unmeasured)


def test_the_page_of_a_drifting_and_of_an_unfinished_staircase():
    drifting = compose(record(drift={"sentence": "the baseline drifted: so and so"}))
    assert "The baseline drifted" in render(drifting)
    unfinished = record()
    unfinished = replace(unfinished, study=replace(unfinished.study, result=None, state=StudyState.INTERRUPTED))
    assert "interrupted" in compose(unfinished).title


def test_less_is_better_stands_upside_up():
    slow = {**VERDICT, "metric": "latency_p99", "word": "better", "ratio": 0.5, "ci": [0.45, 0.55]}
    (figure,) = compose(record(metric="latency_p99", verdict=slow,
                               steps=[{**step("good", "keep", 1, "better"), "verdict": slow}])).figures()  # fmt: skip
    assert [round(y) for group, _, y in bars(figure) if group == "keep"] == [200]
    assert figure.y.label.startswith("1 / p99")


def test_of_a_metric_where_less_is_better_the_proof_has_the_interaction_and_each_step_left_out():
    half = {**VERDICT, "metric": "server_cpu_ms_per_tx", "word": "better", "ratio": 0.5, "ci": [0.49, 0.51]}
    made = record(
        metric="server_cpu_ms_per_tx", verdict=half, steps=[{**step("good", "keep", 1, "better"), "verdict": half}],
        product={"ratio": 0.4, "ci": [0.39, 0.41], "confidence": 0.95},
        effects_left_out={"good": half, "other": {**half, "ratio": 0.8, "ci": [0.78, 0.82]}},
    )  # fmt: skip
    (proof,) = [one for one in compose(made).sections if one.id == "proof"]
    assert proof.blocks[0].sentences[0].startswith("Of server CPU per transaction less is better")
    assert "The whole is less than the product of its steps" in proof.blocks[0].sentences[1]
    assert "around 0.8" in proof.blocks[0].sentences[1], "gains of 2x, where 2.5x was expected"
    assert [row[0] for row in proof.blocks[1].table.rows] == ["good", "other"]


@pytest.mark.requirement("R-EXP-03")
@pytest.mark.parametrize(("end", "name", "word"), [(1.1, "less than the product", "less"),
                                                   (2.5, "more than the product", "more"),
                                                   (1.5, "no interaction shown", "null")])  # fmt: skip
def test_the_last_bar_is_no_step_that_was_dropped_or_kept(end, name, word):
    kept = [StairRow("interaction", 1.5, Interval(1.5, 1.45, 1.55, 0.95), "keep")]
    figure = staircase(kept, end=Interval(end, end * 0.97, end * 1.03, 0.95))
    assert [one.name for one in figure.series] == ["baseline", "kept", "end", name]
    assert [one.labels for one in figure.series if one.name == name] == [("interaction",)]
    last = [line for line in framed_chart(figure, 110) if line.startswith("interaction")][-1]
    assert last.split()[1] == word
