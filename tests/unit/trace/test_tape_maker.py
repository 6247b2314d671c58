"""Rows of a trace as records of a tape."""

from __future__ import annotations

import pytest

from pgdyno.errors import UsageError
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.keys import KeyPlace
from pgdyno.trace.engine.tape import RESETS_ROLE, Act
from pgdyno.trace.tape_maker import TraceRow, records_of
from pgdyno.trace.tape_writer import TapeRecord


def row(seq: int, kind: str = "simple", sql: str | None = "SELECT 1", **more: object) -> TraceRow:
    plain = dict.fromkeys(TraceRow._fields) | {"session": 0, "due_us": 0, "seq": seq, "kind": kind, "sql": sql}
    return TraceRow(**(plain | more))


def records(*rows: TraceRow) -> list[TapeRecord]:
    return list(records_of(rows))


def test_a_session_connects_sends_and_leaves() -> None:
    connect = row(0, "connect", None, user="joe", database="shop", application="till é")
    found = records(connect, row(1, due_us=10), row(2, "disconnect", None, due_us=20))
    assert [one.act for one in found] == [Act.CONNECT, Act.SEND, Act.DISCONNECT]
    assert found[0].payload == "joe\0shop\0till é\0".encode()
    assert found[1].payload == wire.query("SELECT 1")


def test_what_is_refused_or_has_no_text_is_skipped() -> None:
    ours = {"refused": "ours", "sql": None}
    found = records(row(0, "connect", **ours), row(1, refused="it stops the server"), row(2, sql=None))
    assert [(one.act, one.payload) for one in found] == [(Act.SKIP, b"")] * 3
    assert [one.is_edge for one in found] == [True, False, False], "only statements count as refused"
    assert records(row(3, "disconnect", **ours))[0].act is Act.SKIP, "nothing was opened"


def test_think_time_is_from_the_end_of_the_one_before_and_never_negative() -> None:
    third = row(2, due_us=140, end_us=400)
    found = records(row(0, due_us=0, end_us=100), row(1, due_us=150), third, row(3, due_us=399))
    assert [one.think_us for one in found] == [-1, 50, 0, 0]
    other = records(row(0, due_us=0, end_us=100), row(0, due_us=500, session=1))
    assert other[1].think_us == -1


def test_a_cancelled_statement_is_cancelled_after_its_time() -> None:
    given = {"due_us": 10, "end_us": 2010}
    found = records(row(0, sqlstate="57014", **given), row(1, sqlstate="57014"), row(2, sqlstate="23505", **given))
    assert [one.cancel_us for one in found] == [52_000, -1, -1]
    assert [one.expected for one in found] == ["57014", "57014", "23505"]


def test_a_cancelled_statement_of_which_the_log_has_the_end_alone_runs_since_the_answer_before_it() -> None:
    given = {"sqlstate": "57014"}
    found = records(
        row(0, due_us=0, end_us=100), row(1, due_us=2100, end_us=2100, **given),
        row(2, due_us=30_002_100, end_us=30_002_100, **given), row(3, due_us=30_002_100, end_us=30_002_100, **given),
    )  # fmt: skip
    assert [(one.due_us, one.think_us, one.cancel_us) for one in found[1:]] == [
        (100, 0, 52_000),
        (20_002_100, 20_000_000, 10_050_000),
        (30_002_100, 0, 50_000),
    ]


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("SET lock_timeout = '1s'", 1_000_000), ("set session lock_timeout to 200", 200_000), ("SELECT 1", 0),
        ("SELECT set_config('lock_timeout', '5 min', false)", 1_900_000), ("SET lock_timeout = 0", 0),
        ("SET LOCAL lock_timeout = '1500 ms'", 1_500_000), ("SET lock_timeout TO DEFAULT", 0),
    ],
)  # fmt: skip
def test_a_statement_that_got_no_lock_in_time_is_sent_as_long_before(text: str, waits: int) -> None:
    """Sent at its end, it would wait for a lock that is free by then. One that does not wait stays where it was."""
    given = {"sqlstate": "55P03", "due_us": 2_000_000, "end_us": 2_000_000}
    set_ = row(0, sql=text, end_us=100_000)
    assert records(set_, row(1, **given))[1].due_us == 2_000_000 - waits
    assert records(set_, row(1, sql="LOCK TABLE t NOWAIT", **given))[1].due_us == 2_000_000
    assert records(set_, row(1, **given | {"end_us": 2_500_000}))[1].due_us == 2_000_000
    late = row(2, **given)
    for end in ("RESET lock_timeout", "DISCARD ALL"):
        assert records(set_, row(1, sql=end, due_us=100_000, end_us=100_000), late)[2].due_us == 2_000_000


def test_a_statement_that_got_no_lock_before_its_values_came_binds_none() -> None:
    """Its table was locked when it was parsed; a Bind without values was answered with an error of the protocol.

    What failed by a value that no log has is bound without it: it fails, and aborts its transaction as it did.
    """
    text, given = "INSERT INTO t VALUES ($1)", {"kind": "extended", "statement": "", "sqlstate": "55P03"}
    parsed = wire.parse("", text) + wire.SYNC
    (found,) = records(row(0, **given, sql=text, names=[[1, KeyPlace.BOUND, 1, 1]]))
    assert (found.payload, found.flags) == (parsed, 0)
    for sql, more in (
        (text, {"params": ["1"]}), (text, {"sqlstate": None}), (text, {"sqlstate": "22P02"}), ("SELECT '$1' / 0", {}),
    ):  # fmt: skip
        values = more.get("params") or ()
        assert records(row(0, **given | more, sql=sql))[0].payload == wire.extended("", values, sql)
    known = row(0, "parse", text, statement="p")
    assert records(known, row(1, **given | {"statement": "p"}, sql=text))[1].payload == wire.extended("p", (), None)


def test_a_statement_is_prepared_when_its_name_is_not_known() -> None:
    text = "SELECT $1"
    found = records(
        row(0, "parse", text, statement="p"),
        row(1, "extended", text, statement="p", params=["1"]),
        row(2, "extended", text, statement="q", params=[None]),
        row(3, "extended", text, statement="q", params=["2"]),
        row(4, "extended", text, statement="", params=["3"]),
    )
    assert [one.payload for one in found] == [
        wire.parse("p", text) + wire.SYNC,
        wire.extended("p", ["1"], None),
        wire.extended("q", [None], text),
        wire.extended("q", ["2"], None),
        wire.extended("", ["3"], text),
    ]


def test_a_name_with_another_text_was_prepared_again_where_no_parse_is_logged() -> None:
    """As in a log of log_statement = all alone: the old statement must not be executed in its place."""
    rows = [row(seq, "extended", text, statement="p") for seq, text in enumerate(("SELECT 1", "SELECT 1", "SELECT 2"))]
    assert [one.payload for one in records(*rows)] == [
        wire.extended("p", (), "SELECT 1"),
        wire.extended("p", (), None),
        wire.close("p") + wire.extended("p", (), "SELECT 2"),
    ]


def prepared_again(text: str, sqlstate: str | None = None) -> bool:
    """Tell whether a statement is prepared again after `text`."""
    made = row(0, "parse", statement="p"), row(1, sql=text, sqlstate=sqlstate), row(2, "extended", statement="p")
    again = records(*made)[2].payload
    assert again in (wire.extended("p", (), "SELECT 1"), wire.extended("p", (), None))
    return again == wire.extended("p", (), "SELECT 1")


def test_a_name_that_was_given_up_is_prepared_again() -> None:
    for text in ("DEALLOCATE ALL", "deallocate prepare P", ' DEALLOCATE "p"', "DISCARD ALL"):
        assert prepared_again(text)
    assert not prepared_again('DEALLOCATE "P"')
    assert not prepared_again("DEALLOCATE ALL", sqlstate="25P02")


def test_a_name_that_is_prepared_twice_was_closed_between() -> None:
    found = records(row(0, "parse", "SELECT 1", statement="p"), row(1, "parse", "SELECT 2", statement="p"))
    assert found[1].payload == wire.close("p") + wire.parse("p", "SELECT 2") + wire.SYNC


def test_names_are_those_of_one_session() -> None:
    found = records(row(0, "parse", "SELECT 1", statement="p"), row(0, "extended", statement="p", session=1))
    assert found[1].payload == wire.extended("p", (), "SELECT 1")


def test_what_could_give_a_session_back_to_its_stand_in_is_marked() -> None:
    for text in (
        "DISCARD ALL",
        "RESET session  authorization",
        "SELECT set_config('session_authorization', 'x', false)",
    ):
        assert records(row(0, sql=text))[0].flags == RESETS_ROLE
    assert records(row(0))[0].flags == 0


def test_sessions_that_take_turns_come_out_as_one_after_another() -> None:
    def session(number: int) -> list[TraceRow]:
        return [
            row(0, "connect", None, session=number, user="joe"),
            row(1, "parse", statement="p", session=number, due_us=10, end_us=20),
            row(2, "extended", statement="p", session=number, due_us=50 + number, end_us=60),
            row(3, "disconnect", None, session=number, due_us=90),
        ]

    in_turn = [one for rows in zip(session(0), session(1), strict=True) for one in rows]
    found = sorted(records(*in_turn), key=lambda one: (one.session, one.seq))
    assert found == records(*session(0), *session(1))
    assert [one.think_us for one in found] == [-1, 10, 30, 30, -1, 10, 31, 30]


def test_a_session_that_is_out_of_order_is_an_error() -> None:
    with pytest.raises(UsageError, match="statement 4 of session 0 is not in its place"):
        records(row(5), row(0, session=1), row(4))
