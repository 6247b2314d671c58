"""The scheduler of a chain with a clock and jobs of its own: dependencies, places, retries, time-outs, cancellation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from batch_example import chain_of
from pgdyno.model.results.batch import CheckedResult, JobEnd, JobRun
from pgdyno.studies.batch.chain import Chain, ChainJob
from pgdyno.studies.batch.executing import JobFigures, execute
from pgdyno.studies.batch.schedule import AttemptEnd

GOOD = AttemptEnd(0, cpu_s=0.5)


@dataclass
class World:
    """A clock that only sleep moves, and jobs that end after so many seconds with what is said of each attempt."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, list[AttemptEnd]] = field(default_factory=dict)
    now: float = 100.0
    dies_s: float = 0.0
    """How long a job lives on that was told to end."""
    most: int = 0
    running: set[str] = field(default_factory=set)
    stopped: list[str] = field(default_factory=list)
    waited: list[tuple[str, int]] = field(default_factory=list)
    """Jobs whose end was waited for, and how many had been told to end by then."""
    order: list[str] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self, job: ChainJob, attempt: int) -> Attempt:
        self.running.add(job.key)
        self.order.append(job.key)
        self.most = max(self.most, len(self.running))
        ends = self.ends.get(job.key, [GOOD])
        return Attempt(self, job.key, self.now + self.seconds.get(job.key, 1.0), ends[min(attempt, len(ends)) - 1])

    def began(self, key: str) -> None:
        pass

    ended = began

    def look(self) -> None:
        pass

    def figures(self, key: str) -> JobFigures:
        return JobFigures(unknown={"rows": "nobody looked"})


@dataclass
class Attempt:
    world: World
    key: str
    until: float
    end: AttemptEnd

    def poll(self) -> AttemptEnd | None:
        if self.world.now < self.until:
            return None
        self.world.running.discard(self.key)
        return self.end

    def begin_stop(self) -> None:
        self.world.stopped.append(self.key)
        self.until, self.end = self.world.now + self.world.dies_s, AttemptEnd(-15)

    def stop(self) -> None:
        self.world.waited.append((self.key, len(self.world.stopped)))
        self.until = self.world.now


def run(chain: Chain, world: World, halt: Callable[[], str] = str) -> tuple[dict[str, JobRun], str]:
    runs, why = execute(chain, 1, world, world, clock=world.clock, sleep=world.sleep, halt=halt, tell=lambda text: None)
    return {one.key: one for one in runs}, why


def jobs_of(*lines: str, parallel: int = 4) -> Chain:
    """Make a chain of one process; each line is a name and further keys."""
    tables = "".join(
        f'[[process.job]]\nname = "{name}"\nargv = ["true"]\n{more.replace(";", chr(10))}\n'
        for name, _, more in (line.partition(" ") for line in lines)
    )
    head = f'version = 1\n[chain]\nname = "c"\nparallel = {parallel}\n[[process]]\nname = "p"\n'
    return chain_of(head + tables)


def test_a_job_begins_when_those_that_it_waits_for_are_over() -> None:
    world = World({"p/a": 3.0, "p/b": 5.0})
    found, why = run(jobs_of("a", "b", 'c after = ["a", "b"]'), world)
    assert why == ""
    assert {one.end for one in found.values()} == {JobEnd.SUCCEEDED}
    ended, began = found["p/b"].ended_s, found["p/c"].began_s
    assert ended is not None
    assert began is not None
    assert began >= ended
    assert found["p/a"].unknown == {"rows": "nobody looked"}
    assert found["p/a"].cpu_s == 0.5


def test_no_more_jobs_than_places_run() -> None:
    world = World()
    run(jobs_of("a", "b", "c", "d", "e", parallel=2), world)
    assert world.most == 2
    assert world.order == ["p/a", "p/b", "p/c", "p/d", "p/e"], "in the order of the file"


def test_the_calendar_holds_a_job_back() -> None:
    world = World()
    text = ('a start = "2026-10-30 22:00"', 'b start = "2026-10-30 22:02"')
    found, _ = run(jobs_of(*text), world)
    began = found["p/b"].began_s
    assert began is not None
    assert 120 <= began < 121


def test_what_fails_keeps_others_from_running_and_nothing_else() -> None:
    world = World(ends={"p/a": [AttemptEnd(3)]})
    found, _ = run(jobs_of("a", 'b after = ["a"]', 'c after = ["b"]', "d"), world)
    assert [found[f"p/{name}"].end for name in "abcd"] == [
        JobEnd.FAILED, JobEnd.NOT_RUN, JobEnd.NOT_RUN, JobEnd.SUCCEEDED,
    ]  # fmt: skip
    assert found["p/a"].code == 3
    assert found["p/b"].reason == "p/a: failed"
    assert "p/b" in found["p/c"].reason
    assert world.order == ["p/a", "p/d"]


def test_a_failed_job_is_tried_again_after_its_pause() -> None:
    world = World(ends={"p/a": [AttemptEnd(1, cpu_s=0.25), GOOD]})
    found, _ = run(jobs_of('a retries = 2;retry_wait = "30s"'), world)
    job = found["p/a"]
    assert (job.end, job.attempts) == (JobEnd.SUCCEEDED, 2)
    assert job.seconds is not None
    assert job.seconds >= 32, "the pause belongs to it"
    assert job.cpu_s == 0.75


def test_the_cpu_time_of_a_job_is_unknown_where_that_of_one_attempt_is() -> None:
    nothing = AttemptEnd(None, failed="no such program", cpu_s=0.0)
    world = World(ends={"p/a": [AttemptEnd(1), GOOD], "p/b": [nothing, GOOD]})
    found, _ = run(jobs_of("a retries = 2", "b retries = 2"), world)
    assert (found["p/a"].end, found["p/a"].cpu_s) == (JobEnd.SUCCEEDED, None)
    assert found["p/a"].unknown["cpu_s"] == "its programs ended unseen"
    assert found["p/b"].cpu_s == 0.5, "nothing ran in the first"


def test_a_job_that_takes_too_long_is_ended() -> None:
    world = World({"p/a": 1000.0})
    found, _ = run(jobs_of('a time_out = "5s"', "b"), world)
    assert (found["p/a"].end, world.stopped) == (JobEnd.TIMED_OUT, ["p/a"])
    assert found["p/a"].reason == "it took longer than 5 s"


def test_others_are_looked_at_while_a_job_that_takes_too_long_dies() -> None:
    world = World({"p/a": 1000.0, "p/b": 8.0}, dies_s=30.0)
    found, _ = run(jobs_of('a time_out = "5s"', "b"), world)
    assert (found["p/a"].end, world.stopped) == (JobEnd.TIMED_OUT, ["p/a"])
    assert found["p/b"].seconds == pytest.approx(8.0, abs=0.5)
    assert found["p/a"].seconds == pytest.approx(35.0, abs=0.5)


def test_what_somebody_cancelled_is_not_tried_again() -> None:
    world = World(ends={"p/a": [AttemptEnd(-15, cancelled="ended by signal 15")]})
    found, _ = run(jobs_of("a retries = 5"), world)
    assert (found["p/a"].end, found["p/a"].attempts) == (JobEnd.CANCELLED, 1)


def test_a_job_whose_check_fails_is_not_successful() -> None:
    bad = CheckedResult(check="public.t has 5 rows", found="4 rows", passed=False)
    unknown = CheckedResult(check="public.u has 5 rows", found="no such table", passed=None)
    world = World(ends={"p/a": [AttemptEnd(0, checks=(bad,))], "p/b": [AttemptEnd(0, checks=(unknown,))]})
    found, _ = run(jobs_of("a", "b", 'c after = ["a"]'), world)
    assert [found[f"p/{name}"].end for name in "abc"] == [JobEnd.CHECK_FAILED, JobEnd.CHECK_FAILED, JobEnd.NOT_RUN]
    assert found["p/a"].reason == "public.t has 5 rows: 4 rows"


def test_other_codes_can_be_success() -> None:
    found, _ = run(jobs_of("a success = [0, 4]"), World(ends={"p/a": [AttemptEnd(4)]}))
    assert found["p/a"].end is JobEnd.SUCCEEDED


def test_those_behind_a_skipped_job_wait_for_whom_it_would_have_waited() -> None:
    world = World({"p/a": 5.0})
    found, _ = run(jobs_of("a", 'b after = ["a"];skip = "no tape"', 'c after = ["b"]'), world)
    assert world.order == ["p/a", "p/c"]
    assert (found["p/c"].began_s or 0.0) >= 5.0
    broken, _ = run(
        jobs_of("a", 'b after = ["a"];skip = "no tape"', 'c after = ["b"]'), World(ends={"p/a": [AttemptEnd(1)]})
    )
    assert (broken["p/c"].end, broken["p/c"].reason) == (JobEnd.NOT_RUN, "p/a: failed")


def test_a_skipped_job_lets_others_go_on() -> None:
    found, _ = run(chain_of(), World())
    assert (found["close/mail"].end, found["close/mail"].reason) == (JobEnd.SKIPPED, "no mail server")
    assert found["close/sum"].end is JobEnd.SUCCEEDED


@pytest.mark.parametrize("parallel", [1, 4])
def test_the_end_of_the_execution_ends_what_runs(parallel: int) -> None:
    world = World({"p/a": 50.0, "p/b": 50.0})
    found, why = run(
        jobs_of("a", "b", "c", parallel=parallel), world, lambda: "the stop file" if world.now > 110 else ""
    )
    assert why == "the stop file"
    assert (found["p/a"].end, found["p/a"].reason) == (JobEnd.CANCELLED, "the stop file")
    left = found["p/b"]
    assert left.end is (JobEnd.CANCELLED if parallel > 1 else JobEnd.NOT_RUN)
    assert left.reason == "the stop file"
    assert not world.running, "nothing is left running"
    assert {told for _, told in world.waited} == {parallel if parallel == 1 else 2}, "they are waited for together"


def test_an_error_ends_what_runs() -> None:
    world = World({"p/a": 50.0})

    def halt() -> str:
        if world.now > 110:
            raise KeyboardInterrupt
        return ""

    with pytest.raises(KeyboardInterrupt):
        run(jobs_of("a"), world, halt)
    assert world.stopped == ["p/a"]
