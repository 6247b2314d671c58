"""How a run was driven and what bounded it, as its evidence reads it from plan, factors, counters and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.samples import HistogramRow
from pgdyno.model.study import Study
from pgdyno.model.trial import LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.probes.run_figures import LoadShape
from pgdyno.trial import run_evidence
from pgdyno.trial.run_evidence import _filling, _load_shape, _rate, _scope, _shared_buffers, sample_rows
from simulated_laboratory import simulated_study
from study_recording import sample_row

PLAN = LoadPlan(clients=4, jobs=2, warmup_s=3.0, measure_s=3.0, instances=3, rate=50.0)


def trial(factors: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None, **counters: float):
    outcome = Outcome(
        TrialState.COMPLETE, began_at=100.0, ended_at=108.5, throughput=77.0, driver_cpu_s=1.5, counters=counters
    )
    spec = TrialSpec(Configuration.of(settings or {}), Role.CELL, "a", 0, 0, factors=factors or {})
    return Trial(1, "s1", spec, TrialState.COMPLETE, outcome)


def shape(**more: object) -> LoadShape:
    found = trial(**more)  # type: ignore[arg-type]  # as `trial` takes them
    assert found.outcome is not None
    return _load_shape(found, PLAN, found.outcome)


def study_with(**facts: object) -> Study:
    return replace(simulated_study(), facts=facts)


def test_clients_and_threads_are_those_of_all_generators() -> None:
    found = shape()
    assert (found.clients, found.jobs, found.rate) == (12, 6, 50.0)
    assert (found.load_s, found.throughput, found.driver_cpu_s) == (8.5, 77.0, 1.5)


def test_a_cell_says_among_its_factors_what_differs_from_the_plan() -> None:
    found = shape(factors={"clients": "10", "jobs": "5", "instances": "2", "rate": "7.5"})
    assert (found.clients, found.jobs, found.rate) == (20, 10, 7.5)
    odd = shape(factors={"clients": "many", "rate": "closed loop"})
    assert (odd.clients, odd.rate) == (12, None)


@pytest.mark.parametrize(("text", "rate"), [(None, 3.0), ("12", 12.0), ("0.5", 0.5), ("1.2.3", None), ("open", None)])
def test_a_rate_is_a_number_and_any_word_a_closed_loop(text: str | None, rate: float | None) -> None:
    assert _rate(text, 3.0) == rate


def test_the_network_is_known_only_where_it_was_counted() -> None:
    unknown, here, far = shape(), shape(over_network=0.0), shape(over_network=1.0, round_trip_ms=0.7, round_trips=4.0)
    assert [(one.over_network, one.driver_is_here) for one in (unknown, here, far)] == [
        (None, True), (False, True), (True, False)
    ]  # fmt: skip
    assert (far.round_trip_ms, far.round_trips, far.pause_s) == (0.7, 4.0, 0.0)
    assert shape(script_pause_s=0.25).pause_s == 0.25


@pytest.mark.parametrize(("text", "size"), [("128MB", 128 << 20), ("100", 100 * 32768), ("8kB", 8192), (None, None)])
def test_shared_buffers_are_in_blocks_of_the_server_where_no_unit_is_written(
    text: str | None, size: int | None
) -> None:
    settings = {} if text is None else {"shared_buffers": text}
    assert _shared_buffers(trial(settings=settings), study_with(), 32768) == size
    assert _shared_buffers(trial(), study_with(settings=settings), 32768) == size


@pytest.mark.parametrize(("limit", "told"), [(99, True), (100, False), (101, False), (None, False)])
def test_a_cgroup_bounds_the_memory_where_its_limit_is_below_it(limit: int | None, told: bool) -> None:
    notes = _scope(study_with(host={"ram_bytes": 100, "memory_limit_bytes": limit, "virtualization": "none"}))
    assert any("A cgroup bounds" in note for note in notes) is told
    assert _scope(study_with()) == ()


def histogram(second: int, count: int, mean_us: float) -> HistogramRow:
    return HistogramRow(second, 0, "s", count, round(count * mean_us), 0, 0, 0, b"")


def test_columns_become_rows_with_their_time_first() -> None:
    rows = sample_rows("memory", {"t": [1.0, None], "a": [5, 6], "b": ["x", None]})
    assert [(row.t, row.values) for row in rows] == [(1.0, (5, "x")), (0.0, (6, None))]


def test_caches_that_fill_are_told_of_the_seconds_in_the_window_alone() -> None:
    """Memory grows by a third and answers get three times as quick; what lies around the window does not count."""
    seconds = range(100, 160)
    memory = [sample_row("memory", second + 1.0, shared_bytes=(1 << 30) + second * (1 << 24)) for second in seconds]
    slow_first = [histogram(second, 100, 9000.0 if second < 130 else 3000.0) for second in seconds]
    told = _filling(memory, slow_first, 100.0, 160.0)
    assert [word.split(" by ")[0] for word in told] == [
        "shared memory grew",
        "answers took 2.0 times as long in the beginning",
    ]
    assert _filling(memory, slow_first, 131.0, 160.0) != told
    assert _filling([], slow_first, 100.0, 160.0) == ()
    cut = [histogram(99, 10**9, 1.0), *slow_first, histogram(160, 10**9, 1.0)]
    more = [sample_row("memory", 100.0, shared_bytes=1), *memory, sample_row("memory", 161.0, shared_bytes=1)]
    assert _filling(more, cut, 100.0, 160.0) == told


def test_answers_are_judged_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []
    monkeypatch.setattr(run_evidence, "warm_up", lambda *series: judged.append(series) or Unknown("too few"))
    memory = [sample_row("memory", second + 1.0, shared_bytes=second) for second in (100, 101)]
    rows = [histogram(100, 10, 9000.0), histogram(100, 30, 1000.0), histogram(101, 10, 2500.0)]
    assert _filling(memory, rows, 100.0, 102.0) == ()
    assert judged == [([100.0, 101.0], [3.0, 2.5])]
