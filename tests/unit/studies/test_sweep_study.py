"""Sweeps and factorials on a simulated laboratory, and their options through the store."""

import json
from dataclasses import asdict, replace

import pytest

from pgdyno.cli.experiment import command
from pgdyno.cli.requests.experiment_request import ExperimentFlags
from pgdyno.cli.requests.sweep import _options
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, PolicyError, UsageError
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import StudyKind
from pgdyno.model.verdict import Metric
from pgdyno.report.drawing.markdown import render
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.codec import result_from_json
from pgdyno.studies.sweep.page import sweep_page
from pgdyno.studies.sweep.result import measure
from pgdyno.studies.sweep.run import SweepOptions, level_numbers
from simulated_laboratory import SimulatedLaboratory
from staircase_climbing import thin_laboratory

SWEEP = SweepOptions("shared_buffers", ("32MB", "64MB", "128MB", "512MB"), seed=3)
FACTORS = (("work_mem", "64MB"), ("jit", "off"))


def by_buffers(settings):
    return {"32MB": 0.6, "64MB": 0.8}.get(settings.get("shared_buffers"), 1.0)


def measured(options, surface, **lab):
    laboratory = SimulatedLaboratory(surface, **{"cv": 0.01, **lab})
    return plain(measure(laboratory, options, lambda _: None)), laboratory


def page(result, laboratory):
    study = replace(laboratory.study, kind=StudyKind.SWEEP, result=result_from_json(StudyKind.SWEEP, result))
    return sweep_page(StudyRecord(study, tuple(laboratory.store.kept)))


@pytest.mark.requirement("R-EXP-14")
def test_a_sweep_of_four_values_finds_plateau_and_region_and_draws_them():
    result, laboratory = measured(SWEEP, by_buffers)
    assert (result["word"], result["sweep"]["plateau"]) == ("plateau", "128MB")
    assert result["sweep"]["region"] == ["128MB", "512MB"]
    assert len(laboratory.store.kept) == 4 * 6
    report = page(result, laboratory)
    (figure,) = report.figures()
    assert figure.x.scale == "log"
    assert [round(y / figure.series[0].y[0], 1) for y in figure.series[0].y] == [1.0, 1.3, 1.7, 1.7]
    assert figure.bands[0].label == "may be the best"
    assert [mark.label for mark in figure.marks] == ["first level", "taken"]
    assert "128MB" in render(report)


def test_a_flat_sweep_takes_the_first_level_and_says_not_resolved():
    result, laboratory = measured(SWEEP, lambda settings: 1.0)
    assert (result["word"], result["sweep"]["chosen"]) == ("not resolved", "32MB")
    (flat,) = page(result, laboratory).figures()
    assert [mark.label for mark in flat.marks] == ["first level"], "where no level differs none is marked as taken"


def test_a_sweep_beside_others_answers_and_its_headline_says_so():
    result, laboratory = measured(SWEEP, by_buffers, disturbed=1.0, shared=True)
    assert (result["word"], result["sweep"]["plateau"]) == ("plateau", "128MB")
    runs = result["beside_others"]
    told = f"less certain, as others used the machine in {runs['runs']} of {runs['of']} runs"
    assert told in page(result, laboratory).title


@pytest.mark.parametrize(
    ("knob", "levels", "numbers", "unit"),
    [
        ("work_mem", ("64kB", "4MB"), [64, 4096], "kB"),
        ("shared_buffers", ("32MB", "4GB"), [32, 4096], "MB"),
        ("shared_buffers", ("1GB", "1536MB"), [1, 1.5], "GB"),
        ("wal_buffers", ("-1", "16MB"), [None, None], ""),
        ("random_page_cost", ("1.1", "4"), [1.1, 4], ""),
        ("jit", ("on", "off"), [None, None], ""),
    ],
)
def test_the_axis_of_memory_has_a_unit_that_leaves_no_level_below_one(knob, levels, numbers, unit):
    facts = SimulatedLaboratory(lambda _: 1.0).facts
    assert level_numbers(facts, knob, levels) == (numbers, unit)


class Gaps(SimulatedLaboratory):
    """A laboratory that could not read the server's CPU in some of its runs."""

    lost: tuple[int, ...] = ()

    def _outcome(self, spec, chance):
        outcome = super()._outcome(spec, chance)
        return replace(outcome, server_cpu_ms_per_tx=None) if len(self.store.kept) + 1 in self.lost else outcome


@pytest.mark.requirement("R-EXP-14", "R-EXP-20")
@pytest.mark.parametrize(
    "options",
    [replace(SWEEP, metric=Metric.SERVER_CPU), SweepOptions(factors=FACTORS, metric=Metric.SERVER_CPU, max_pairs=6)],
    ids=["sweep", "factorial"],
)
def test_a_run_without_the_figure_costs_its_block_and_not_the_study(options):
    said = []
    laboratory = Gaps(by_buffers, cv=0.01)
    laboratory.lost = (2, 6, 7)
    result = plain(measure(laboratory, options, said.append))
    assert result["word"] in ("plateau", "not resolved", "equivalent", "independent"), result["word"]
    text = render(page(result, laboratory))
    assert "server CPU per transaction" in text, "the reader is told of what"
    assert result["title"].split(":")[0].endswith("by server CPU per transaction")
    if not options.factors:
        assert result["sweep"]["blocks"] == 6 - 2
        assert any("2 of 6 blocks left out: server CPU per transaction" in line for line in said)
    everywhere = Gaps(by_buffers, cv=0.01)
    everywhere.lost = tuple(range(1, 400))
    with pytest.raises(EnvironmentUnsuitable, match="server CPU per transaction was not measured"):
        measure(everywhere, options, said.append)


def test_a_level_that_cannot_be_measured_leaves_the_sweep_and_is_named():
    last = SWEEP.values[-1]
    laboratory = SimulatedLaboratory(by_buffers, cv=0.01, fails=lambda settings: last in settings.values())
    said = []
    result = plain(measure(laboratory, SWEEP, said.append))
    assert [level["level"] for level in result["sweep"]["levels"]] == list(SWEEP.values[:-1])
    assert result["title"].endswith(f"; {last} could not be measured: did not start")
    first = SimulatedLaboratory(by_buffers, cv=0.01, fails=lambda settings: last not in settings.values())
    with pytest.raises(PgdynoError, match="cannot be measured"):
        measure(first, SWEEP, said.append)


@pytest.mark.parametrize(
    "options",
    [replace(SWEEP, metric=Metric.LATENCY_P99), SweepOptions(factors=FACTORS, metric=Metric.LATENCY_P99, max_pairs=6)],
    ids=["sweep", "factorial"],
)
def test_a_thin_run_costs_its_block_and_a_thin_load_is_not_judged(options):
    said = []
    result = plain(measure(thin_laboratory(lambda trial: trial.id == 2)(by_buffers, cv=0.01), options, said.append))
    assert result["word"]
    if not options.factors:
        assert result["sweep"]["blocks"] == 6 - 1
        assert any("as too few for p99 latency: run 2 (11 transactions)" in line for line in said)
    everywhere = thin_laboratory(lambda trial: True)(by_buffers, cv=0.01)
    with pytest.raises(EnvironmentUnsuitable, match="p99 latency cannot be judged: its runs have too few transactions"):
        measure(everywhere, options, said.append)


@pytest.mark.requirement("R-EXP-20")
@pytest.mark.parametrize(("together", "word"), [(1.3 * 1.2, "independently"), (1.3, "weaken"), (2.0, "strengthen")])
def test_a_factorial_tells_whether_two_factors_act_on_each_other(together, word):
    def surface(settings):
        a, b = "work_mem" in settings, "jit" in settings
        return together if a and b else 1.3 if a else 1.2 if b else 1.0

    options = SweepOptions(factors=FACTORS, confidence=0.95, max_pairs=40, seed=2)
    result, laboratory = measured(options, surface, cv=0.005)
    assert word in result["title"]
    found = result["factorial"]
    assert found["interaction"]["ratio"] == pytest.approx(together / 1.56, rel=0.02)
    lo, hi = found["interaction"]["ci"]
    assert lo < together / 1.56 < hi
    assert [arm["name"] for arm in found["arms"]] == ["neither", "a", "b", "both"]
    assert "interaction ratio" in render(page(result, laboratory))


def test_a_sweep_that_is_killed_goes_on():
    whole, laboratory = measured(SWEEP, by_buffers)
    with pytest.raises(KeyboardInterrupt):
        measured(SWEEP, by_buffers, kill_after=9)
    again, second = measured(SWEEP, by_buffers, recorded=laboratory.store.kept[:9])
    assert again == whole
    assert second.measured == 24 - 9


def test_options_come_back_from_the_store_as_they_were():
    for options in (SWEEP, SweepOptions(factors=FACTORS, seed=8)):
        assert shaped(SweepOptions, json.loads(json.dumps(asdict(options))), "the options", strict=False) == options


def flags(*words):
    return ExperimentFlags.of(command.make_context("experiment", list(words)).params)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("--sweep", "shared_buffers"), "is not KNOB=VALUE"),
        (("--sweep", "shared_buffers=32MB"), "fewer than two values"),
        (("--sweep", "shared_buffers=32MB,,64MB"), "fewer than two values"),
        (("--factorial", "a=1", "b"), "is not KNOB=VALUE"),
    ],
)
def test_a_slip_in_the_flags_is_told(values, words):
    with pytest.raises(UsageError, match=words):
        _options(flags(*values))


def test_what_target_and_policy_do_not_allow_is_refused():
    laboratory = SimulatedLaboratory(by_buffers)
    with pytest.raises(PolicyError, match="class X"):
        _options(flags("--sweep", "fsync=on,off")).configurations(laboratory.facts)
    with pytest.raises(UsageError, match="both factors are work_mem"):
        _options(flags("--factorial", "work_mem=4MB", "work_mem=8MB")).configurations(laboratory.facts)
