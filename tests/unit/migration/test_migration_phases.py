"""Phases of a rehearsal: what runs beside what, what a killed run leaves, and that nothing is done twice. No server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable, Halted
from pgdyno.migration.journal import RehearsalJournal, read_journal
from pgdyno.migration.mover import ItemWatch, MoveItem, PhaseStep
from pgdyno.migration.movers.dump_restore import DumpRestore
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.migration.plan import MigrationPlan, PlannedPhase, PlannedReplay, all_steps
from pgdyno.migration.rehearsing import Halt, run_phases
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, MigrationPhase, ReplayedLoad
from pgdyno.model.shapes import shaped
from pgdyno.studies.migrate.replaying import CUT_SHORT, replay_phase
from pgdyno.studies.migrate.timing import item_timings, path_of, phase_timings, total_of
from pgdyno.studies.migrate.works import OneWork

P = MigrationPhase
PLAN = MigrationPlan(name="shop", source="dbname=shop", folder="/srv/x", database="shop")
CHAIN = (PhaseStep(P.EXPORT), PhaseStep(P.IMPORT, (P.EXPORT,)), PhaseStep(P.INDEXES, (P.IMPORT,)))


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the code sees it."""


@dataclass
class Work:
    """A phase of items that a world outside keeps: what was done there stays, whatever becomes of the process."""

    keys: tuple[str, ...]
    world: list[str]
    do: Callable[[str], None] = lambda _: None
    lasts: bool = True
    asked: list[str] = field(default_factory=list)

    def items(self) -> tuple[MoveItem, ...]:
        return tuple(MoveItem(key, "table", 100) for key in self.keys)

    def is_done(self, item: MoveItem) -> bool:
        self.asked.append(item.key)
        return item.key in self.world

    def run(self, items: tuple[MoveItem, ...], watch: ItemWatch) -> None:
        def work(item: MoveItem) -> bool:
            self.do(item.key)
            self.world.append(item.key)
            return True

        in_pool(items, 1, work, lambda: "", watch)


def nothing() -> str:
    return ""


def rehearse(
    folder: Path,
    works: dict[P, Work],
    steps: tuple[PhaseStep, ...] = CHAIN,
    asked: Callable[[], str] = nothing,
    tell: Callable[[str], None] = lambda _: None,
) -> str:
    halt = Halt(asked)
    journal = RehearsalJournal(folder)
    try:
        return run_phases(
            steps, works, journal, halt=halt, interrupt=halt.interrupted.set,
            sleep=lambda _: threading.Event().wait(0.001), tell=tell,
        )  # fmt: skip
    finally:
        journal.close()


@pytest.mark.requirement("R-MIG-01")
def test_phases_come_one_after_another_and_have_times_that_add_up(tmp_path: Path) -> None:
    world: list[str] = []
    works = {P.EXPORT: Work(("dump",), world), P.IMPORT: Work(("a", "b"), world), P.INDEXES: Work(("i",), world)}
    assert rehearse(tmp_path, works) == ""
    assert world == ["dump", "a", "b", "i"]
    state = read_journal(tmp_path)
    phases = phase_timings(PLAN, CHAIN, state, jobs=1)
    total = total_of(phases)
    assert total is not None
    result = MigrateResult(study="s", plan="shop", phases=phases)
    assert path_of(result).path == ("export", "import", "indexes")
    assert abs(path_of(result).end_s - total) < 1.0
    assert [one.item for one in item_timings(state)] == world
    assert phases[1].bytes == 200


def test_phases_that_wait_for_the_same_one_run_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2)
    steps = (PhaseStep(P.IMPORT), PhaseStep(P.SEQUENCES, (P.IMPORT,)), PhaseStep(P.INDEXES, (P.IMPORT,)))

    def meet(_: str) -> None:
        both.wait(60)  # neither gets past it alone

    world: list[str] = []
    works = {
        P.IMPORT: Work(("a",), world),
        P.SEQUENCES: Work(("s",), world, meet),
        P.INDEXES: Work(("i",), world, meet),
    }
    assert rehearse(tmp_path, works, steps) == ""
    timed = {one.phase: one for one in phase_timings(PLAN, steps, read_journal(tmp_path), jobs=1)}
    first, second = timed[P.SEQUENCES], timed[P.INDEXES]
    assert first.began_s is not None
    assert first.ended_s is not None
    assert second.began_s is not None
    assert second.ended_s is not None
    assert max(first.began_s, second.began_s) <= min(first.ended_s, second.ended_s)


@pytest.mark.requirement("R-MIG-03")
@pytest.mark.parametrize("done_in_the_world", [True, False])
def test_a_killed_run_goes_on_by_item_and_does_nothing_twice(tmp_path: Path, done_in_the_world: bool) -> None:
    """The kill comes while `b` is under way: the server had it, or had not, and the journal cannot know."""
    world: list[str] = []

    def die(key: str) -> None:
        if key == "b":
            if done_in_the_world:
                world.append("b")
            raise Killed

    works = {P.EXPORT: Work(("dump",), world), P.IMPORT: Work(("a", "b", "c"), world, die), P.INDEXES: Work((), world)}
    with pytest.raises(Killed):
        rehearse(tmp_path, works)
    again = {one: Work(work.keys, world) for one, work in works.items()}
    assert rehearse(tmp_path, again) == ""
    assert sorted(world) == ["a", "b", "c", "dump"], "each once"
    assert again[P.IMPORT].asked == ["b"], "what was noted is not asked for, what was never begun neither"
    state = read_journal(tmp_path)
    assert state.attempts == 2
    attempts = {one.item: one.attempt for one in item_timings(state)}
    assert attempts["a"] == 1
    assert attempts["c"] == 2
    assert all(one.end is ItemEnd.DONE for one in item_timings(state))


def test_time_between_a_kill_and_the_resume_is_in_no_phase(tmp_path: Path) -> None:
    now, at = [1000.0], [0.0]
    first = RehearsalJournal(tmp_path, clock=lambda: at[0], now=lambda: now[0])
    first.phase(P.EXPORT, "began")
    at[0], now[0] = 30.0, 1030.0
    first.note("x", 1)
    first.close()
    at[0], now[0] = 500.0, 9030.0  # another process, whose clock has another beginning
    second = RehearsalJournal(tmp_path, clock=lambda: at[0], now=lambda: now[0])
    at[0], now[0] = 510.0, 9040.0
    second.phase(P.EXPORT, "ended")
    second.close()
    state = read_journal(tmp_path)
    assert (state.began[P.EXPORT], state.ended[P.EXPORT], state.paused_s) == (0.0, 40.0, 8000.0)


def test_a_line_that_a_kill_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    journal = RehearsalJournal(tmp_path)
    journal.phase(P.EXPORT, "began")
    journal.close()
    with (tmp_path / "rehearsal.jsonl").open("a") as file:
        file.write('{"what": "phase ended", "phase": "exp')
    assert read_journal(tmp_path).ended == {}
    again = RehearsalJournal(tmp_path)
    again.phase(P.EXPORT, "ended")
    again.close()
    state = read_journal(tmp_path)
    assert (state.attempts, [*state.ended]) == (2, [P.EXPORT]), "what comes after it is a line of its own"


def test_a_phase_that_fails_lets_nothing_begin_that_waits_for_it(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise EnvironmentUnsuitable("no room")

    world: list[str] = []
    works = {P.EXPORT: Work(("dump",), world), P.IMPORT: Work(("a", "b"), world, fail), P.INDEXES: Work(("i",), world)}
    assert rehearse(tmp_path, works) == "import failed: table a: no room"
    assert world == ["dump"]
    ends = {one.phase: one.end for one in phase_timings(PLAN, CHAIN, read_journal(tmp_path), jobs=1)}
    assert ends == {P.EXPORT: ItemEnd.DONE, P.IMPORT: ItemEnd.FAILED, P.INDEXES: ItemEnd.NOT_RUN}


def test_what_to_do_about_a_phase_that_failed_is_told(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise EnvironmentUnsuitable("no room", hint="Make some.")

    told = list[str]()
    works = {P.EXPORT: Work(("dump",), [], fail), P.IMPORT: Work((), []), P.INDEXES: Work((), [])}
    rehearse(tmp_path, works, tell=told.append)
    assert "export: Make some." in told

    def refused() -> ReplayedLoad:
        raise EnvironmentUnsuitable("it is the source", hint="Name another server.")

    (tmp_path / "replay").mkdir()
    replay_phase(RehearsalJournal(tmp_path / "replay"), refused, told.append)
    assert told[-1] == "replay: Name another server."


def test_an_item_that_fails_hands_on_what_to_do() -> None:
    def refuse(_: MoveItem) -> bool:
        raise EnvironmentUnsuitable("it was refused", detail="for a reason", hint="Do this.")

    watch: Any = SimpleNamespace(began=lambda _: None, failed=lambda *_: None)
    with pytest.raises(EnvironmentUnsuitable, match="table shop: it was refused") as caught:
        in_pool([MoveItem("shop", "table")], 1, refuse, lambda: "", watch)
    assert (caught.value.detail, caught.value.hint) == ("for a reason", "Do this.")


def test_settings_are_applied_again_by_a_resumed_run_until_they_are_put_back(tmp_path: Path) -> None:
    steps = (PhaseStep(P.CONFIGURATION), PhaseStep(P.IMPORT, (P.CONFIGURATION,)), PhaseStep(P.RUN_TIME, (P.IMPORT,)))
    world: list[str] = []

    def fail(_: str) -> None:
        raise EnvironmentUnsuitable("killed")

    def works(do: Callable[[str], None]) -> dict[P, Work]:
        return {P.CONFIGURATION: Work(("set",), world, lasts=False), P.IMPORT: Work(("a",), world, do),
                P.RUN_TIME: Work(("unset",), world)}  # fmt: skip

    rehearse(tmp_path, works(fail), steps)
    assert rehearse(tmp_path, works(lambda _: None), steps) == ""
    assert world == ["set", "set", "a", "unset"]
    rehearse(tmp_path, works(lambda _: None), steps)
    assert world == ["set", "set", "a", "unset"], "nothing is left to do"


def test_a_run_that_is_to_end_begins_no_other_phase(tmp_path: Path) -> None:
    world: list[str] = []
    works = {P.EXPORT: Work(("dump",), world), P.IMPORT: Work(("a",), world), P.INDEXES: Work((), world)}
    assert rehearse(tmp_path, works, asked=lambda: "the stop file" if world else "") == "the stop file"
    assert world == ["dump"]


def test_a_phase_that_was_ended_by_the_halt_has_not_failed_and_is_done_when_the_run_goes_on(tmp_path: Path) -> None:
    begun, steps = list[str](), (PhaseStep(P.VALIDATION),)

    def validate() -> None:
        begun.append("validate")
        if len(begun) == 1:
            raise Halted("the comparison was ended: the stop file")

    works: Any = {P.VALIDATION: OneWork("validate", validate)}
    assert rehearse(tmp_path, works, steps, lambda: "the stop file" if begun else "") == "the stop file"
    assert read_journal(tmp_path).failed == {}
    assert rehearse(tmp_path, works, steps) == ""
    assert begun == ["validate", "validate"]


@pytest.mark.requirement("R-MIG-01")
def test_the_phases_of_a_dump_wait_as_they_must() -> None:
    plan = MigrationPlan(name="x", source="", folder="/x", load={"max_wal_size": "2GB"},
                         phases={P.SEQUENCES: PlannedPhase(after=(P.INDEXES,))})  # fmt: skip
    steps = {one.phase: one for one in all_steps(plan, DumpRestore().steps({}))}
    assert steps[P.TRANSFER].left_out
    assert P.EXPORT in steps[P.STRUCTURES].after, "what is left out hands on for whom it would have waited"
    assert P.CONFIGURATION not in steps[P.EXPORT].after, "the source needs no setting of the target"
    assert P.CONFIGURATION in steps[P.IMPORT].after
    assert P.INDEXES in steps[P.SEQUENCES].after, "as the plan says"
    assert P.RUN_TIME in steps[P.VALIDATION].after, "validated with the settings that stay"
    assert P.CONSTRAINTS not in steps[P.STATISTICS].after
    transfer = {one.phase: one for one in DumpRestore().steps({"statistics": "transfer"})}
    assert P.CONSTRAINTS in transfer[P.STATISTICS].after, "some are of materialized views, which come with these"
    assert {P.EXPORT, P.IMPORT, P.INDEXES, P.CONSTRAINTS, P.STATISTICS, P.SEQUENCES} <= {*steps[P.RUN_TIME].after}


def test_a_replay_comes_last_and_no_total_counts_it(tmp_path: Path) -> None:
    plan = MigrationPlan(name="x", source="", folder="/x", replay=PlannedReplay("/t.parquet"))
    own = DumpRestore().steps({})
    steps = all_steps(plan, own)
    assert (steps[-1].phase, steps[-1].after) == (P.REPLAY, (P.VALIDATION, P.WAY_BACK))
    assert steps[:-1] == all_steps(MigrationPlan(name="x", source="", folder="/x"), own)
    journal = RehearsalJournal(tmp_path, clock=iter(float(one) for one in range(100)).__next__)
    for phase in (P.ASSESS, P.VALIDATION, P.REPLAY):
        journal.phase(phase, "began")
        journal.phase(phase, "ended")
    chain = (PhaseStep(P.ASSESS), PhaseStep(P.VALIDATION, (P.ASSESS,)), PhaseStep(P.REPLAY, (P.VALIDATION,)))
    phases = phase_timings(plan, chain, journal.state, 1)
    assert all(one.seconds for one in phases)
    assert total_of(phases) == sum(one.seconds or 0.0 for one in phases[:2]) + 1.0, "and the second between the two"
    assert P.REPLAY not in path_of(MigrateResult(study="s", plan="x", phases=phases)).path


def test_a_replay_is_sent_once_whatever_ended_it(tmp_path: Path) -> None:
    load = ReplayedLoad(study="r", trace="/t", speed=1.0, sent=10, unlike=0, unlike_limit_percent=1.0)
    calls = list[str]()

    def sent() -> ReplayedLoad:
        calls.append("sent")
        return load

    def killed() -> ReplayedLoad:
        raise Killed

    (tmp_path / "a").mkdir()
    replay_phase(RehearsalJournal(tmp_path / "a"), sent, lambda _text: None)
    replay_phase(RehearsalJournal(tmp_path / "a"), sent, lambda _text: None)
    state = read_journal(tmp_path / "a")
    assert (calls, state.is_over(P.REPLAY)) == (["sent"], True)
    assert shaped(ReplayedLoad, state.notes["replay"], "journal") == load

    (tmp_path / "b").mkdir()
    with pytest.raises(Killed):
        replay_phase(RehearsalJournal(tmp_path / "b"), killed, lambda _text: None)
    replay_phase(RehearsalJournal(tmp_path / "b"), sent, lambda _text: None)
    assert (calls, read_journal(tmp_path / "b").failed) == (["sent"], {P.REPLAY: CUT_SHORT})


def test_a_replay_that_is_refused_fails_its_phase_and_nothing_else(tmp_path: Path) -> None:
    def refused() -> ReplayedLoad:
        raise EnvironmentUnsuitable("no room")

    replay_phase(RehearsalJournal(tmp_path), refused, lambda _text: None)
    assert read_journal(tmp_path).failed == {P.REPLAY: "no room"}
