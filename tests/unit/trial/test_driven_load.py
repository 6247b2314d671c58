"""The turns of a load that runs: when it is heard, when its time is over, when it hangs; on a clock of the test."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import WorkloadError
from pgdyno.model.trial import LoadPlan
from pgdyno.trial import driven_load as module
from pgdyno.trial.assess import Bounds
from pgdyno.trial.driven_load import DrivenLoad
from pgdyno.workloads.protocol import LoadReading

PLAN = LoadPlan(clients=1, jobs=1, warmup_s=2.0, measure_s=8.0)


class Stage:
    """Load, sampler, guards, watcher and session of a driven load; a wait moves the clock on by what is asked for."""

    def __init__(self, *, reserve_s: float = 0.0, ends_s: float = 1e9, floor_tps: float | None = None, **load: Any):
        self.now, self.ends_s, self.said, self.heard_at, self.windows = 100.0, ends_s, [], [], []
        self.tps, self.patience_left_s, self.alarm, self.indicators, self.pids = 5.0, 99.0, 7, (), (11, 12)
        self.result = SimpleNamespace(**{"failure": None, "reason": None, **load})
        self.over: list[bool] = []
        self.driver_is_here = False
        self.alarms: set[int | None] = set()
        self.extension = SimpleNamespace(
            reserve_s=reserve_s, longest_s=PLAN.duration_s + reserve_s, reason="", bounds=Bounds(), is_over=self.is_over
        )
        self.work = SimpleNamespace(
            running=self, sampler=self, extension=self.extension, floor_tps=floor_tps, plan=PLAN, ended_early=None,
            events=[],
        )  # fmt: skip

    def driven(self, *, guarded: bool = True) -> DrivenLoad:
        parts: Any = (self.work, self, self if guarded else None, self)
        return DrivenLoad(*parts, clock=lambda: 1e6 + self.now, timer=lambda: self.now)

    def is_over(self, elapsed_s: float, series: object, is_shared: bool) -> bool:
        self.said.append(("is over", elapsed_s, is_shared))
        self.extension.reason = "rises"
        return self.over.pop(0)

    def wait(self, seconds: float, alarm: int | None) -> bool:
        self.now += seconds
        self.alarms.add(alarm)
        return self.now - 100.0 >= self.ends_s

    def live(self) -> LoadReading:
        return LoadReading(1e6 + self.now, self.tps, 1.0, 2.0, 3, 0)

    def finish(self) -> SimpleNamespace:
        self.said.append("finish")
        self.result.discard_logs = lambda: self.said.append("discard logs")
        return self.result

    def reading(self, elapsed_s: float, duration_s: float, *_: object) -> None:
        self.heard_at.append((elapsed_s, duration_s))

    def rows(self) -> tuple[()]:
        return ()

    def series(self) -> None:
        return None

    def record_process(self, pid: int, kind: str) -> None:
        self.said.append((pid, kind))

    def __getattr__(self, name: str) -> Any:
        if name not in ("check", "load_reads", "guards", "let_end", "mark", "terminate", "load_ended", "notice"):
            raise AttributeError(name)
        return lambda *_: self.said.append(name)


def turned(stage: Stage, driven: DrivenLoad, *elapsed: float) -> list[tuple[float, float]]:
    """Give it a turn after each of these seconds, and return when it was heard, of how many seconds."""
    stage.heard_at = []
    for seconds in elapsed:
        stage.now = 100.0 + seconds
        driven._turn()
    return stage.heard_at


def test_a_load_is_heard_nine_tenths_of_a_second_after_it_was() -> None:
    stage = Stage()
    assert turned(stage, stage.driven(), 0.25, 0.5, 1.125, 1.25, 1.5, 2.25, 11.0) == [
        (0.25, 10.0), (1.25, 10.0), (2.25, 10.0), (11.0, 11.0)
    ]  # fmt: skip
    assert [stage.said.count(word) for word in ("check", "load_reads", "guards")] == [7, 4, 4]
    stage.now = 0.0  # where seconds and tenths of them add up exactly
    driven = stage.driven()
    driven._turn()
    stage.now = 0.9
    driven._turn()
    assert stage.heard_at[4:] == [(0.0, 10.0), (0.9, 10.0)]


@pytest.mark.parametrize("reserve_s", [0.0, 5.0])
def test_a_load_may_run_for_a_minute_beyond_its_longest_time(reserve_s: float) -> None:
    stage = Stage(reserve_s=reserve_s)
    stage.over = [False]
    driven = stage.driven(guarded=False)
    turned(stage, driven, 70.0 + reserve_s)
    with pytest.raises(WorkloadError, match=r"still ran 60 s after its scheduled end"):
        turned(stage, driven, 70.25 + reserve_s)


def test_a_load_that_was_told_to_end_has_a_minute_from_then_on() -> None:
    stage = Stage(reserve_s=50.0)
    stage.over = [False, True]
    driven = stage.driven()
    turned(stage, driven, 11.0, 12.0, 72.0)
    assert stage.said.count("let_end") == 1, "once"
    with pytest.raises(WorkloadError):
        turned(stage, driven, 72.25)


def test_the_end_of_the_planned_time_is_judged_at_once_and_then_with_each_reading() -> None:
    stage = Stage(reserve_s=20.0)
    stage.over = [False, False, True]
    assert turned(stage, stage.driven(), 9.5, 9.75, 10.0, 10.25, 10.875, 11.0, 12.0, 13.0) == [
        (9.5, 10.0), (10.0, 10.0), (11.0, 11.0), (12.0, 12.0), (13.0, 13.0)
    ]  # fmt: skip
    assert [each for each in stage.said if each[0] == "is over"] == [
        ("is over", elapsed, False) for elapsed in (10.0, 11.0, 12.0)
    ]
    short = Stage(reserve_s=1.0)
    short.over = [True]
    assert turned(short, short.driven(), 9.5, 10.0) == [(9.5, 10.0), (10.0, 10.0)]
    without = Stage()
    assert turned(without, without.driven(), 9.5, 10.0) == [(9.5, 10.0)], "nothing to extend it by"


@pytest.mark.parametrize(("foreign", "steal", "is_shared"), [(15.0, 5.0, False), (16.0, 0.0, True), (None, 6.0, True)])
def test_others_are_looked_for_since_the_load_began(
    monkeypatch: pytest.MonkeyPatch, foreign: float | None, steal: float, is_shared: bool
) -> None:
    stage = Stage(reserve_s=20.0)
    stage.over = [True]
    seen = stage.windows
    monkeypatch.setattr(module, "foreign_cpu_pct", lambda *window, **where: seen.append((*window, where)) or foreign)
    monkeypatch.setattr(module, "steal_pct", lambda *window: seen.append(window) or steal)
    turned(stage, stage.driven(), 10.5)
    assert ("is over", 10.5, is_shared) in stage.said
    window = ((), 1_000_100.0, 1_000_110.5)
    assert seen == [(*window, {"driver_is_here": False}), window]


def test_a_load_without_hope_is_ended_at_half_of_its_window_and_its_logs_are_deleted() -> None:
    stage = Stage(floor_tps=100.0)
    stage.driven().drive()
    assert stage.now == 106.5, "two seconds of warm-up and half of eight"
    assert stage.said[-6:] == ["mark", "notice", "terminate", "finish", "discard logs", "load_ended"]
    (event,) = stage.work.events
    assert (event.t, event.kind) == (stage.work.ended_early.ended_at, "cut short")


@pytest.mark.parametrize(
    ("load", "raises"),
    [
        ({}, None),
        ({"reason": "a client was lost"}, "the load ended early"),
        ({"failure": WorkloadError("a script is wrong"), "reason": "x"}, "a script is wrong"),
    ],
)
def test_what_a_load_came_to_is_kept_or_raised(load: Mapping[str, Any], raises: str | None) -> None:
    stage = Stage(ends_s=10.0, **load)
    if raises is None:
        stage.driven().drive()
        assert stage.work.load is stage.result
    else:
        with pytest.raises(WorkloadError, match=raises):
            stage.driven().drive()
    assert stage.said[:2] == [(11, "driver"), (12, "driver")]
    assert ("terminate" in stage.said) == (raises is not None)
    assert stage.said[-1] == "load_ended"
    assert stage.alarms == {7}, "a guard that trips ends a turn"


@pytest.mark.parametrize(
    ("elapsed_s", "patience_s", "pause_s"),
    [(0.0, 9.0, 0.5), (9.75, 9.0, 0.25), (10.0, 9.0, 0.5), (0.0, 0.25, 0.25), (0.0, -1.0, 0.05), (9.99, 9.0, 0.05)],
)
def test_a_turn_is_half_a_second_or_what_is_left_and_never_nothing(
    elapsed_s: float, patience_s: float, pause_s: float
) -> None:
    stage = Stage()
    driven = stage.driven()
    stage.now, stage.patience_left_s = 100.0 + elapsed_s, patience_s
    assert driven._pause_s() == pause_s
    assert Stage().driven(guarded=False)._pause_s() == 0.5
