"""The watcher that keeps the board: all it hears goes on, and a store that refuses costs a study nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import StoreError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Colour, Live, LivePoint
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.probes.latest import latest_point
from pgdyno.trial.live_recorder import LiveRecorder
from pgdyno.trial.live_row import LiveRow
from pgdyno.trial.pace import Outlook
from pgdyno.workloads.protocol import LoadReading

pytestmark = pytest.mark.requirement("R-REP-06")


def row(table: str, **values: float | str) -> SampleRow:
    return SampleRow(table, 5.0, tuple(values.get(name) for name in TABLES[table].column_names()[1:]))


ROWS = [
    row("cpu", usr_pct=30.0, sys_pct=10.0, irq_pct=2.0, idle_pct=58.0),
    row("memory", total_bytes=1000, available_bytes=250),
    row("disk", device="sda", r_per_s=10.0, w_per_s=5.0, rkb_per_s=100.0, wkb_per_s=900.0),
    row("disk", device="sdb", r_per_s=0.0, w_per_s=1.0, rkb_per_s=0.0, wkb_per_s=4.0),
    row("sessions", active=3),
]


class Board:
    def __init__(self, *, refuses: bool = False) -> None:
        self.shown: list[Live] = []
        self.cleared: list[str] = []
        self.asked = 0
        self.refuses = refuses

    def show(self, live: Live, points: Sequence[str]) -> None:
        self.asked += 1
        if self.refuses:
            raise StoreError("the store is gone")
        self.shown.append(Live.from_json(json.loads(live.to_text(points))))

    def clear(self, study_id: str) -> None:
        self.cleared.append(study_id)


class Heard:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(name)


class Still:
    def latest(self) -> list[SampleRow]:
        return ROWS


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)


@contextmanager
def recorder(board: Board, heard: Heard, **more: Any) -> Iterator[LiveRecorder]:
    with LiveRow(board, "s1", interval_s=0.01, **more) as row:  # type: ignore[arg-type]  # a double
        yield LiveRecorder(heard, row)  # type: ignore[arg-type]  # a double


def test_the_board_has_what_was_heard_and_the_display_hears_it_all() -> None:
    board, heard, now = Board(), Heard(), [100.0]
    spec = TrialSpec(BASELINE, Role.SEARCH, "spread", 1, 2)
    with recorder(board, heard, clock=lambda: now[0]) as live:
        live.trial_began(spec, 4, 77)
        live.guards([Indicator("disk", Colour.AMBER, "1 GB")])
        for elapsed in (0.2, 0.4, 1.3):
            now[0] = 100.0 + elapsed
            reading = LoadReading(now[0], 500.0, 1.0, 9.5, 100, 0)
            live.reading(elapsed, 6.0, reading, Still())  # type: ignore[arg-type]
        live.notice("a guard tripped")
        until(lambda: board.shown and board.shown[-1].notices)
        state = board.shown[-1]
        live.outlook(Outlook(Metric.SERVER_CPU, 4, 9, at_most=True, best=0.25, left_s=60.0))
        live.trial_ended(Trial(77, "s1", spec, TrialState.COMPLETE, Outcome(TrialState.COMPLETE, throughput=512.0)))
        until(lambda: board.shown[-1].best)
    assert (state.run, state.number, state.role, state.arm) == (77, 4, "search", "spread")
    assert (state.elapsed_s, state.duration_s) == (1.3, 6.0)
    assert [indicator.colour for indicator in state.indicators] == ["amber"]
    assert [round(point.t, 1) for point in state.points] == [100.2, 101.3]  # a point a second, however often it is told
    point = state.points[0]
    assert (point.tps, point.p99_ms, point.cpu_pct, point.memory_pct) == (500.0, 9.5, 42.0, 75.0)
    assert (point.iops, point.active) == (15.0, 3.0)
    last = board.shown[-1]
    assert (last.best, last.metric, last.place) == (0.25, "server_cpu_ms_per_tx", "4 of at most 9")
    assert last.left_s is not None
    assert 0 < last.left_s < 61
    assert board.cleared == ["s1"]
    assert heard.calls == ["trial_began", "guards", "reading", "reading", "reading", "notice", "outlook", "trial_ended"]


def test_a_point_becomes_text_once_however_often_the_board_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    board, now, made = Board(), [100.0], []
    to_text = LivePoint.to_text
    monkeypatch.setattr(LivePoint, "to_text", lambda point: made.append(point.t) or to_text(point))
    with recorder(board, Heard(), clock=lambda: now[0]) as live:
        for now[0] in (100.0, 101.0, 102.0):
            live.reading(now[0] - 100.0, 6.0, None, Still())  # type: ignore[arg-type]
        until(lambda: len([state for state in board.shown if len(state.points) == 3]) >= 3)
    assert made == [point.t for point in board.shown[-1].points] == [100.0, 101.0, 102.0]


def test_a_run_without_trials_says_how_far_it_is_with_a_point_a_second() -> None:
    board = Board()
    with recorder(board, Heard()) as live:
        live.row.phase("sending")
        for at in (100.0, 100.4, 101.1):
            live.row.progress(at - 100.0, 1.0, "70 of 100 statements sent")
            if live.row.is_due(at):
                live.row.add(LivePoint(at, tps=7.0))
        until(lambda: board.shown and len(board.shown[-1].points) == 2)
    state = board.shown[-1]
    assert (state.phase, state.place, state.run) == ("sending", "70 of 100 statements sent", None)
    assert (state.elapsed_s, state.duration_s) == (1.0, 1.0)
    assert [(point.t, point.tps) for point in state.points] == [(100.0, 7.0), (101.1, 7.0)]


def test_a_store_that_refuses_is_left_alone_and_the_study_goes_on() -> None:
    board, heard = Board(refuses=True), Heard()
    with recorder(board, heard) as live:
        until(lambda: board.asked)
        live.phase("load")
        time.sleep(0.1)
    assert board.asked == 1
    assert heard.calls == ["phase"]
    assert board.cleared == []


def test_what_the_host_does_not_tell_stays_unknown() -> None:
    point = latest_point([replace(ROWS[0], values=(None,) * len(ROWS[0].values))], 9.0)
    assert (point.cpu_pct, point.memory_pct, point.iops, point.disk_mb_per_s) == (None, None, None, None)


def test_a_whole_figure_is_written_without_a_point_and_read_back_the_same() -> None:
    point = LivePoint(1_700_000_000.04, 30_000.2, p99_ms=1.23456, active=32.0).shortened()
    assert repr((point.tps, point.p99_ms, point.active)) == "(30000, 1.2346, 32)"
    assert point == LivePoint(1_700_000_000.0, 30_000.0, p99_ms=1.2346, active=32.0)


def test_the_board_is_written_at_once_then_each_second_and_ten_seconds_after_it_refused() -> None:
    board, pauses = Board(), []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        board.refuses = len(pauses) == 2
        return len(pauses) == 5

    row = LiveRow(board, "s1", clock=lambda: 1000.0)  # type: ignore[arg-type]  # a double
    row._stopping = SimpleNamespace(wait=wait)  # type: ignore[assignment]  # it waits for nothing
    for number in range(25):
        row.notice(str(number))
    for number in range(305):
        row.add(LivePoint(float(number)))
    row.ends_at = 990.0
    row._run()
    assert pauses == [0.0, 1.0, 10.0, 1.0, 1.0]
    last = board.shown[-1]
    assert [notice.text for notice in last.notices] == [str(number) for number in range(5, 25)]
    assert [point.t for point in last.points] == [float(number) for number in range(5, 305)], "five minutes"
    assert last.left_s == 0.0, "it takes longer than was thought"
    assert board.cleared == ["s1"]
