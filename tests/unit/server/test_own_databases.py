"""What a database of one of our names is takes one question where no session in it is needed: each opens one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pgdyno.server.own_databases import DatabaseState, look_into


class Asked:
    """A server that answers one row or none, and counts."""

    label = "here"

    def __init__(self, rows: list[dict[str, object]]) -> None:
        self.rows, self.times = rows, 0

    def fetch(self, query: object, parameters: Sequence[object] = ()) -> list[dict[str, object]]:
        self.times += 1
        return self.rows

    def connect(self, dbname: str) -> object:
        raise AssertionError("nothing is to be seen inside")


@pytest.mark.parametrize(
    ("rows", "state"), [([], DatabaseState.ABSENT), ([{"invalid": True}], DatabaseState.UNFINISHED)]
)
def test_what_cannot_be_entered_is_told_by_one_question(rows: list[dict[str, object]], state: DatabaseState) -> None:
    server = Asked(rows)
    assert look_into(server, "pgdyno_0123456789abcdef_load").state is state  # type: ignore[arg-type]
    assert server.times == 1
