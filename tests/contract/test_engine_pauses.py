"""What every engine must keep when its run is paused: nothing new is begun, and every later moment shifts alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine_tapes import connect, database_and_role, leave, one, run_tape, send, write_tape
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.plan import Clock, EndPoint, EnginePlan
from pgdyno.trace.engine.records import Skip
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engines import PYTHON
from pgdyno.trace.outcome import Records
from pgdyno.trace.tape_writer import TapeRecord

pytestmark = pytest.mark.pg


class Paused:
    """A run that is paused from when one condition holds until another does; both are asked at each telling."""

    def __init__(self, begin: Callable[[RunTally], bool], end: Callable[[RunTally], bool]) -> None:
        self._begin, self._end = begin, end
        self.forget()

    def forget(self) -> None:
        self.has_begun = self.has_ended = False
        self.most_open = 0

    def watch(self, told: RunTally) -> bool:
        if told.pauses:
            self.most_open = max(self.most_open, told.pauses[-1][2])
        self.has_begun = self.has_begun or self._begin(told)
        self.has_ended = self.has_ended or (bool(told.pauses) and self._end(told))
        return False

    def lasts(self) -> bool:
        return self.has_begun and not self.has_ended


class PauseStage:
    """A server and an engine."""

    def __init__(self, sandbox: Sandbox, program: Sequence[str], tape: Path) -> None:
        given = sandbox.target().postgres.parameters
        end_point = EndPoint(given["host"], int(given.get("port", 5432)))
        self.plan, self.program, self.tape = EnginePlan(-1, -1, end_point, starts_in_s=1.5), program, tape

    def run(
        self, plan: EnginePlan, paused: Paused, *records: TapeRecord, by_us: int, shards: int = 1
    ) -> tuple[RunTally, Records]:
        """Run a tape, once more where an engine heard of the pause after `by_us`: a busy machine may let it wait."""
        write_tape(self.tape, records)
        for _ in range(6):
            paused.forget()
            tally, found = run_tape(self.program, plan, self.tape, shards, paused.watch, paused.lasts)
            if tally.pauses and tally.pauses[0][0] < by_us:
                break
        return tally, found


@pytest.fixture(params=("python", "compiled"))
def stage(request: pytest.FixtureRequest, sandbox18: Sandbox, tmp_path: Path) -> Iterator[PauseStage]:
    program = PYTHON if request.param == "python" else (str(request.getfixturevalue("compiled_engine")),)
    with database_and_role(sandbox18.target().postgres):
        yield PauseStage(sandbox18, program, tmp_path / "x.tape")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_run_that_is_paused_from_the_begin_is_the_same_one_later(stage: PauseStage, shards: int) -> None:
    """The limit of time is of the schedule: a pause of more than three seconds does not use up three."""
    paused = Paused(lambda _: True, lambda told: told.at_us > 3_200_000)
    gated = send(1, wire.query("SELECT 1"), due=100_000, session=2, gates=[(0, 1)])
    tally, found = stage.run(
        replace(stage.plan, max_seconds=3.0), paused,
        connect(0), send(1, wire.query("SELECT 1"), due=200_000), leave(2, 0, 300_000),
        connect(1), send(1, wire.query("SELECT 1"), due=100_000, session=1), leave(2, 1, 300_000),
        connect(2), gated, leave(2, 2, 300_000),
        by_us=0, shards=shards,
    )  # fmt: skip
    assert (tally.ended, tally.sent, tally.errors, tally.is_paused) == ("complete", 3, 0, False)
    ((begin, end, count),) = tally.pauses
    assert begin < 0
    assert end > 3_000_000
    assert count == paused.most_open == 0
    shift = one(found, 0, 0)["due_us"]
    assert shift == end - begin or shards > 1, "two engines hear of it one after the other"
    for session in {0, 2}:
        dues = [one(found, session, seq)["due_us"] - shift for seq in range(3)]
        assert dues == [0, 100_000 if session else 200_000, 300_000]
    assert (found["sent_us"] >= found["due_us"]).all()
    assert one(found, 2, 1)["sent_us"] >= one(found, 0, 1)["done_us"]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_pause_of_the_time_before_the_begin_is_over_when_the_run_begins(stage: PauseStage, shards: int) -> None:
    """Told as one that lasts, it would shift what is displayed for good and be less than nothing in the result."""
    paused = Paused(lambda _: True, lambda _: True)
    tally, found = stage.run(
        stage.plan, paused,
        connect(0), send(1, wire.query("SELECT 1"), due=300_000), leave(2, 0, 300_000),
        connect(1), leave(1, 1, 300_000),
        by_us=0, shards=shards,
    )  # fmt: skip
    assert (tally.ended, tally.sent, tally.is_paused) == ("complete", 1, False)
    ((begin, end, count),) = tally.pauses
    assert begin < 0 <= end
    assert count == 0
    assert tally.schedule_us == tally.at_us - (end - begin)
    assert one(found, 0, 1)["due_us"] - 300_000 == end - begin or shards > 1


def test_an_open_transaction_ends_by_the_schedule_and_nothing_new_is_begun(stage: PauseStage) -> None:
    paused = Paused(lambda told: told.sent >= 1, lambda told: told.sent >= 3 and not told.pauses[-1][2])
    tally, found = stage.run(
        stage.plan, paused,
        connect(0),
        send(1, wire.query("BEGIN"), due=100_000),
        send(2, wire.query("SELECT 1/0"), due=1_500_000, expected="22012"),
        send(3, wire.query("COMMIT"), due=1_600_000),
        send(4, wire.query("SELECT 1"), due=1_700_000),
        leave(5, 0, 1_800_000),
        connect(1),
        send(1, wire.query("BEGIN"), due=1_550_000, session=1),
        send(2, wire.query("SELECT 1"), due=1_650_000, session=1),
        send(3, wire.query("COMMIT"), due=1_750_000, session=1),
        leave(4, 1, 1_800_000),
        by_us=1_500_000,
    )  # fmt: skip
    assert (tally.ended, tally.sent, tally.errors) == ("complete", 7, 0)
    ((begin, end, count),) = tally.pauses
    assert (count, paused.most_open) == (0, 1)
    shift = end - begin
    assert [one(found, 0, seq)["due_us"] for seq in (2, 3)] == [1_500_000, 1_600_000]
    assert one(found, 0, 3)["done_us"] <= end
    later = [one(found, *row) for row in ((0, 4), (0, 5), (1, 1), (1, 2), (1, 3), (1, 4))]
    dues = [row["due_us"] - shift for row in later]
    assert dues == [1_700_000, 1_800_000, 1_550_000, 1_650_000, 1_750_000, 1_800_000]
    for row in later:
        assert row["sent_us"] >= end
        assert row["injector_us"] + row["gate_us"] + row["server_us"] == row["sent_us"] - row["due_us"]


@pytest.mark.parametrize("clock", list(Clock))
def test_an_answer_that_comes_in_a_pause_is_no_lateness_of_ours(stage: PauseStage, clock: Clock) -> None:
    """A user's pause begins when the run goes on; what is behind by the schedule stays the server's lateness."""
    paused = Paused(lambda told: told.sent >= 1, lambda told: not told.pauses[-1][2] and told.at_us > 2_700_000)
    tally, found = stage.run(
        replace(stage.plan, clock=clock), paused,
        connect(),
        send(1, wire.query("SELECT pg_sleep(2)"), due=20_000, think_us=20_000),
        send(2, wire.query("SELECT 1"), due=20_000, think_us=200_000),
        leave(3, 0, 20_000),
        by_us=2_000_000,
    )  # fmt: skip
    ((begin, end, _),) = tally.pauses
    assert paused.most_open == 1
    slow, after = one(found, 0, 1), one(found, 0, 2)
    assert begin < slow["done_us"] <= end
    assert after["sent_us"] >= end
    if clock is Clock.THINK:
        assert (after["due_us"], after["server_us"]) == (end + 200_000, 0)
    else:
        assert after["due_us"] == 20_000 + end - begin
        assert after["server_us"] + after["injector_us"] == after["sent_us"] - after["due_us"]
        assert 0 < after["server_us"] <= begin - 20_000
        assert after["injector_us"] < end - slow["done_us"], "what was left of the pause is nobody's lateness"


def test_a_pause_that_lasts_to_the_end_of_the_run_is_told(stage: PauseStage) -> None:
    paused = Paused(lambda told: told.sent >= 1, lambda _: False)
    stopping = 0

    def watch(told: RunTally) -> bool:
        nonlocal stopping
        paused.watch(told)
        stopping += bool(told.pauses)
        return stopping > 2

    write_tape(stage.tape, [connect(), send(1, wire.query("BEGIN"), due=100_000), leave(2, 0, 60_000_000)])
    tally, found = run_tape(stage.program, stage.plan, stage.tape, 1, watch, paused.lasts)
    assert tally.ended == "SIGTERM"
    ((begin, end, count),) = tally.pauses
    assert begin < end <= tally.at_us
    assert count == 1, "its transaction is open"
    assert set(found["skip"]) == {Skip.SENT}
