"""What the dashboard is told of a replay that runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pgdyno.model.live import Live, LivePoint, LiveReplay
from pgdyno.model.replay_comparison import Lateness
from pgdyno.report.sections import Block, FactList, TableBlock
from pgdyno.studies.replay.blocks import blocks_under_way
from pgdyno.studies.replay.board import DueTenth, LatestAnswers, ReplayProgress, words_of
from pgdyno.studies.replay.kind import KIND
from pgdyno.trace.engine.records import Skip
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.outcome import DTYPE


class Row:
    def __init__(self) -> None:
        self.told: list[tuple[float, float, str]] = []
        self.points: list[LivePoint] = []
        self.states: list[LiveReplay] = []
        self.ends_at: float | None = None

    def put(self, *, replay: LiveReplay, phase: str) -> None:
        assert phase == ("sending" if replay.paused_s is None else "paused")
        self.states.append(replay)

    def progress(self, elapsed_s: float, duration_s: float, place: str) -> None:
        self.told.append((elapsed_s, duration_s, place))

    def is_due(self, now: float) -> bool:
        return now == int(now)

    def add(self, point: LivePoint) -> None:
        self.points.append(point)


@pytest.mark.parametrize(("at_s", "due"), [(-1.0, 0), (0.04, 0), (0.05, 10), (0.14, 10), (0.15, 15), (99.0, 18)])
def test_statements_are_due_by_the_tenth_and_the_speed(at_s: float, due: int) -> None:
    progress = ReplayProgress(Row(), {0: DueTenth(10), 2: DueTenth(5), 7: DueTenth(3)}, speed=2.0, seconds=4.0)  # type: ignore[arg-type]
    assert f"of 18 statements sent, {due} due;" in words_of(progress.state(RunTally(at_us=int(at_s * 1e6))))


def test_a_pause_is_said_first_and_takes_no_time_of_the_schedule() -> None:
    row = Row()
    progress = ReplayProgress(row, {0: DueTenth(10), 2: DueTenth(5)}, speed=1.0, seconds=1.0)  # type: ignore[arg-type]
    progress.tell(RunTally(at_us=5_200_000, sent=10, pauses=[[200_000, -1, 2]]), 100.0)
    progress.tell(RunTally(at_us=5_200_000, sent=10, pauses=[[200_000, 5_000_000, 0]]), 101.0)
    (before, _, paused), (after, _, going) = row.told
    assert (before, after) == (pytest.approx(0.2), pytest.approx(0.4))
    assert paused.startswith(
        "paused for 5.0 s, 2 sessions are still at a statement or in a transaction; 10 of 15 statements sent, 10 due"
    )
    assert going.startswith("10 of 15 statements sent, 15 due")
    assert [(one.paused_s, one.busy) for one in row.states] == [(5.0, 2), (None, 0)]


def test_the_time_left_stands_still_in_a_pause_and_is_none_after_the_schedule() -> None:
    row = Row()
    progress = ReplayProgress(row, {}, speed=1.0, seconds=4.0)  # type: ignore[arg-type]
    left = []
    for at_us, pauses in (
        (-500_000, []), (1_000_000, []), (1_500_000, [[1_000_000, -1, 0]]), (9_000_000, [[1_000_000, -1, 0]]),
        (9_500_000, [[1_000_000, 9_000_000, 0]]), (30_000_000, [[1_000_000, 9_000_000, 0]]),
    ):  # fmt: skip
        progress.tell(RunTally(at_us=at_us, pauses=pauses), 50.5)
        assert row.ends_at is not None
        left.append(row.ends_at - 50.5)
    assert left == [4.0, 3.0, 3.0, 3.0, 2.5, 0.0]


def test_rates_are_of_the_time_between_two_tellings() -> None:
    row = Row()
    progress = ReplayProgress(row, {0: DueTenth(100)}, speed=1.0, seconds=1.0)  # type: ignore[arg-type]
    progress.tell(RunTally(at_us=-500_000), 99.0)
    progress.tell(RunTally(at_us=200_000, sent=30, done=20, late_us=1500, errors=2), 100.0)
    progress.tell(RunTally(at_us=400_000, sent=50, done=45, late_us=1500, errors=2), 100.5)
    progress.tell(RunTally(at_us=600_000, sent=70, done=60, late_us=1500, errors=2), 101.0)
    assert [point.tps for point in row.points] == [None, pytest.approx(100), pytest.approx(100)]
    assert row.told[-1] == (
        0.6, 1.0, "70 of 100 statements sent, 100 due; 2 answered differently; the injector at most 1.5 ms late"
    )  # fmt: skip


def test_answers_stand_beside_the_captured_times_of_what_was_due(tmp_path: Path) -> None:
    row, file = Row(), tmp_path / "records"
    rows = np.zeros(5, DTYPE)
    rows["due_us"], rows["done_us"], rows["bytes"] = 1000, [3000, 5000, 9000, -1, 9000], [9, 9, 9, 9, 0]
    rows["skip"][2] = Skip.REFUSED
    file.write_bytes(rows.tobytes())
    due = {0: DueTenth(10, 40_000, 8), 1: DueTenth(10, 20_000, 8), 5: DueTenth(9)}
    latest = LatestAnswers([file])
    progress = ReplayProgress(row, due, speed=1.0, seconds=1.0, latest=latest)  # type: ignore[arg-type]
    for at, now in ((100_000, 100.0), (150_000, 101.0)):
        progress.tell(RunTally(at_us=at), now)
    assert [point.p99_ms for point in row.points] == [pytest.approx(3.98), None]
    assert "took 3.0 ms from their due moments, captured 5.0 ms" in row.told[-1][2]
    file.write_bytes(rows.tobytes() + rows[1:2].tobytes())
    for at, now in ((600_000, 102.0), (600_000, 102.5)):
        progress.tell(RunTally(at_us=at), now)
    assert "took 4.0 ms from their due moments, captured 2.5 ms" in row.told[-1][2]


def test_answers_that_differ_are_told_by_class(tmp_path: Path) -> None:
    row, file, rows = Row(), tmp_path / "records", np.zeros(6, DTYPE)
    rows["bytes"], rows["sqlstate"] = 9, [b"23505", b"", b"40P01", b"22012", b"", b"42P01"]
    rows["expected"], rows["skip"][5] = [b"", b"22012", b"23505", b"22012", b"", b""], Skip.RUN_ENDED
    file.write_bytes(rows.tobytes())
    latest = LatestAnswers([file])
    progress = ReplayProgress(row, {}, speed=1.0, seconds=1.0, latest=latest)  # type: ignore[arg-type]
    for now in (100.0, 101.0):
        progress.tell(RunTally(at_us=1, errors=3), now)
    assert "3 answered differently (on file: 1 new, 1 missing, 1 changed);" in row.told[-1][2]
    counts = {"success": 1, "expected": 1, "new": 1, "missing": 1, "changed": 1, "skipped": 1}
    assert row.states[-1].answers == counts
    _, table = [one.table for one in blocks_under_way(row.states[-1]) if isinstance(one, TableBlock)]
    assert [(name, count) for name, _, count, _ in table.rows] == [(name, "1") for name in counts]


def test_lateness_is_that_of_all_so_far_by_who_caused_it(tmp_path: Path) -> None:
    file, rows = tmp_path / "records", np.zeros(101, DTYPE)
    rows["bytes"], rows["injector_us"], rows["server_us"] = 9, [*range(100), 1000], 7
    rows["bytes"][0], rows["gate_us"][0] = 0, 10**6  # a connect, which is nobody's lateness
    file.write_bytes(rows[:50].tobytes())
    latest = LatestAnswers([file])
    assert latest.lateness == ()
    latest.take()
    largest = [(one.part, one.largest) for one in latest.lateness]
    assert largest == [("injector", 0.049), ("gate", 0.0), ("server", 0.007)]
    file.write_bytes(rows.tobytes())
    latest.take()
    assert latest.ended == 100
    assert latest.lateness == (
        Lateness("injector", 0.05, 0.099, 1.0),
        Lateness("gate", 0.0, 0.0, 0.0),
        Lateness("server", 0.007, 0.007, 0.007),
    )


def test_a_page_shows_of_a_run_what_the_row_on_the_board_says() -> None:
    state = LiveReplay(100, 72, 70, 66, 2, 1.5, {"success": 64, "new": 2}, (Lateness("injector", 0.01, 0.2, 1.5),), 3.0)
    row = Live.from_json(Live("r", 1.0, 1.0, "h", 1, replay=state).to_json())
    assert row.replay == state
    facts, late, answers = KIND.under_way(row)
    assert isinstance(facts, FactList)
    assert dict(facts.rows) == {
        "due": "72 of 100 statements",
        "sent": "70",
        "answered": "66; 2 answers are not the captured ones",
        "response time": "3.0 ms from the due moment, captured unknown: means of the last answers",
        "pause": "none at present",
    }
    assert _rows(late) == [("injector", "0.010", "0.200", "1.500")]
    assert _rows(answers) == [
        ("success", "success, as in the capture", "64", "96.97 %"),
        ("new", "an error where the capture has none", "2", "3.03 %"),
    ]
    assert KIND.under_way(Live("r", 1.0, 1.0, "h", 1)) == (), "it makes its tape"


def _rows(block: Block) -> list[tuple[str, ...]]:
    assert isinstance(block, TableBlock)
    return list(block.table.rows)


def test_a_trace_without_statements_is_told_too() -> None:
    progress = ReplayProgress(Row(), {}, speed=1.0, seconds=0.0)  # type: ignore[arg-type]
    assert words_of(progress.state(RunTally())).startswith("0 of 0")
