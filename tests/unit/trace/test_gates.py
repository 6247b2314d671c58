"""Which statements wait for which."""

from __future__ import annotations

import random

import pytest

from pgdyno.trace.gates import Gate, OrderedRow, _LastWriters, gates, key_columns
from pgdyno.trace.touches import Equality, Touch, touches

UPDATE = "UPDATE t SET v = v + 1 WHERE id = $1"
INSERT = "INSERT INTO t (v) VALUES ($1)"


def row(session: int, seq: int, sql: str, *params: str, ends: bool = True, failed: bool = False) -> OrderedRow:
    return OrderedRow(session, seq, seq, sql, list(params), failed, ends)


def found(*rows: OrderedRow, keys: dict[str, str] | None = None) -> dict[Gate, list[Gate]]:
    return {(session, seq): waits for session, seq, waits in gates(rows, {"t": "id"} if keys is None else keys)}


def test_a_statement_says_which_rows_it_touches() -> None:
    by_id = (Equality("id", 1),)
    assert touches(UPDATE) == (Touch("t", True, equal=by_id),)
    assert touches("select * from only s.t where $1::int = id and v > 3") == (Touch("t", False, equal=by_id),)
    assert touches("select * from t where id = $1 for update") == (Touch("t", True, equal=by_id),)
    assert touches("insert into t (v, id) values ('x', $1)")[0].equal == (Equality("v", constant="x"), *by_id)
    assert touches("insert into t (id) values (1), (2)") == (Touch("t", True, True),)
    assert touches("select * from t where id = 1 or id = 2") == (Touch("t", False),)
    assert touches("delete from t using s where t.id = s.id") == (Touch("t", True), Touch("s", True))
    assert touches("truncate t; select 1; drop index i") == (Touch("t", True),)
    assert touches("begin") == touches("not sql") == ()


def test_the_key_of_a_table_is_what_most_statements_name_it_by() -> None:
    assert key_columns([(UPDATE, 10), ("DELETE FROM t WHERE v = 1", 3), ("SELECT 1", 9)]) == {"t": "id"}


def test_a_row_waits_for_whoever_wrote_it_and_had_committed() -> None:
    assert found(row(1, 1, UPDATE, "7"), row(2, 1, UPDATE, "7"), row(2, 2, UPDATE, "8")) == {(2, 1): [(1, 1)]}
    assert found(row(1, 1, UPDATE, "7"), row(1, 2, UPDATE, "7")) == {}


def test_inserts_of_a_table_that_makes_no_key_do_not_wait_for_each_other() -> None:
    """As of pgbench's history: who holds the row of a branch must not wait there for who waits for that row."""
    rows = (row(1, 1, INSERT, "x"), row(2, 1, INSERT, "y"))
    assert found(*rows) == {(2, 1): [(1, 1)]}, "where nobody knows, any table may make a key"
    for making, waits in ((frozenset({"t"}), [(2, 1, [(1, 1)])]), (frozenset({"u"}), [])):
        assert list(gates(rows, {"t": "id"}, making)) == waits


def test_the_last_writers_of_many_rows_are_those_of_a_plain_dict() -> None:
    chance, known = random.Random(7), dict[tuple[str, str], Gate]()
    writers = _LastWriters()
    for _ in range(6000):
        row, gate = (chance.choice("ab"), str(chance.randrange(3000))), (chance.randrange(90), chance.randrange(9000))
        known[row] = gate
        writers.put(*row, gate)
    assert {row: writers.get(*row) for row in known} == known
    assert writers.get("c", "1") is writers.get("a", "3000") is None


def test_of_rows_without_end_those_that_were_written_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.trace.gates.MOST_ROWS", 200)
    writers = _LastWriters()
    for number in range(1000):
        writers.put("t", "often", (1, number))
        writers.put("t", str(number), (0, number))
    known = [number for number in range(1000) if writers.get("t", str(number)) is not None]
    assert 98 <= len(known) <= 200
    assert known == list(range(1000 - len(known), 1000))
    assert writers.get("t", "often") == (1, 999)


def test_a_transaction_is_waited_for_at_its_commit() -> None:
    before = [row(1, 1, UPDATE, "7", ends=False), row(2, 1, UPDATE, "7"), row(1, 2, "COMMIT")]
    assert found(*before) == {}
    assert found(*before, row(3, 1, UPDATE, "7")) == {(3, 1): [(1, 2)]}


def test_what_was_rolled_back_or_failed_is_not_waited_for() -> None:
    for end in (row(1, 2, "ROLLBACK"), row(1, 2, "  abort"), row(1, 2, "COMMIT", failed=True)):
        assert found(row(1, 1, UPDATE, "7", ends=False), end, row(2, 1, UPDATE, "7")) == {}
    assert found(row(1, 1, UPDATE, "7", failed=True), row(2, 1, UPDATE, "7")) == {}


def test_readers_wait_and_are_not_waited_for() -> None:
    read = "SELECT v FROM t WHERE id = $1"
    assert found(row(1, 1, UPDATE, "7"), row(2, 1, read, "7"), row(3, 1, UPDATE, "7")) == {
        (2, 1): [(1, 1)],
        (3, 1): [(1, 1)],
    }


def test_a_statement_on_all_rows_waits_for_all_and_is_waited_for_by_all() -> None:
    rows = [row(1, 1, UPDATE, "7"), row(2, 1, UPDATE, "8"), row(3, 1, "UPDATE t SET v = 0"), row(4, 1, UPDATE, "9")]
    assert found(*rows) == {(3, 1): [(1, 1), (2, 1)], (4, 1): [(3, 1)]}


def test_inserts_whose_key_the_table_makes_follow_each_other_before_their_commits() -> None:
    rows = [row(1, 1, INSERT, "a", ends=False), row(2, 1, INSERT, "b"), row(1, 2, "COMMIT"), row(3, 1, UPDATE, "1")]
    assert found(*rows) == {(2, 1): [(1, 1)], (3, 1): [(1, 2)]}


def test_by_tables_every_write_of_a_table_is_waited_for() -> None:
    rows = [row(1, 1, UPDATE, "7"), row(2, 1, UPDATE, "8"), row(3, 1, "UPDATE s SET v = 1")]
    assert found(*rows, keys={}) == {(2, 1): [(1, 1)]}
    inserts = [row(1, 1, INSERT, "a", ends=False), row(2, 1, INSERT, "b", ends=False)]
    assert found(*inserts, keys={}) == {(2, 1): [(1, 1)]}


def test_of_a_session_the_latest_statement_alone_is_waited_for() -> None:
    rows = [
        row(1, 1, UPDATE, "7"),
        row(1, 2, UPDATE, "8"),
        row(2, 1, UPDATE + "; " + UPDATE.replace("$1", "$2"), "7", "8"),
    ]
    assert found(*rows) == {(2, 1): [(1, 2)]}


def test_inserts_ask_a_sequence_in_the_order_of_their_captured_keys() -> None:
    first, second, third = row(1, 1, INSERT, "a"), row(2, 1, INSERT, "b"), row(3, 1, INSERT, "c")
    assert found(first, second, third) == {(2, 1): [(1, 1)], (3, 1): [(2, 1)]}
    later = first._replace(turn=2, before_session=2, before_seq=1)
    sooner, last = second._replace(turn=1), third._replace(turn=3, before_session=1, before_seq=1)
    assert found(later, sooner, last) == {(1, 1): [(2, 1)], (3, 1): [(1, 1), (2, 1)]}
    assert found(later, third, sooner)[(2, 1)] == [(3, 1)], "whose key is not known keeps its place"
