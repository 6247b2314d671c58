"""The end of jobs' sessions: asked for together, and a server that hangs is waited for once."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from pgdyno.errors import ConnectError
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch import session_ender
from pgdyno.studies.batch.session_ender import ANSWER_S, SessionEnder


class FrozenServer:
    """Answers once it is let to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = list[tuple[str, ...]]()
        self.is_asked, self.answers, self.refuses = threading.Event(), threading.Event(), False
        monkeypatch.setattr(session_ender, "end_sessions", self.end)

    def end(self, _: Postgres, tags: Iterable[str]) -> None:
        self.asked.append(tuple(tags))
        self.is_asked.set()
        self.answers.wait()
        if self.refuses:
            raise ConnectError("no session")


def test_a_frozen_server_is_waited_for_once_and_not_for_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    server, now = FrozenServer(monkeypatch), [100.0]
    ender = SessionEnder(Postgres(""), clock=lambda: now[0])
    requests = [ender.begin("a")]
    server.is_asked.wait()
    requests += [ender.begin("b"), ender.begin("c"), ender.begin("b")]
    assert not any(map(ender.is_over, requests))
    now[0] += ANSWER_S
    assert all(map(ender.is_over, requests))
    for one in (*requests, ender.begin("d")):
        ender.wait(one)  # it would hang
    server.answers.set()
    requests[-1].answered.wait()
    assert server.asked == [("a",), ("b", "c", "d")], "those that waited went in one statement"


def test_a_server_that_refused_after_its_time_is_waited_for_again_once_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, now = FrozenServer(monkeypatch), [100.0]
    ender = SessionEnder(Postgres(""), clock=lambda: now[0])
    first = ender.begin("a")
    now[0] += 2 * ANSWER_S
    server.refuses = True
    server.answers.set()
    first.answered.wait()
    server.refuses = False
    second = ender.begin("b")
    assert ender.is_over(second), "it is not waited for anew"
    second.answered.wait()
    server.answers.clear()
    third = ender.begin("c")
    assert not ender.is_over(third)
    server.answers.set()
    ender.wait(third)
    assert third.answered.is_set()
