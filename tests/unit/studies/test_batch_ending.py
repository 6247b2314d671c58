"""A job that is told to end, and what it started: both are gone before it counts as ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from batch_example import chain_of
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch.job_process import JobAttempt, JobStarter, run_program
from pgdyno.studies.batch.schedule import AttemptEnd


def ended_of(attempt: JobAttempt) -> AttemptEnd:
    """Return its end; a thread ends its sessions."""
    while (told := attempt.poll()) is None:
        time.sleep(0.01)
    return told


def test_a_server_that_hangs_keeps_no_other_job_from_being_told_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda *_: answers.wait())
    starter, job = JobStarter(Postgres(""), "d", tmp_path, {}), chain_of().jobs["load/fetch"]
    attempts = list[JobAttempt]()
    try:
        for name in ("1", "2"):
            process = run_program([sys.executable, "-c", "import signal; signal.pause()"], {}, tmp_path / name)
            attempts.append(JobAttempt(starter, job, process, "tag", tmp_path / name))
        for one in attempts:
            one.begin_stop()
        for one in attempts:
            assert one.process.wait(10.0) == -15
            assert one.poll() is None, "its sessions are not seen to be gone"
    finally:
        answers.set()
    assert [ended_of(one).code for one in attempts] == [-15, -15]


def test_a_server_that_hangs_once_a_job_is_gone_holds_up_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = list[str](), threading.Event()

    def end(_server: Postgres, tags: Iterable[str]) -> None:
        asked.extend(tags)
        if len(asked) > 1:
            answers.wait()

    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", end)
    process = run_program([sys.executable, "-c", "import signal; signal.pause()"], {}, tmp_path / "1")
    starter = JobStarter(Postgres(""), "d", tmp_path, {})
    attempt = JobAttempt(starter, chain_of().jobs["load/fetch"], process, "tag", tmp_path / "1")
    try:
        attempt.begin_stop()
        while not asked:  # the end of both is asked for at once where the first one was not yet
            time.sleep(0.01)
        assert process.wait(10.0) == -15
        while len(asked) < 2:
            assert attempt.poll() is None, "sessions that it has begun since are not seen to be gone"
    finally:
        answers.set()
    attempt.stop()
    assert attempt.poll() is not None
    assert asked == ["tag", "tag"]
    starter.close()


def test_a_job_that_is_told_to_end_twice_keeps_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda _server, tags: asked.extend(tags))
    process = run_program([sys.executable, "-c", "import signal; signal.pause()"], {}, tmp_path / "1")
    starter = JobStarter(Postgres(""), "d", tmp_path, {})
    attempt = JobAttempt(starter, chain_of().jobs["load/fetch"], process, "tag", tmp_path / "1")
    attempt.begin_stop()
    while not asked:
        time.sleep(0.01)
    kill_at_s = attempt.kill_at_s
    attempt.begin_stop()
    assert attempt.kill_at_s == kill_at_s
    attempt.stop()
    assert asked == ["tag", "tag"], "at once, and when it is gone"
    starter.close()


def test_checks_that_fill_their_threads_keep_no_session_from_being_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, over = list[str](), threading.Event()
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda _server, tags: ended.extend(tags))
    starter = JobStarter(Postgres(""), "d", tmp_path, {})
    process = run_program([sys.executable, "-c", ""], {}, tmp_path / "1")
    process.wait(10.0)
    attempt = JobAttempt(starter, chain_of().jobs["load/fetch"], process, "tag", tmp_path / "1")
    try:
        for _ in range(64):
            starter.pool.submit(over.wait)
        attempt.stop()
        assert ended == ["tag"]
    finally:
        over.set()
        starter.close()


def test_a_job_that_does_not_listen_is_killed_without_being_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    ended = list[str]()
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda _server, tags: ended.extend(tags))
    job = chain_of().jobs["load/fetch"]
    process = run_program([sys.executable, "-c", deaf], {}, tmp_path / "1")
    attempt = JobAttempt(JobStarter(Postgres(""), "d", tmp_path, {}), job, process, "tag", tmp_path / "1")
    try:
        while not (tmp_path / "1.out").read_text():
            process.wait(0.01)
        attempt.begin_stop()
        assert process.wait(0.2) is None
        assert attempt.poll() is None
        attempt.kill_at_s = 0.0
        assert attempt.poll() is None
        assert process.wait(10.0) == -9
        told = ended_of(attempt)
        assert (told.cancelled, ended) == ("ended by signal 9", ["tag", "tag"]), "it may have begun sessions since"
    finally:
        process.terminate()


LEAVES = """import os, signal, time
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(600)
signal.pause()
"""
"""A program that ends by SIGTERM, and its child, which does not."""


def is_gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" in status.read_text()


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_job_that_is_ended_has_started_ends_with_it(
    waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda *_: None)
    job = chain_of().jobs["load/fetch"]
    process = run_program([sys.executable, "-c", LEAVES], {}, tmp_path / "1")
    attempt = JobAttempt(JobStarter(Postgres(""), "d", tmp_path, {}), job, process, "tag", tmp_path / "1")
    try:
        while not (said := (tmp_path / "1.out").read_text()).endswith("\n"):
            process.wait(0.01)
        child = int(said)
        attempt.begin_stop()
        assert process.wait(10.0) == -15
        assert attempt.poll() is None, "its child lives"
        assert not is_gone(child)
        if waits:
            attempt.stop()
        attempt.kill_at_s = 0.0
        assert ended_of(attempt).cancelled == "ended by signal 15"
        while not is_gone(child):
            time.sleep(0.01)
    finally:
        process.kill_group()


def test_what_a_job_that_has_ended_left_is_meant_to_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.studies.batch.session_ender.end_sessions", lambda *_: None)
    job = chain_of().jobs["load/fetch"]
    process = run_program([sys.executable, "-c", LEAVES.replace("signal.pause()", "")], {}, tmp_path / "1")
    attempt = JobAttempt(JobStarter(Postgres(""), "d", tmp_path, {}), job, process, "tag", tmp_path / "1")
    try:
        while not (said := (tmp_path / "1.out").read_text()).endswith("\n") or process.poll() is None:
            process.wait(0.01)
        attempt.begin_stop()
        attempt.stop()
        process.terminate()
        assert attempt.poll() is not None
        assert not is_gone(int(said))
    finally:
        process.kill_group()


def test_what_a_command_that_is_ended_has_started_ends_with_it(tmp_path: Path) -> None:
    process = run_program([sys.executable, "-c", LEAVES], {}, tmp_path / "1")
    try:
        while not (said := (tmp_path / "1.out").read_text()).endswith("\n"):
            process.wait(0.01)
        process.terminate()
        assert process.exit_code == -15
        while not is_gone(int(said)):
            time.sleep(0.01)
    finally:
        process.kill_group()
