"""What is told of a commit order at its end, also where the server was killed before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg.rows import DictRow

from pgdyno.studies.capture.commit_order import CommitOrder, _no_slot


class FakeServer:
    """Answers with commits, then with nothing; or it is gone."""

    def __init__(self, commits: int, *, is_killed: bool) -> None:
        moment = "(at 2026-11-27 10:00:00.5+00)"
        self.batches = [[{"lsn": "0/1", "data": f"COMMIT {xid} {moment}"} for xid in range(commits)]]
        self.is_killed = is_killed

    def execute(self, query: str, _values: Sequence[object] = ()) -> FakeServer:
        self.is_asked = "get_changes" in query
        if self.is_asked and not self.batches and self.is_killed:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return self

    def fetchall(self) -> list[dict[str, Any]]:
        return self.batches.pop() if self.is_asked and self.batches else []

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("commits", "is_killed", "words"),
    [
        (486, False, "486 commits in their order"),
        (486, True, "no commit order is kept: after 486 commits it was lost"),
        (1, True, "no commit order is kept: after 1 commit it was lost"),
    ],
)
def test_an_order_that_was_lost_is_not_told_as_whole(tmp_path: Path, commits: int, is_killed: bool, words: str) -> None:
    said = list[str]()
    server = cast("psycopg.Connection[DictRow]", FakeServer(commits, is_killed=is_killed))
    order = CommitOrder(server, "slot", tmp_path / "commits.csv", said.append)
    order.drain()
    order.close()
    assert order.words == words
    assert bool(said) is is_killed


@pytest.mark.parametrize("limit", [psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable])
def test_a_transaction_that_stays_open_is_named_whichever_limit_ends_the_wait(limit: type[psycopg.Error]) -> None:
    told = _no_slot("db1", limit("canceling statement due to a timeout"))
    assert str(told).endswith("slot: a transaction that was open before did not end within a minute")
    assert told.hint is not None
    assert "pg_stat_activity" in told.hint
