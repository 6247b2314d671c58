"""Several load generators as one running load: what ends it when some of them could not run."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.fleet import group
from pgdyno.fleet.group import GroupLoad
from pgdyno.fleet.merge import Part
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.protocol import LoadReading, RunningLoad
from pgdyno.workloads.result import CountBins

PLAN = LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=10.0, instances=2)
SCRIPT, OTHER = ScriptError("no such table"), WorkloadError("the load ended without a single transaction")


class Ended:
    """A generator that has ended with this error."""

    def __init__(self, error: WorkloadError) -> None:
        self.error = error

    def finish(self) -> None:
        raise self.error

    def terminate(self) -> None:
        pass


@pytest.mark.parametrize("errors", [(OTHER, SCRIPT), (SCRIPT, OTHER)])
def test_an_error_of_the_script_is_told_before_what_became_of_the_others(errors: tuple[WorkloadError, ...]) -> None:
    load = GroupLoad([cast("RunningLoad", Ended(one)) for one in errors], PLAN)
    with pytest.raises(ScriptError, match="no such table"):
        load.finish()


class Reading:
    """A generator that runs, or ran, and has told this, or nothing."""

    def __init__(
        self,
        t: float,
        *,
        runs: bool = True,
        tps: float | None = None,
        latency_ms: float = 1.0,
        p99_ms: float | None = None,
        failed: int = 0,
        tells: bool = True,
        bins: CountBins | None = None,
    ) -> None:
        self.t, self.runs, self.tells, self.bins = t, runs, tells, bins
        told = t if tps is None else tps
        self.told = LoadReading(t, told, latency_ms, p99_ms, transactions=int(t), failed=failed)
        self.waited = list[tuple[float, int | None]]()

    def poll(self) -> bool:
        return not self.runs

    def live(self) -> LoadReading | None:
        return self.told if self.tells else None

    def series(self) -> CountBins | None:
        return self.bins

    def wait(self, seconds: float, alarm: int | None = None) -> None:
        self.waited.append((seconds, alarm))
        self.runs = False


def group_of(*loads: Reading | Ended) -> GroupLoad:
    return GroupLoad([cast("RunningLoad", one) for one in loads], PLAN)


def test_what_all_have_told_is_of_the_latest_of_those_that_run() -> None:
    load = GroupLoad([cast("RunningLoad", one) for one in (Reading(3.0), Reading(5.0), Reading(9.0, runs=False))], PLAN)
    found = load.live()
    assert found is not None
    assert (found.t, found.tps, found.transactions) == (5.0, 8.0, 17)


@pytest.mark.parametrize(("detail", "told"), [("line 3", "line 3"), (None, "it was killed")])
def test_of_a_generator_that_failed_beside_others_its_detail_is_told_or_else_its_message(
    monkeypatch: pytest.MonkeyPatch, detail: str | None, told: str
) -> None:
    class Whole:
        def finish(self) -> None:
            pass

        def terminate(self) -> None:
            pass

    def parts_alone(parts: list[Part], *_: object, **__: object) -> list[Part]:
        return parts

    monkeypatch.setattr(group, "merge", parts_alone)
    loads = [cast("RunningLoad", one) for one in (Whole(), Ended(WorkloadError("it was killed", detail=detail)))]
    whole, failed = cast("list[Part]", GroupLoad(loads, PLAN).finish())
    assert (whole.reason, failed.reason) == (None, told)


def test_a_latency_is_weighted_by_throughput_and_a_tail_is_the_worst() -> None:
    found = group_of(
        Reading(3.0, tps=10.0, latency_ms=5.0, p99_ms=7.0, failed=1),
        Reading(5.0, tps=30.0, latency_ms=1.0, failed=2),
        Reading(4.0, tps=0.0, latency_ms=9.0, p99_ms=6.0, failed=4),
        Reading(9.0, tps=99.0, latency_ms=99.0, p99_ms=99.0, failed=8, runs=False),
    ).live()
    assert found == LoadReading(t=5.0, tps=40.0, latency_ms=2.0, p99_ms=7.0, transactions=21, failed=15)


def test_generators_that_stand_still_have_the_latency_of_the_slowest() -> None:
    found = group_of(Reading(1.0, tps=0.0, latency_ms=3.0), Reading(1.0, tps=0.0, latency_ms=8.0)).live()
    assert found is not None
    assert (found.tps, found.latency_ms, found.p99_ms) == (0.0, 8.0, None)


@pytest.mark.parametrize(
    ("loads", "is_known"),
    [
        ([Reading(1.0), Reading(1.0, tells=False)], False),  # one that runs has told nothing
        ([Reading(1.0), Reading(1.0, tells=False, runs=False)], True),
        ([Reading(1.0, runs=False), Reading(1.0, runs=False)], False),  # nobody runs any more
    ],
)
def test_there_is_a_reading_where_all_that_run_have_one(loads: list[Reading], is_known: bool) -> None:
    assert (group_of(*loads).live() is not None) is is_known


def test_the_first_that_still_runs_is_waited_for() -> None:
    over, first, second = Reading(1.0, runs=False), Reading(1.0), Reading(1.0)
    load = group_of(over, first, second)
    assert not load.wait(0.5, 7)
    assert load.wait(0.25)
    assert load.wait(0.125), "nobody is left to wait for"
    assert (over.waited, first.waited, second.waited) == ([], [(0.5, 7)], [(0.25, None)])


def test_a_series_is_that_of_all_or_none() -> None:
    bins = CountBins(100.0, 0.25, np.array([1, 2]), np.array([3, 4]))
    both = group_of(Reading(1.0, bins=bins), Reading(1.0, bins=bins)).series()
    assert both is not None
    assert both.counts.tolist() == [2, 4]
    assert group_of(Reading(1.0, bins=bins), Reading(1.0)).series() is None


@pytest.mark.parametrize(("error", "raised"), [(SCRIPT, ScriptError), (OTHER, None)])
def test_one_error_ends_all_where_the_script_has_it(
    monkeypatch: pytest.MonkeyPatch, error: WorkloadError, raised: type[Exception] | None
) -> None:
    monkeypatch.setattr(group, "merge", lambda parts, *_, **__: [(one.instance, one.result) for one in parts])
    whole = SimpleNamespace(finish=lambda: "whole", terminate=lambda: None)
    load = GroupLoad([cast("RunningLoad", whole), cast("RunningLoad", Ended(error))], PLAN)
    with contextlib.nullcontext() if raised is None else pytest.raises(raised):
        assert cast(object, load.finish()) == [(0, "whole"), (1, None)]
