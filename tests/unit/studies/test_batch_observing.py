"""What is kept of the server for each job: waits of its own sessions, and counters only where it ran alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import psycopg
import pytest

from pgdyno.linux.cpu import ServerCpu
from pgdyno.studies.batch import observing
from pgdyno.studies.batch.observing import BESIDE, ServerOnlooker

TAGS = {"p/a": "x.1 p/a", "p/b": "x.2 p/b"}


@dataclass
class FakeServer:
    """A server that counts, whose sessions are what the test says, and which may go away."""

    wal: float = 1000.0
    rows: float = 10.0
    sessions: list[dict[str, object]] = field(default_factory=list)
    is_gone: bool = False
    thaws: threading.Event | None = None
    """When it answers again that hangs."""
    opened: int = 0
    closed: int = 0

    def connect(self) -> FakeServer:
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1

    def execute(self, query: bytes, params: list[object]) -> FakeServer:
        if self.is_gone:
            raise psycopg.OperationalError("the server went away\nand more")
        if self.thaws is not None:
            self.thaws.wait()
        self.asked = query
        return self

    def fetchall(self) -> list[dict[str, object]]:
        return self.sessions if b"pg_stat_activity" in self.asked else [{"wal": self.wal, "rows": self.rows}]


def onlooker(server: FakeServer, now: list[float]) -> ServerOnlooker:
    cpu = ServerCpu.unavailable("it is on another host")
    return ServerOnlooker(cast(Any, server), "app", cpu, TAGS, lambda: now[0])


def session(tag: str, wait: str, count: int = 1) -> dict[str, object]:
    return {"tag": tag, "class": wait, "n": count}


def test_a_job_that_ran_alone_has_what_the_server_counted() -> None:
    server, now = FakeServer(), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    server.wal, server.rows = 5000.0, 17.0
    looked.ended("p/a")
    figures = looked.figures("p/a")
    assert (figures.wal_bytes, figures.rows) == (4000, 7)
    unknown = figures.unknown
    assert "server_cpu_s" in unknown
    assert "ended before its sessions were looked at" in unknown["busy_s"]


def test_jobs_beside_each_other_have_no_counters() -> None:
    looked = onlooker(FakeServer(), [0.0])
    looked.began("p/a")
    looked.began("p/b")
    looked.ended("p/a")
    looked.ended("p/b")
    for key in TAGS:
        assert looked.figures(key).unknown["wal_bytes"] == BESIDE


def test_waits_and_busy_time_are_of_the_jobs_own_sessions() -> None:
    server, now = FakeServer(), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    looked.began("p/b")
    server.sessions = [session("x.1 p/a", "IO", 2), session("x.1 p/a", "CPU")]
    for now[0] in (1.0, 1.5, 2.0):
        looked.look()
    server.sessions = []
    now[0] = 3.0
    looked.look()
    first, second = looked.figures("p/a"), looked.figures("p/b")
    assert (first.waits, first.busy_s) == ({"IO": 4.0, "CPU": 2.0}, 2.0)
    assert (second.waits, second.busy_s) == ({}, 0.0)


def test_a_server_that_goes_away_costs_figures_and_no_run() -> None:
    server, now = FakeServer(is_gone=True), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    now[0] = 1.0
    looked.look()
    looked.ended("p/a")
    unknown = looked.figures("p/a").unknown
    assert unknown["wal_bytes"] == unknown["busy_s"] == "the server went away"


def test_a_job_whose_sessions_were_not_seen_for_a_while_has_no_busy_time() -> None:
    server, now = FakeServer(), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    server.sessions = [session("x.1 p/a", "CPU")]
    for now[0], server.is_gone in ((1.0, False), (2.0, True), (12.0, False)):
        looked.look()
    figures = looked.figures("p/a")
    assert (figures.busy_s, figures.waits, figures.unknown["busy_s"]) == (None, {}, "the server went away")


def test_no_job_was_busy_for_longer_than_it_ran() -> None:
    server, now = FakeServer(is_gone=True), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    now[0] = 1.0
    looked.look()
    server.is_gone, now[0] = False, 10.5
    looked.began("p/b")
    server.sessions, now[0] = [session("x.2 p/b", "CPU")], 11.0
    looked.look()
    figures = looked.figures("p/b")
    assert (figures.busy_s, figures.waits) == (0.5, {"CPU": 0.5})


def test_a_server_that_hangs_holds_up_no_end_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    server, now = FakeServer(), [0.0]
    looked = onlooker(server, now)
    looked.began("p/a")
    server.thaws = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(observing, "ANSWER_S", 0.05)  # only while it hangs: a thread of a busy machine may begin late
        now[0] = 1.0
        looked.look()
        now[0] = 20.0
        looked.look()
        looked.ended("p/a")
    figures = looked.figures("p/a")
    assert figures.unknown["busy_s"] == figures.unknown["wal_bytes"] == "the server did not answer within 0.05 s"
    assert server.opened == 1, "it is asked no further"
    looked.close()
    assert server.closed == 0
    server.thaws.set()
    assert looked._hangs is not None
    looked._hangs.join()
    assert server.closed == 1, "else a restore could not drop the database"
    looked.began("p/b")
    looked.ended("p/b")
    assert (looked.figures("p/b").wal_bytes, server.opened) == (0, 2)
