"""What the queue must do on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.job import JobState
from pgdyno.store.catalogue import Store
from pgdyno.store.queue import ABANDONED, Queue

pytestmark = pytest.mark.requirement("R-EXP-09")
WORDS = ["tune", "-w", "ybio", "--report", "é n.html"]


@pytest.fixture
def url(new_store: Callable[[], str]) -> str:
    return new_store()


@pytest.fixture
def queue(url: str) -> Iterator[Queue]:
    with Store.open(url) as store:
        yield Queue(store)


def test_a_job_comes_back_as_it_was_added(queue: Queue) -> None:
    job = queue.add(WORDS, host="a", folder="/srv", at=12.5)
    assert queue.job(job.id) == job
    assert (job.argv, job.host, job.folder, job.added_at) == (tuple(WORDS), "a", "/srv", 12.5)
    assert (job.state, job.attempts, job.runner, job.study) == (JobState.WAITING, 0, None, None)


def test_jobs_are_taken_in_their_order_and_on_their_host_only(queue: Queue) -> None:
    first = queue.add(WORDS, host="a", folder="/", at=1.0)
    other = queue.add(WORDS, host="b", folder="/", at=2.0)
    last = queue.add(WORDS, host="a", folder="/", at=3.0)
    taken = [queue.claim(host="a", runner="a:1", at=9.0) for _ in range(3)]
    assert [job.id if job else None for job in taken] == [first.id, last.id, None]
    assert queue.job(other.id).state is JobState.WAITING
    running = queue.job(first.id)
    assert (running.state, running.attempts, running.runner, running.began_at) == (JobState.RUNNING, 1, "a:1", 9.0)
    assert [job.id for job in queue.jobs(host="b")] == [other.id]


def test_a_job_that_runs_does_not_say_why_it_once_did_not(queue: Queue) -> None:
    job = queue.add(WORDS, host="a", folder="/", at=1.0)
    queue.claim(host="a", runner="a:1", at=2.0)
    assert queue.put_back(job.id, reason="not begun: foreign CPU").reason == "not begun: foreign CPU"
    taken = queue.claim(host="a", runner="a:1", at=3.0)
    assert taken is not None
    assert taken.reason is None


def test_two_runners_never_take_the_same_job(url: str) -> None:
    with Store.open(url) as store:
        ids = {Queue(store).add(WORDS, host="a", folder="/", at=0.0).id for _ in range(12)}

    def take(runner: int) -> list[int]:
        taken = []
        with Store.open(url) as mine:
            while (job := Queue(mine).claim(host="a", runner=f"a:{runner}", at=1.0)) is not None:
                taken.append(job.id)
        return taken

    with ThreadPoolExecutor(4) as pool:
        found = [job for taken in pool.map(take, range(4)) for job in taken]
    assert sorted(found) == sorted(ids)


def test_a_claim_is_put_back_without_counting(queue: Queue) -> None:
    job = queue.add(WORDS, host="a", folder="/", at=0.0)
    queue.claim(host="a", runner="r", at=1.0)
    back = queue.put_back(job.id, reason="noisy")
    assert (back.state, back.attempts, back.reason, back.runner) == (JobState.WAITING, 0, "noisy", None)
    assert queue.claim(host="a", runner="r", at=2.0, but=[job.id]) is None


def test_how_a_job_ended_is_kept_and_said_once(queue: Queue) -> None:
    job = queue.add(WORDS, host="a", folder="/", at=0.0)
    with pytest.raises(StoreError, match="not running"):
        queue.end(job.id, JobState.DONE, at=1.0)
    queue.claim(host="a", runner="r", at=1.0)
    ended = queue.end(job.id, JobState.DONE, at=5.0, exit_code=3, study="s1", reason="why")
    kept = (ended.state, ended.ended_at, ended.exit_code, ended.study, ended.reason, ended.runner)
    assert kept == (JobState.DONE, 5.0, 3, "s1", "why", None)
    with pytest.raises(StoreError):
        queue.end(job.id, JobState.FAILED, at=6.0)


def test_only_waiting_jobs_are_removed(queue: Queue) -> None:
    job = queue.add(WORDS, host="a", folder="/", at=0.0)
    queue.claim(host="a", runner="r", at=1.0)
    with pytest.raises(UsageError, match="is running"):
        queue.remove(job.id)
    queue.end(job.id, JobState.INTERRUPTED, at=2.0)
    assert queue.remove(job.id).state is JobState.REMOVED
    with pytest.raises(UsageError, match="is removed"):
        queue.remove(job.id)
    with pytest.raises(UsageError, match="not in the queue"):
        queue.remove(job.id + 1)
    assert queue.claim(host="a", runner="r", at=3.0) is None


def test_the_jobs_of_a_killed_runner_are_recovered_on_their_host(queue: Queue) -> None:
    mine = queue.add(WORDS, host="a", folder="/", at=0.0)
    theirs = queue.add(WORDS, host="b", folder="/", at=0.0)
    queue.claim(host="a", runner="a:1", at=1.0)
    queue.claim(host="b", runner="b:1", at=1.0)
    (left,) = queue.recover(host="a", at=2.0)
    assert (left.id, left.state, left.reason) == (mine.id, JobState.INTERRUPTED, ABANDONED)
    assert queue.job(theirs.id).state is JobState.RUNNING
    queue.keep_study(mine.id, "s9")
    assert queue.job(mine.id).study == "s9"
