"""The schedule of the sampler, its tolerance and its progress texts, without a server."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.linux.cpu import ServerCpu
from pgdyno.linux.host_texts import FILES
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.owner.runner import LocalRunner
from pgdyno.probes.latest import latest_text
from pgdyno.probes.sampler import Sampler, next_due
from pgdyno.server.postgres import Postgres
from pgdyno.store import sampled_rows
from pgdyno.targets.target import Target

NOWHERE = Postgres("host=/nonexistent/socket connect_timeout=2")
TARGET = Target(
    "x", NOWHERE, LocalRunner(), None, Path("/nonexistent"), None, False, None, ServerCpu.unavailable("not here")
)


def sampler(**more: object) -> Sampler:
    return Sampler(TARGET, load_database="x", driver_pids=tuple, **more)  # type: ignore[arg-type]  # a test's kwargs


@given(st.floats(1e9, 2e9), st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_due_times_are_whole_multiples_and_not_too_near(now: float, interval: float) -> None:
    due = next_due(now, interval)
    assert due / interval == pytest.approx(round(due / interval), abs=1e-4)
    assert 0.2 * interval < due - now <= 1.26 * interval


class FakeTime:
    """A clock that moves when it is slept on; each tick costs what `costs` says."""

    def __init__(self, costs: dict[int, float]) -> None:
        self.now = 1000.4
        self.costs = costs
        self.ticks: list[float] = []
        self.done = threading.Event()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if len(self.ticks) >= 6:
            self.done.set()
            time.sleep(0.01)
            return
        self.now += seconds


def scheduled(costs: dict[int, float]) -> list[tuple[float, int]]:
    """Run the real loop on a fake clock and return when each tick began and how many were skipped before it."""
    fake = FakeTime(costs)
    made = sampler(clock=fake.clock, sleep=fake.sleep)
    taken: list[tuple[float, int]] = []

    def take(*, late_s: float = 0.0, skipped: int = 0) -> list[SampleRow]:
        taken.append((fake.now, skipped))
        fake.ticks.append(fake.now)
        fake.now += costs.get(len(taken), 0.01)
        return []

    made.take = take  # type: ignore[method-assign]  # the schedule is under test, not the readings
    made.start()
    assert fake.done.wait(10)
    made.stop()
    return [(round(t, 3), skipped) for t, skipped in taken]


def test_ticks_do_not_drift() -> None:
    assert scheduled({}) == [(1000.4, 0), (1001.0, 0), (1002.0, 0), (1003.0, 0), (1004.0, 0), (1005.0, 0)]


def test_a_slow_tick_makes_the_next_one_late_but_not_those_after_it() -> None:
    assert scheduled({3: 1.3})[2:5] == [(1002.0, 0), (1003.3, 0), (1004.0, 0)]


def test_ticks_that_were_missed_are_skipped_and_counted() -> None:
    assert scheduled({3: 3.5})[2:5] == [(1002.0, 0), (1005.5, 2), (1006.0, 0)]


def test_a_server_that_is_down_costs_only_its_own_tables() -> None:
    made = sampler(interval_s=0.05)
    made.start()
    time.sleep(0.3)
    began = time.monotonic()
    batch = made.stop()
    assert time.monotonic() - began < 5
    tables = {row.table for row in batch.rows}
    assert {"cpu", "memory", "observer"} <= tables
    assert not {"database", "sessions", "wal"} & tables
    told = [event for event in batch.events if event.text.startswith("server cannot be read")]
    assert len(told) == 1
    cpu = [
        dict(zip(TABLES["cpu"].column_names(), (r.t, *r.values), strict=True)) for r in batch.rows if r.table == "cpu"
    ]
    assert all(row["server_cpu_s"] is None and row["foreign_cpu_pct"] is None for row in cpu)
    assert batch.overhead.ticks == sum(row.table == "observer" for row in batch.rows) >= 3


def test_a_row_ends_where_a_load_does_however_near_the_last_tick() -> None:
    now = [1000.0]
    made = sampler(clock=lambda: now[0])
    made.mark()
    ends = []
    for now[0] in (1001.0, 1001.2, 1002.0):
        made.take() if now[0] == 1001.0 else made.mark()
        ends.append([(row.t, pytest.approx(row.values[0])) for row in made.stop().rows if row.table == "cpu"])
    assert ends == [[(1001.0, 1.0)], [(1001.2, 1.2)], [(1001.2, 1.2), (1002.0, 0.8)]]
    assert made.stop().overhead.ticks == 3


def test_the_kernels_files_stay_open_between_two_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, opened = sampler(), []
    kept.take()
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (opened.append(str(path)), real(path, *rest))[1])
    kept.take()
    assert not {f"/proc/{name}" for name in FILES} & set(opened)


def test_stop_may_be_called_twice_and_without_start() -> None:
    made = sampler()
    assert len(made.stop().rows) == 0
    assert len(made.stop().rows) == 0
    assert made.reading() == {}


def row(table: str, **values: float) -> SampleRow:
    return SampleRow(table, 1.0, tuple(values.get(name) for name in TABLES[table].column_names()[1:]))


def test_the_progress_line_shows_what_is_known() -> None:
    rows = [
        row("cpu", server_cpu_pct=142.6, foreign_cpu_pct=3.2, steal_pct=0.0),
        row("sessions", active=8, waiting=2),
        row("wal", bytes=2 * 2**20, interval_s=2.0),
    ]
    assert latest_text(rows) == {"server": "143 %", "foreign": "3 %", "active": "8 (2 waiting)", "wal": "1 MB/s"}


def test_the_rows_of_a_long_run_leave_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sampled_rows, "AT_ONCE", 20)
    now = [1000.0]
    made = sampler(clock=lambda: now[0], folder=tmp_path)
    for _ in range(60):
        now[0] += 1.0
        made.take()
    rows = made.stop().rows
    assert isinstance(rows, sampled_rows.SampledRows)
    assert len(rows.newest) < 20 + len(made.latest()) < 100 < len(rows)
    assert [row.t for row in rows.of("observer")] == [1001.0 + second for second in range(60)]
