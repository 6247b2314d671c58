"""Waiting for a reload, and telling a server that refuses everybody from one that refuses us."""

from __future__ import annotations

from typing import cast

import pytest

from pgdyno.errors import ConnectError, RestartError
from pgdyno.server.postgres import Postgres, refuses_us
from pgdyno.undo import activation


class Reloading:
    """Answers for a server whose postmaster reads its files only after some sessions were opened."""

    label = "fake"

    def __init__(self, sessions: int) -> None:
        self._left = sessions
        self._asked = False
        self.naps = 0

    def fetch(self, query: str) -> list[dict[str, object]]:
        if "reload" in query:
            self._asked = True
            return []
        self._left -= self._asked
        return [{"at": 1.0 if self._left >= 0 else 2.0}]

    def sleep(self, _seconds: float) -> None:
        self.naps += 1


@pytest.mark.parametrize("sessions", [0, 1, 5])
def test_a_reload_waits_until_new_sessions_see_it(sessions: int) -> None:
    server = Reloading(sessions)
    activation.reload(cast("Postgres", server), None, sleep=server.sleep)
    assert server.naps == sessions


def test_a_reload_that_never_comes_is_an_error() -> None:
    server = Reloading(10**6)
    with pytest.raises(RestartError, match="did not read its configuration files"):
        activation.reload(cast("Postgres", server), None, sleep=server.sleep, timeout_s=5)


class Refusing:
    """Answers for a server that refuses sessions for these reasons, one after another, and then takes one."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)

    def connect(self) -> Refusing:
        if self._reasons:
            raise ConnectError("cannot connect", detail=self._reasons.pop(0))
        return self

    def close(self) -> None: ...


def answers(*reasons: str) -> bool:
    return activation.answers_sql(cast("Postgres", Refusing(*reasons)), sleep=lambda _: None)


def test_a_server_that_starts_or_recovers_is_waited_for() -> None:
    assert answers()
    assert answers("FATAL: the database system is starting up", "FATAL: the database system is in recovery mode")


def test_a_server_that_is_full_or_away_does_not_answer() -> None:
    assert not answers("FATAL: sorry, too many clients already")
    assert not answers("connection refused")


def test_our_own_lack_of_rights_is_not_the_servers_fault() -> None:
    with pytest.raises(ConnectError):
        answers("FATAL: password authentication failed for user")


@pytest.mark.parametrize(
    ("reason", "refuses"),
    [
        ('FATAL:  password authentication failed for user "x"', True),
        ("fe_sendauth: no password supplied", True),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "x"', True),
        ('FATAL:  role "x" does not exist', True),
        ('FATAL:  role "x" is not permitted to log in', True),
        ('connection to server at "password-db" (10.0.0.1), port 5432 failed: Connection refused', False),
        ("FATAL:  the database system is starting up", False),
        ("FATAL:  sorry, too many clients already", False),
        ("timeout expired", False),
        (None, False),
    ],
)
def test_a_server_that_refuses_this_role_is_not_waited_for(reason: str | None, refuses: bool) -> None:
    assert refuses_us(ConnectError("cannot connect", detail=reason)) is refuses


def test_a_restarted_server_that_refuses_us_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    reasons = ["FATAL:  the database system is starting up", "FATAL:  password authentication failed"]

    def refuse(_postgres: Postgres) -> None:
        raise ConnectError("cannot connect", detail=reasons.pop(0))

    monkeypatch.setattr(Postgres, "connect", refuse)
    Postgres("host=x").wait_ready(300.0, clock=lambda: 0.0, sleep=naps.append)
    assert len(naps) == 1
    assert not reasons


def test_a_reload_is_looked_for_ever_later_up_to_a_fifth_of_a_second() -> None:
    naps = list[float]()
    activation.reload(cast("Postgres", Reloading(8)), None, sleep=naps.append)
    assert naps == [0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2, 0.2]
    naps.clear()
    with pytest.raises(RestartError, match=r"within 0\.03 s"):
        activation.reload(cast("Postgres", Reloading(10**6)), None, sleep=naps.append, timeout_s=0.03)
    assert naps == [0.01, 0.02], "after the time that it has it is not waited for again"


def test_a_server_that_starts_is_waited_for_as_long_as_a_start_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    naps = list[float]()
    monkeypatch.setattr(activation, "READY_S", 0.4)
    starting = Refusing(*["FATAL: the database system is starting up"] * 9)
    assert not activation.answers_sql(cast("Postgres", starting), sleep=naps.append)
    assert naps == [0.2, 0.2]


@pytest.mark.parametrize(
    ("reason", "full", "passing"),
    [
        ("FATAL:  sorry, too many clients already", True, False),
        ("FATAL:  Remaining connection slots are reserved", True, False),
        ('FATAL:  too many connections for role "x"', True, False),
        ("FATAL:  the database system is shutting down", False, True),
        ("FATAL:  the database system is in Recovery mode", False, True),
        ("connection refused", False, False),
        (None, False, False),
    ],
)
def test_a_full_server_is_told_from_one_that_starts_or_stops(reason: str | None, full: bool, passing: bool) -> None:
    error = ConnectError("cannot connect", detail=reason)
    assert (activation.is_full(error), activation.is_passing(error)) == (full, passing)
    refusing = Refusing(reason or "")
    assert activation.free_slot(cast("Postgres", refusing)) is not full
    assert activation.free_slot(cast("Postgres", refusing)), "one that takes a session has a slot"
