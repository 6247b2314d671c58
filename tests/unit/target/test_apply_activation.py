"""Waiting for a reload, and telling a server that refuses everybody from one that refuses us."""

from __future__ import annotations

from typing import cast

import pytest

from pgdyno.errors import ConnectError, RestartError
from pgdyno.target import activation
from pgdyno.target.postgres import Postgres


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
