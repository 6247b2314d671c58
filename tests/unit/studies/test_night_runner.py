"""The night runner under a fake clock: what it starts, when it ends it, and what becomes of the jobs."""

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.model.job import JobState
from pgdyno.model.study import StudyState
from pgdyno.store.catalogue import Store
from pgdyno.store.queue import ABANDONED, Queue
from pgdyno.studies.night.runner import ATTEMPTS, HUNG_S, INTERRUPTED_CODE, NightPlan, NightRunner
from pgdyno.studies.night.window import NightWindow
from simulated_laboratory import simulated_study

pytestmark = pytest.mark.requirement("R-EXP-09")
UTC = ZoneInfo("UTC")
PLAN = NightPlan(NightWindow.parse("22:00-06:00", "UTC"), restore_s=120, shortest_s=600, retry_s=60)
SELDOM = replace(PLAN, retry_s=1800)
HOST = "db1"


def at(text):
    return datetime.fromisoformat(f"2026-01-{text}:00").replace(tzinfo=UTC).timestamp()


class Fake:
    """Clock, world and child in one: a job takes `takes` seconds and ends with `code`."""

    def __init__(self, now, *, takes=60.0, code=0, restores_s=5.0, disturbed_until=0.0, resumable=True):
        self.now, self.takes, self.code, self.restores_s = at(now), takes, code, restores_s
        self.disturbed_until, self.resumable = disturbed_until, resumable
        self.started, self.told, self.killed, self.left = [], [], [], {}
        self.refused, self.over = {}, []
        self._ends = 0.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def start(self, job, words):
        self.started.append((self.now, words))
        self._ends, self._code = self.now + self.takes, self.code
        return self

    def words(self, job, study):
        if study is None:
            return job.argv
        return ("tune", "--resume", study.id) if self.resumable else None

    def studies(self, job):
        return self.left.get(job.id, [])

    def refusal(self, job):
        return self.refused.get(job.id)

    def ended(self, job):
        self.over.append(job.id)

    def disturbance(self, job):
        return "foreign CPU is 99 % of a core" if self.now < self.disturbed_until else None

    def poll(self):
        return self._code if self.now >= self._ends else None

    def terminate(self):
        self.told.append(self.now)
        self._ends, self._code = self.now + self.restores_s, INTERRUPTED_CODE

    def kill(self):
        self.killed.append(self.now)
        self._ends, self._code = self.now, -9


@pytest.fixture
def queue(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        yield Queue(store)


def add(queue, count=1):
    return [queue.add(["tune", "-w", "ybio"], host=HOST, folder="/", at=0.0) for _ in range(count)]


def run(queue, world, *, plan=PLAN, once=True, until=None):
    said = []
    runner = NightRunner(
        queue, plan, world, host=HOST, name="db1:1", announce=said.append, clock=world.clock, sleep=world.sleep
    )
    return runner.run(once=once, until=until), said


@pytest.mark.parametrize("now", ["10T21:59", "10T06:00", "10T12:00"])
def test_a_closed_window_starts_nothing(queue, now):
    add(queue)
    world = Fake(now)
    nights, said = run(queue, world)
    assert nights == []
    assert world.started == []
    assert queue.jobs()[0].state is JobState.WAITING
    assert "nothing is started" in said[0]


def test_the_jobs_of_a_night_run_one_after_another(queue):
    add(queue, 3)
    world = Fake("10T23:00")
    ((night,), _) = run(queue, world)
    assert [job.state for job in night.jobs] == [JobState.DONE] * 3
    began = [moment for moment, _ in world.started]
    assert all(later - earlier >= 60 for earlier, later in pairwise(began))
    assert night.stopped == "no job waits"


def test_a_job_is_told_to_end_in_time_and_goes_on_the_next_night(queue):
    (job,) = add(queue)
    world = Fake("10T23:00", takes=10 * 3600)
    study = replace(simulated_study(), state=StudyState.INTERRUPTED, options={"job": job.id})
    world.left[job.id] = []
    begin = world.start
    world.start = lambda job, words: (world.left.update({job.id: [study]}), begin(job, words))[1]
    run(queue, world)
    assert world.told == [pytest.approx(at("11T05:58"), abs=1)]
    assert world.now < at("11T06:00")
    stopped = queue.job(job.id)
    assert (stopped.state, stopped.study, stopped.attempts) == (JobState.INTERRUPTED, study.id, 1)
    assert "continues in the next window" in stopped.reason
    world.now, world.takes = at("11T22:00"), 3600
    run(queue, world)
    assert world.started[1][1] == ("tune", "--resume", study.id)
    assert queue.job(job.id).state is JobState.DONE


def test_an_interrupted_job_goes_before_those_that_wait(queue):
    first, second = add(queue, 2)
    claimed = queue.claim(host=HOST, runner="x", at=0.0, but=[first.id])
    queue.end(claimed.id, JobState.INTERRUPTED, at=1.0)
    assert queue.claim(host=HOST, runner="y", at=2.0).id == second.id


def test_no_job_begins_when_too_little_is_left(queue):
    add(queue)
    world = Fake("10T05:49")
    ((night,), _) = run(queue, world)
    assert world.started == []
    assert "less than" in night.stopped


def test_a_job_that_cannot_go_on_is_given_up_after_a_few_nights(queue):
    (job,) = add(queue)
    world = Fake("10T23:00", takes=10 * 3600, resumable=False)
    for _ in range(ATTEMPTS):
        assert queue.job(job.id).state in (JobState.WAITING, JobState.INTERRUPTED)
        run(queue, world)
        world.now += 16 * 3600 + 1800
    ended = queue.job(job.id)
    assert ended.state is JobState.FAILED
    assert f"{ATTEMPTS} attempts" in ended.reason


@pytest.mark.requirement("R-EXP-10")
def test_it_waits_until_the_machine_is_quiet(queue):
    add(queue)
    world = Fake("10T23:00", disturbed_until=at("11T01:30"))
    ((night,), said) = run(queue, world)
    assert world.started[0][0] == pytest.approx(at("11T01:30"), abs=60)
    assert night.jobs[0].state is JobState.DONE
    assert any("99 % of a core" in line for line in said)


@pytest.mark.requirement("R-EXP-10")
def test_it_gives_up_with_the_reason_when_the_machine_is_never_quiet(queue):
    (job,) = add(queue)
    world = Fake("10T23:00", disturbed_until=at("12T00:00"))
    ((night,), _) = run(queue, world, plan=SELDOM)
    assert world.started == []
    assert night.code is ExitCode.UNSUITABLE
    waiting = queue.job(job.id)
    assert (waiting.state, waiting.attempts) == (JobState.WAITING, 0)
    assert "99 % of a core" in waiting.reason
    assert world.now < at("11T06:00")


@pytest.mark.parametrize(
    ("code", "state"),
    [(0, JobState.DONE), (1, JobState.DONE), (3, JobState.DONE), (2, JobState.FAILED), (4, JobState.FAILED),
     (6, JobState.INTERRUPTED), (INTERRUPTED_CODE, JobState.INTERRUPTED), (-9, JobState.INTERRUPTED)],
)  # fmt: skip
def test_what_the_exit_code_makes_of_a_job(queue, code, state):
    (job,) = add(queue)
    run(queue, Fake("10T23:00", code=code))
    ended = queue.job(job.id)
    assert (ended.state, ended.exit_code, ended.runner) == (state, code, None)


def test_a_server_that_could_not_be_put_back_ends_the_night_and_the_runner(queue):
    add(queue, 2)
    world = Fake("10T23:00", code=int(ExitCode.DAMAGED))
    ((night,), _) = run(queue, world, once=False)
    assert night.code is ExitCode.DAMAGED
    assert len(world.started) == 1
    assert queue.jobs()[1].state is JobState.WAITING


def test_the_job_of_a_killed_runner_is_taken_up_again(queue):
    (job,) = add(queue)
    queue.claim(host=HOST, runner="db1:99", at=0.0)
    world = Fake("10T12:00")
    study = replace(simulated_study(), state=StudyState.RUNNING)
    world.left[job.id] = [study]
    run(queue, world)
    left = queue.job(job.id)
    assert (left.state, left.reason, left.study) == (JobState.INTERRUPTED, ABANDONED, study.id)
    world.now = at("10T22:00")
    run(queue, world)
    assert world.started[0][1] == ("tune", "--resume", study.id)


def test_a_study_that_others_finished_is_neither_gone_on_with_nor_measured_again(queue):
    job, following = add(queue, 2)
    world = Fake("10T23:00")
    world.left[job.id] = [replace(simulated_study(), state=StudyState.COMPLETE)]
    run(queue, world)
    done = queue.job(job.id)
    assert (done.state, done.reason) == (JobState.DONE, "its study was finished outside of the queue")
    assert done.study == simulated_study().id
    assert [started[1] for started in world.started] == [following.argv]


def test_a_job_that_hangs_while_it_restores_is_killed_at_last(queue):
    add(queue)
    world = Fake("10T23:00", takes=10 * 3600, restores_s=1e9)
    run(queue, world)
    assert world.killed[0] - world.told[0] == pytest.approx(HUNG_S, abs=2)


def test_a_runner_that_is_told_to_end_lets_its_job_restore_first(queue):
    (job,) = add(queue)
    world = Fake("10T23:00", takes=3600)
    sleep = world.sleep

    def interrupted(seconds):
        if world.now > at("10T23:30") and not world.told:
            raise KeyboardInterrupt
        sleep(seconds)

    world.sleep = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(queue, world)
    assert world.told
    ended = queue.job(job.id)
    assert (ended.state, ended.exit_code) == (JobState.INTERRUPTED, INTERRUPTED_CODE)


def test_without_once_it_works_night_after_night_until_told(queue):
    add(queue)
    world = Fake("10T12:00", takes=20 * 3600, resumable=False)
    nights, _ = run(queue, world, once=False, until=at("12T12:00"))
    assert len(nights) == 2
    assert [datetime.fromtimestamp(moment, UTC).hour for moment, _ in world.started] == [22, 22]
    assert world.now >= at("12T12:00")


def test_until_shortens_the_window(queue):
    add(queue)
    world = Fake("10T23:00", takes=3600)
    run(queue, world, until=at("10T23:30"))
    assert world.told == [pytest.approx(at("10T23:28"), abs=1)]


@pytest.mark.requirement("R-EXP-10")
def test_a_job_whose_server_is_not_free_lets_the_others_go_first(queue):
    blocked, free = add(queue, 2)
    world = Fake("10T23:00")
    until = at("11T02:00")
    world.disturbance = lambda job: "cannot connect" if job.id == blocked.id and world.now < until else None
    ((night,), _) = run(queue, world, plan=SELDOM)
    assert world.started[0][0] == at("10T23:00")
    assert [job.id for job in night.jobs] == [free.id, blocked.id]
    assert world.started[1][0] == pytest.approx(until, abs=1800)
    assert queue.job(blocked.id).attempts == 1


@pytest.mark.requirement("R-EXP-10")
def test_a_server_that_is_never_free_is_named_and_the_other_jobs_are_done(queue):
    blocked, free = add(queue, 2)
    world = Fake("10T23:00")
    world.disturbance = lambda job: "cannot connect" if job.id == blocked.id else None
    ((night,), said) = run(queue, world, plan=SELDOM)
    assert queue.job(free.id).state is JobState.DONE
    waiting = queue.job(blocked.id)
    assert (waiting.state, waiting.attempts, waiting.reason) == (JobState.WAITING, 0, "not begun: cannot connect")
    assert (night.code, night.stopped) == (ExitCode.UNSUITABLE, f"job {blocked.id} was not begun: cannot connect")
    assert any("looked at again" in line for line in said)


@pytest.mark.parametrize(
    "error", [EnvironmentUnsuitable('folder "/gone" does not exist'), OSError(28, "No space left")]
)
def test_a_job_that_cannot_be_started_fails_alone(queue, error):
    broken, good = add(queue, 2)
    world = Fake("10T23:00")
    begin = world.start

    def start(job, words):
        if job.id == broken.id:
            raise error
        return begin(job, words)

    world.start = start
    ((night,), _) = run(queue, world)
    failed = queue.job(broken.id)
    assert (failed.state, failed.runner) == (JobState.FAILED, None)
    assert "could not be started" in failed.reason
    assert queue.job(good.id).state is JobState.DONE
    assert night.stopped == "no job waits"


def test_a_runner_that_is_ended_while_it_looks_leaves_no_job_running(queue):
    (job,) = add(queue)
    world = Fake("10T23:00")

    def ended(job):
        raise KeyboardInterrupt

    world.disturbance = ended
    with pytest.raises(KeyboardInterrupt):
        run(queue, world)
    left = queue.job(job.id)
    assert (left.state, left.attempts, left.runner) == (JobState.WAITING, 0, None)


def test_a_job_that_is_refused_stays_and_keeps_no_other_up(queue):
    foreign, ours = add(queue, 2)
    world = Fake("10T23:00")
    world.refused[foreign.id] = "this account did not add it"
    ((night,), said) = run(queue, world)
    assert [job.id for job in night.jobs] == [ours.id]
    assert ([job.id for job in night.refused], night.code) == ([foreign.id], ExitCode.UNSUITABLE)
    waiting = queue.job(foreign.id)
    assert (waiting.state, waiting.attempts) == (JobState.WAITING, 0)
    assert waiting.reason == "refused: this account did not add it"
    assert f"job {foreign.id} is refused: this account did not add it" in said
    assert world.over == [ours.id]


@pytest.mark.parametrize(("code", "is_over"), [(0, True), (2, True), (INTERRUPTED_CODE, False), (6, False)])
def test_what_has_ended_is_over_and_what_goes_on_is_not(queue, code, is_over):
    (job,) = add(queue)
    world = Fake("10T23:00", code=code)
    run(queue, world)
    assert world.over == ([job.id] if is_over else [])
