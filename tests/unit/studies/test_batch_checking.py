"""What a functional check keeps: no password of its own query, and no value that is not one."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.studies.batch import checking
from pgdyno.studies.batch.chain import Expects, JobCheck


class Refusing:
    """A server that cannot be reached."""

    def for_load(self, database: str) -> Any:
        raise checking.psycopg.OperationalError("connection with password=geheim failed")


def test_a_check_is_kept_without_the_password_that_its_query_names() -> None:
    query = "SELECT count(*) = 1 FROM dblink('host=db password=geheim', 'SELECT 1') AS t (n int)"
    found = checking.make_check(Refusing(), "d", "tag", JobCheck(Expects.TRUE, query))  # type: ignore[arg-type]
    assert found.passed is None
    assert "geheim" not in f"{found.check} {found.found}"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"a": True}], ("true", True)),
        ([{"a": None}], ("null", False)),
        ([{"a": 1}], ("1", False)),
        ([], ("not a single row with one value", False)),
        ([{"a": True}, {"a": True}], ("not a single row with one value", False)),
    ],
)
def test_only_true_is_true(rows: list[dict[str, object]], told: tuple[str, bool]) -> None:
    class Session:
        def execute(self, query: bytes) -> Session:
            return self

        def fetchmany(self, size: int) -> list[dict[str, object]]:
            return rows[:size]

    assert checking._asked(Session(), "SELECT ...") == told  # type: ignore[arg-type]
