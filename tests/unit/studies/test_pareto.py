"""Gain against memory: which points are listed, how each is known, and what a tolerance takes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from pgdyno.model.configuration import Configuration
from pgdyno.model.results.tune import ParetoPoint
from pgdyno.model.shapes import plain
from pgdyno.model.verdict import Interval, Metric, Word
from pgdyno.studies.tune import pareto
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.page import gain_memory
from pgdyno.studies.tune.pareto import front
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import tune
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.units import digits_text, parse_quantity
from simulated_laboratory import SimulatedLaboratory, flat

pytestmark = pytest.mark.usefixtures("kept_asks")
OPTIONS = TuneOptions(trials=14, noise_runs=4, confirm_max=8, only=("shared_buffers", "work_mem", "jit"))


def slope(settings):
    """Each doubling of shared_buffers is worth as much, up to 8GB."""
    size = parse_quantity(settings.get("shared_buffers", "128MB"), "8kB") * 8192
    return 1 + min(1.0, math.log2(size / (128 << 20)) / 6)


def tuned(tolerance, surface=slope):
    return plain(outcome(tolerance, surface))


@cache
def outcome(tolerance, surface=slope):
    options = replace(OPTIONS, tolerance=tolerance)
    laboratory = SimulatedLaboratory(surface, cv=0.02)
    return tune_result(laboratory, tune(laboratory, options, lambda _: None), options)


def point(memory, gain, name="", *, taken=False):
    ratio, settings = Interval(gain, gain, gain, 0.95), {"work_mem": name} if name else {}
    return ParetoPoint(settings=settings, memory_bytes=memory, ratio=ratio, basis="model", runs=1, taken=taken)


@pytest.mark.parametrize(("metric", "lead"), [(Metric.THROUGHPUT, 0.2), (Metric.SERVER_CPU, -0.2)])
def test_a_point_of_the_model_has_the_interval_of_its_deviation(monkeypatch, metric, lead):
    settings = Configuration.of({"work_mem": "8MB"})
    monkeypatch.setattr(pareto, "leads", lambda *_: [((0.5,), 0.2, 0.1)])
    monkeypatch.setattr(pareto, "point_to_configuration", lambda *_: settings)
    search = SimpleNamespace(space=SimpleNamespace(dimensions=()), history=list, trials=(), fresh=())
    known = pareto._by_model(SimpleNamespace(search=search), TuneOptions(metric=metric, confidence=0.95))
    ratio, basis, runs = known[settings]
    assert (basis, runs) == ("model", 1)
    assert [math.log(one) for one in (ratio.lo, ratio.ratio, ratio.hi)] == pytest.approx(
        [lead - 0.195996, lead, lead + 0.195996], abs=1e-5
    )


@pytest.mark.requirement("R-TUN-08")
def test_a_tolerance_takes_the_least_memory_within_it():
    buffers = [parse_quantity(tuned(t)["winner"]["settings"]["shared_buffers"], "8kB") for t in (0.05, 0.2)]
    assert buffers[1] < 0.8 * buffers[0]
    for tolerance in (0.05, 0.2):
        points = tuned(tolerance)["pareto"]
        taken, best = next(one for one in points if one["taken"]), points[-1]
        assert taken["memory_bytes"] < best["memory_bytes"]
        assert slope(taken["settings"]) * (1 + tolerance) * 1.03 > slope(best["settings"])


@pytest.mark.requirement("R-TUN-08")
def test_the_list_says_of_each_point_whether_it_was_measured():
    points = tuned(None)["pareto"]
    assert [one["memory_bytes"] for one in points] == sorted(one["memory_bytes"] for one in points)
    assert points[0]["settings"] == {}
    assert [one["taken"] for one in points].count(True) == 1
    taken = next(one for one in points if one["taken"])
    verdict = tuned(None)["verdict"]
    assert taken["basis"] == "measured"
    assert (taken["ratio"]["ratio"], taken["runs"]) == (verdict["ratio"], verdict["pairs"])
    assert {one["basis"] for one in points} == {"measured", "model"}
    assert all(one["ratio"]["ci"][0] < one["ratio"]["ratio"] < one["ratio"]["ci"][1] for one in points[1:])


def test_the_page_tells_the_models_points_from_measured_ones():
    section = gain_memory(outcome(None).pareto, Metric.THROUGHPUT)
    rows = section.blocks[0].table.rows
    assert len(rows) == len(tuned(None)["pareto"])
    for row, one in zip(rows[1:], tuned(None)["pareto"][1:], strict=True):
        assert ("measured in" in row[3]) == (one["basis"] == "measured")
        assert row[1].startswith("about") == (one["basis"] == "model")
        assert (row[-1] == "taken") == one["taken"]


@pytest.mark.requirement("R-TUN-21")
def test_each_point_has_the_server_s_cpu_beside_its_gain_and_memory_or_says_that_it_is_unknown():
    points = tuned(None)["pareto"]
    assert points[0]["cpu"] == 1.0
    for one in points[1:]:  # the simulated server needs less CPU for a transaction by as much as it is faster
        assert one["cpu"] == pytest.approx(1 / slope(one["settings"]), rel=0.1)
    table = gain_memory(outcome(None).pareto, Metric.THROUGHPUT).blocks[0].table
    assert table.columns[2] == "server CPU"
    assert [row[2] for row in table.rows] == [f"{digits_text(one['cpu'])}x" for one in points]
    laboratory = SimulatedLaboratory(slope, cv=0.02, unknown_cpu=lambda number, settings: bool(settings))
    blind = tune_result(laboratory, tune(laboratory, OPTIONS, lambda _: None), OPTIONS).pareto
    assert [one.cpu for one in blind] == [1.0] + [None] * (len(blind) - 1)
    assert [row[2] for row in gain_memory(blind, Metric.THROUGHPUT).blocks[0].table.rows[1:]] == ["unknown"] * (
        len(blind) - 1
    )


def test_where_nothing_is_offered_the_baseline_is_what_is_taken():
    result = tuned(None, flat)
    assert result["keep"]
    assert next(one for one in result["pareto"] if one["taken"])["settings"] == {}


def test_of_points_that_another_beats_in_both_only_baseline_and_taken_stay():
    others = [point(2, 1.0), point(1, 1.1, "1MB"), point(3, 1.3, "3MB"), point(5, 1.25, "5MB")]
    kept = front([*others, point(4, 1.2, "4MB", taken=True)], Metric.THROUGHPUT)
    assert [one.memory_bytes for one in kept] == [1, 2, 3, 4]
    assert [one.taken for one in kept] == [False, False, False, True]


def test_of_a_metric_that_is_better_low_the_lower_one_stays():
    points = [point(1, 1.0), point(2, 1.1, "1MB"), point(3, 0.8, "2MB")]
    assert [one.memory_bytes for one in front(points, Metric.LATENCY_P95)] == [1, 3]


def test_of_points_of_the_same_memory_the_one_of_most_gain_stays():
    points = [point(1, 1.1, "1MB"), point(1, 1.3, "2MB"), point(1, 1.2, "4MB"), point(1, 1.0)]
    kept = front(points, Metric.THROUGHPUT)
    assert [(one.ratio.ratio, one.settings) for one in kept] == [(1.3, {"work_mem": "2MB"}), (1.0, {})]


def test_a_study_of_an_earlier_version_has_no_such_section():
    assert gain_memory((), Metric.THROUGHPUT) is None


@pytest.mark.parametrize("word", list(Word))
def test_nothing_is_offered_but_what_its_pairs_call_better(word):
    verdict = SimpleNamespace(word=word)
    blocks = SimpleNamespace(unmeasured={})
    headline = SimpleNamespace(verdict=verdict)
    proof = SimpleNamespace(headline=headline, effects={"jit": verdict}, rest=(), rest_effect=None, blocks=blocks)
    winner = Configuration.of({"jit": "off"})
    assert Tuned(None, None, winner=winner, proof=proof).is_offered == (word is Word.BETTER)
