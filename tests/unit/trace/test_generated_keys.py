"""Generated keys: which INSERT returned which, which statements name one later, and what engines are told of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.replay.captured import write_tape
from pgdyno.replay.key_map import EXTENDED, elements
from pgdyno.replay.key_map import UNREAD as UNREAD_STATEMENTS
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.keys import KeyBook, KeyPlace
from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engine.tape import HAS_KEYS, RECORD, map_tape
from pgdyno.trace.gates import Order
from pgdyno.trace.keys.commits import TimedInsert, placed
from pgdyno.trace.keys.matching import (
    NO_INSERT,
    NOT_RETURNED,
    SEVERAL_TABLES,
    UNCERTAIN,
    UNREAD,
    KeyedRow,
    KeyNames,
    made_keys,
    plain_name,
    root_of,
)
from pgdyno.trace.keys.mentions import ALL, LONGEST, Insertion, KeyText, Mention, Within, key_text
from pgdyno.trace.parquet import read_meta, write_meta, write_rows
from pgdyno.trace.schema import TRACE, KeyLink, KeyTable, TraceMeta

ORDERS = KeyTable("orders", ("id", "who", "at"), ("id", "at"))
LINES = KeyTable("lines", ("order_id", "n"))
NAMES = KeyNames(
    (ORDERS, LINES), (KeyLink("lines", "order_id", "orders", "id"), KeyLink("x", "y", "lines", "order_id"))
)
INSERT = "INSERT INTO orders (who) VALUES ($1) RETURNING id"


def mentions(sql: str) -> list[tuple[tuple[str, ...], str, int | str]]:
    found = key_text(sql, NAMES.columns).mentions
    return [(one.tables, one.column, one.parameter or one.constant) for one in found]


def test_values_that_columns_are_compared_with_or_given() -> None:
    assert mentions("UPDATE orders SET who = $1 WHERE id = $2::int") == [
        (("orders",), "who", 1),
        (("orders",), "id", 2),
    ]
    both = "SELECT 1 FROM orders o JOIN lines AS l ON l.order_id = o.id WHERE o.id IN (17, $1) AND n < '3'"
    assert mentions(both) == [
        (("orders",), "id", "17"), (("orders",), "id", 1), (("lines", "orders"), "n", "3"),
    ]  # fmt: skip
    assert mentions("INSERT INTO s.lines VALUES ($1, 2), (3, $2)") == [
        (("lines",), "order_id", 1), (("lines",), "n", "2"), (("lines",), "order_id", "3"), (("lines",), "n", 2),
    ]  # fmt: skip
    assert mentions("SELECT 1 FROM orders WHERE id = (SELECT max(n) FROM lines) OR id = n OR 5 = 5") == []


def test_values_that_cannot_be_replaced_are_seen_to_be_counted() -> None:
    text = "SELECT 1 FROM orders WHERE id = 1 + $1 OR id = ANY ($2) OR abs(5) = id OR id <> ALL (ARRAY[6, $3])"
    found = [(one.parameter or one.constant, one.within) for one in key_text(text, NAMES.columns).mentions]
    assert found == [
        ("1", Within.EXPRESSION), (1, Within.EXPRESSION), (2, Within.ARRAY), ("5", Within.EXPRESSION),
        ("6", Within.ARRAY), (3, Within.ARRAY),
    ]  # fmt: skip
    array = Mention(("orders",), "id", parameter=1, within=Within.ARRAY)
    assert elements(array, ['{17, "18"}']) == ["17", "18"]
    assert elements(array, [None]) == elements(array, None) == []
    assert len(elements(array, ["{" + "1," * 5_000 + "1}"])) == 1_000


def test_keys_that_stay_as_captured_are_counted_by_where_they_stand(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path / "t.parquet",
        {"session": 0, "seq": 0, "kind": "extended", "statement": "", "sql": INSERT, "params": ["x"], "tx": 1,
         "keys": json.dumps([key(17)])},
        *(
            {"session": 0, "seq": seq, "kind": kind, "sql": f"SELECT 1 FROM orders WHERE {where}", "params": params,
             "tx": 1 + seq, **({"statement": ""} if kind == "extended" else {})}
            for seq, (kind, where, params) in enumerate([
                ("extended", "id = ANY ($1)", ["{17,4,17}"]), ("simple", "id = ANY ('{17}')", None),
                ("extended", "id = $1 + 0", ["17"]), ("extended", "id = 17 AND who = $1", ["17"]),
                ("extended", "id = 18", []), ("simple", "id = 17", None),
            ], start=1)
        ),
    )  # fmt: skip
    keys = write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None).keys
    assert (keys.named, keys.left) == (1, {"in arrays": 3, "in expressions": 1, EXTENDED: 1, UNREAD_STATEMENTS: 0})
    assert mentions("not sql") == []


def test_a_constant_is_where_it_stands_in_the_text() -> None:
    text = "SELECT 'é' FROM orders WHERE who = 'a-1' AND id = 99999999999"
    quoted, number = key_text(text).mentions
    for one in (quoted, number):
        assert text.encode()[one.at : one.at + len(one.constant)].decode() == one.constant
    assert (quoted.is_number, number.is_number) == (False, True)
    assert key_text("SELECT 1 FROM orders WHERE who = E'a\\'b'").mentions == ()


def test_what_an_insert_makes_and_returns() -> None:
    for text, rows, returned in [
        ("insert into orders (who) values (1), (2) returning orders.id as z, who || 'x', *", 2, ("id", None, ALL)),
        ("insert into orders default values", 1, ()),
        ("insert into orders (who) select 1", None, ()),
        ("insert into orders (who) values (1) on conflict do nothing", None, ()),
    ]:
        assert key_text(text).inserts == (Insertion("orders", rows, returned),), text
    assert not key_text("with x as (insert into orders default values returning id) select * from x").is_single


def made(
    *texts: str, keys: list[Any], names: KeyNames = NAMES
) -> tuple[list[tuple[int, str, str, int, int]], Counter[str]]:
    rows = [
        KeyedRow(3, n, 1, "shop", text.removeprefix("!"), text.startswith("!"), None) for n, text in enumerate(texts)
    ]
    without = Counter[str]()
    found = list(made_keys(rows, keys, names, without))
    assert all((one.session, one.database, one.table) == (3, "shop", "orders") for one in found)
    return [(one.seq, one.column, one.value, one.row, one.field) for one in found], without


def key(number: int, table: str = "public.orders", **more: str | None) -> list[Any]:
    return [table, {"id": str(number), **more}]


def test_keys_fall_to_inserts_in_their_order() -> None:
    two = "INSERT INTO orders (who) VALUES (1), (2) RETURNING who, id"
    assert made("BEGIN", INSERT, two, keys=[key(7), key(8), key(9)]) == (
        [(1, "id", "7", 0, 0), (2, "id", "8", 0, 1), (2, "id", "9", 1, 1)], Counter(),
    )  # fmt: skip
    several = "INSERT INTO orders SELECT generate_series(1, $1) RETURNING *"
    assert made(INSERT, several, keys=[key(7), key(8, at="now"), key(9, at=None)])[0] == [
        (0, "id", "7", 0, 0), (1, "id", "8", 0, 0), (1, "at", "now", 0, 2), (1, "id", "9", 1, 0),
    ]  # fmt: skip


def test_what_failed_or_was_rolled_back_made_none() -> None:
    texts = ("SAVEPOINT a", INSERT, "ROLLBACK TO a", "!" + INSERT, INSERT)
    assert made(*texts, keys=[key(9)])[0] == [(4, "id", "9", 0, 0)]


def test_keys_that_nobody_returns_are_counted_by_reason() -> None:
    silent = INSERT.removesuffix(" RETURNING id")
    several = "INSERT INTO orders SELECT 1 RETURNING id"
    for texts, keys, reason in [
        ((silent,), [key(1)], NOT_RETURNED),
        (("SELECT make_order()",), [key(1)], NO_INSERT),
        ((INSERT,), [key(1), key(2)], NO_INSERT),
        ((INSERT, INSERT), [key(1)], UNCERTAIN),
        ((several, several), [key(1)], UNCERTAIN),
        ((f"{INSERT}; {INSERT}",), [key(1)], UNCERTAIN),
        (("WITH x AS (INSERT INTO orders DEFAULT VALUES RETURNING id) SELECT id FROM x",), [key(1)], NOT_RETURNED),
    ]:
        by_insert, without = made(*texts, keys=keys)
        assert without == Counter({reason: len(keys)}), texts
        assert [one[-1] for one in by_insert] == [-1] * (reason == NOT_RETURNED), "its answer has no such field"
    twice = KeyNames((ORDERS, replace(ORDERS)), ())
    assert made(INSERT, keys=[key(1)], names=twice) == ([], Counter({SEVERAL_TABLES: 1}))


def test_a_column_holds_keys_of_another_by_links() -> None:
    roots = NAMES.roots()
    assert roots["x", "y"] == roots["lines", "order_id"] == ("orders", "id")
    assert root_of(Mention(("lines", "orders"), "order_id"), roots) == ("orders", "id")
    assert root_of(Mention(("lines",), "n"), roots) is None
    assert [plain_name(one) for one in ("public.t", '"S.x"."a ""b"""', '"t"')] == ["t", 'a "b"', "t"]


def test_a_commit_is_a_statements_where_no_other_may_be() -> None:
    inserts = [
        TimedInsert(0, "t", 10_000, 12_000),
        TimedInsert(1, "t", 20_000, 21_000),
        TimedInsert(2, "u", 10_000, 9_000),
    ]
    assert list(placed(inserts, {"t": [(11_000, 5), (21_900, 6)]})) == [(0, 5), (1, 6)]
    assert list(placed(inserts, {"t": [(11_000, 5), (11_500, 6), (21_000, 7)]})) == [(1, 7)]
    near = [TimedInsert(0, "t", 10_000, 12_000), TimedInsert(1, "t", 12_000, 13_000)]
    assert list(placed(near, {"t": [(11_900, 5), (13_500, 6)]})) == []


def trace_of(path: Path, *rows: dict[str, Any], meta: TraceMeta | None = None) -> Path:
    people = {"user": "app", "database": "shop", "application": "", "implied": False, "due_us": 0, "end_us": 1}
    names = [column.name for column in TRACE]
    write_rows(path, TRACE, ([{**people, **row}.get(name) for name in names] for row in rows))
    write_meta(path, meta or TraceMeta(2, "csvlog B", None, "1", "2026-01-01T00:00:00Z", 1, 1, 1, 1, 0,
                                       key_tables=NAMES.tables, key_links=NAMES.links))  # fmt: skip
    return path


def test_a_tape_says_what_is_learned_and_what_is_named(tmp_path: Path) -> None:
    update = "UPDATE orders SET who = 'é' WHERE id = 17 AND who = 17"
    trace = trace_of(
        tmp_path / "t.parquet",
        {"session": 0, "seq": 0, "kind": "connect"},
        {"session": 0, "seq": 1, "kind": "extended", "statement": "", "sql": INSERT, "params": ["x"], "tx": 1,
         "keys": json.dumps([key(17), key(18, table="public.other")])},
        {"session": 0, "seq": 2, "kind": "extended", "statement": "s", "params": ["17", None], "tx": 2,
         "sql": "INSERT INTO lines VALUES ($1, $2)"},
        {"session": 1, "seq": 0, "kind": "simple", "sql": update, "tx": 3},
        {"session": 1, "seq": 1, "kind": "simple", "sql": "SELECT 1 FROM orders WHERE id = 18", "tx": 4},
        {"session": 1, "seq": 2, "kind": "simple", "sql": update, "tx": 4, "database": "other"},
    )  # fmt: skip
    taped = write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None)
    assert (taped.keys.captured, taped.keys.named, dict(taped.keys.without)) == (2, 2, {NO_INSERT: 1})
    with (tmp_path / "tape").open("rb") as file:
        tape = map_tape(file.fileno())
    tally = RunTally()
    book, session = KeyBook(tally), ReplaySession(0, 0, 0, 6)
    sent = dict[tuple[int, int], bytes]()
    for place in tape.index:
        head = RECORD.unpack_from(tape.content, place)
        session.start, session.end = place + RECORD.size, place + RECORD.size + head[9]
        if head[6] & HAS_KEYS:
            book.load(session, tape.view)
            session.brought = {(0, 0): b"4711"}
            sent[head[3], head[4]] = bytes(book.message(session, tape.view[session.start : session.end]))
            book.learn(session)
            book.forget(session)
    lines = "INSERT INTO lines VALUES ($1, $2)"
    assert sent == {
        (0, 1): wire.extended("", ["x"], INSERT),
        (0, 2): wire.extended("s", ["4711", None], lines),
        (1, 0): wire.query(update.replace("= 17", "= 4711", 1)),
    }
    assert (tally.keys_learned, tally.keys_sent, tally.keys_unknown) == (1, 2, 0)


def test_a_list_of_very_many_values_is_left_as_captured_and_counted(tmp_path: Path) -> None:
    long = f"SELECT 1 FROM orders WHERE id IN ({','.join(['17'] * LONGEST)})"
    assert key_text(long) == KeyText(is_unread=True)
    trace = trace_of(
        tmp_path / "t.parquet",
        {"session": 0, "seq": 0, "kind": "extended", "statement": "", "sql": INSERT, "params": ["x"], "tx": 1,
         "keys": json.dumps([key(17)])},
        {"session": 0, "seq": 1, "kind": "simple", "sql": long, "tx": 2},
        {"session": 0, "seq": 2, "kind": "simple", "sql": long.replace("orders", "elsewhere").replace("id", "no")},
        {"session": 0, "seq": 3, "kind": "simple", "sql": "SELECT 1 FROM orders WHERE id = 17", "tx": 3},
    )  # fmt: skip
    keys = write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None).keys
    assert (keys.named, keys.left) == (1, {UNREAD_STATEMENTS: 1})


def test_keys_of_an_insert_that_is_too_long_to_be_read_have_that_reason() -> None:
    long = "INSERT INTO orders (who) VALUES " + ",".join(["('x')"] * LONGEST)
    assert made(long, INSERT, keys=[key(17)]) == ([], {UNREAD: 1})
    assert made("!" + long, INSERT, keys=[key(17)])[1] == {}


def test_what_a_server_says_never_becomes_sql() -> None:
    tally = RunTally()
    book, session = KeyBook(tally), ReplaySession(0, 0, 0, 0)
    session.learns = [(n, n, 0) for n in range(4)]
    session.brought = dict(zip([(n, 0) for n in range(4)], [b"id", b"1 OR true", b"'", b"x" * 65], strict=True))
    book.learn(session)
    message = wire.query("SELECT 1 WHERE id = 17")
    session.names = [(0, KeyPlace.NUMBER, 0, len(message) - 3, 2)]
    assert bytes(book.message(session, memoryview(message))) == message
    assert (tally.keys_learned, tally.keys_unknown) == (1, 1)
    session.names = [(n, KeyPlace.QUOTED, 0, len(message) - 3, 2) for n in (1, 2, 3)]
    assert bytes(book.message(session, memoryview(message))) == message


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_rows_of_an_answer_bring_their_fields_however_they_are_cut(size: int) -> None:
    row = wire.message(b"D", b"\0\3\0\0\0\2" + b"17\xff\xff\xff\xff\0\0\0\1x")
    answer = wire.message(b"T", b"x" * 50) + row + row + wire.message(b"C", b"INSERT 0 2\0") + wire.message(b"Z", b"I")
    session = ReplaySession(0, 0, 0, 0, learns=[(5, 0, 0), (6, 1, 2)])
    ready = [session.take(answer[at : at + size]) for at in range(0, len(answer), size)]
    assert ready.count(True) == 1
    assert {place: session.brought[place] for place in ((0, 0), (1, 2))} == {(0, 0): b"17", (1, 2): b"x"}


def test_a_trace_from_before_has_no_keys(tmp_path: Path) -> None:
    row = {"session": 0, "seq": 0, "kind": "simple", "sql": "SELECT 1", "tx": 1, "implied": False, "due_us": 0}
    older = [column for column in TRACE if column.name != "keys"]
    path = tmp_path / "t.parquet"
    write_rows(path, older, [[row.get(column.name) for column in older]])
    write_meta(path, TraceMeta(1, "csvlog B", None, "1", "2026-01-01T00:00:00Z", 1, 1, 1, 1, 0))
    assert read_meta(path).key_tables == ()
    taped = write_tape(path, tmp_path / "tape", Order.SESSION, lambda _: None)
    assert (taped.statements, taped.keys.captured) == (1, 0)


def test_inserts_wait_in_the_order_of_their_captured_keys(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path / "it's.parquet",
        *(
            {"session": session, "seq": 0, "kind": "simple", "sql": "INSERT INTO orders DEFAULT VALUES", "tx": 1,
             "place": session, "keys": json.dumps([key(made)])}
            for session, made in enumerate((1000, 999))
        ),
    )  # fmt: skip
    taped = write_tape(trace, tmp_path / "it's tape", Order.ROW, lambda _: None)
    assert taped.gated == 1
    with (tmp_path / "it's tape").open("rb") as file:
        tape = map_tape(file.fileno())
    first, second = (RECORD.unpack_from(tape.content, place) for place in tape.index)
    assert (first[8], second[8]) == (1, 0), "session 0 waits, though it ended first"


def test_a_parameter_that_cannot_be_is_none_of_the_values() -> None:
    assert elements(Mention(("orders",), "id", parameter=0, within=Within.ARRAY), ["17"]) == []
    assert elements(Mention(("orders",), "id", parameter=2, within=Within.ARRAY), ["17"]) == []


@pytest.mark.parametrize(
    "told",
    ["{", "7", "[7]", '[["public.orders"]]', '[["public.orders", {"id": 7}]]', pytest.param("[" * 9000, id="deep")],
)
def test_keys_of_a_damaged_trace_are_refused_in_words(tmp_path: Path, told: str) -> None:
    trace = trace_of(
        tmp_path / "t.parquet",
        {"session": 0, "seq": 0, "kind": "simple", "sql": INSERT, "tx": 1, "keys": told},
    )
    with pytest.raises(UsageError, match="the keys in the trace cannot be read"):
        write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None)
