"""Answers of a server, however the network cuts them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.trace.engine import wire
from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tape import NO_ERROR

READY = wire.message(b"Z", b"I")
ROW = wire.message(b"D", struct.pack("!Hi", 1, 40) + b"Z\0\0\0\5I" * 6 + b"xxxx")
"""A value that looks like the end of an answer."""
ERROR = wire.message(b"E", b"SERROR\0VERROR\0C23505\0Mtwice C99999\0\0")
PARTS = st.lists(
    st.sampled_from(
        [
            (b"1\0\0\0\4", 0, NO_ERROR),
            (ROW, 0, NO_ERROR),
            (wire.message(b"C", b"SELECT 1\0"), 1, NO_ERROR),
            (wire.message(b"C", b"INSERT 0 7\0"), 7, NO_ERROR),
            (wire.message(b"N", b"SNOTICE\0C00000\0Mhello\0\0"), 0, NO_ERROR),
            (ERROR, 0, b"23505"),
        ]
    ),
    max_size=8,
)


@given(PARTS, st.data())
def test_an_answer_is_the_same_however_it_is_cut(parts: list[tuple[bytes, int, bytes]], data: st.DataObject) -> None:
    answer = b"".join(part for part, _, _ in parts) + READY
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    session, ready = ReplaySession(0, 0, 0, 1), []
    for begin, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        if end > begin:
            ready.append(session.take(answer[begin:end]))
    assert ready == [False] * (len(ready) - 1) + [True]
    counted = [rows for part, rows, _ in parts if part[:1] == b"C"]
    assert session.rows == (sum(counted) if counted else -1)
    assert session.sqlstate == ([state for _, _, state in parts if state != NO_ERROR] or [NO_ERROR])[0]
    assert session.received == len(answer)


def test_a_large_value_is_passed_over_and_not_kept() -> None:
    session, size = ReplaySession(0, 0, 0, 1), 50_000_000
    assert not session.take(b"D" + struct.pack("!i", size + 4) + bytes(1000))
    for _ in range(size // 65536):
        assert not session.take(bytes(65536))
        assert len(session.partial) == 0
    left = session.passing
    assert session.take(bytes(left) + READY)


def test_what_is_not_the_protocol_is_an_error() -> None:
    with pytest.raises(ValueError, match="a message of 0 bytes"):
        ReplaySession(0, 0, 0, 1).take(b"HTTP\0\0\0\0\0\0\0\0\0"[3:])


def test_a_bind_keeps_null_apart_from_the_empty_text_and_counts_bytes() -> None:
    assert wire.bind("s", [None, "", "é"]) == (
        b"B" + struct.pack("!i", 4 + 1 + 2 + 2 + 2 + 4 + 4 + 4 + 2 + 2) + b"\0s\0\0\0" + struct.pack("!H", 3)
        + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\2\xc3\xa9" + b"\0\0"
    )  # fmt: skip


def test_a_text_with_a_zero_byte_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        wire.query("SELECT '\0'")


@pytest.mark.parametrize(
    ("tag", "rows"), [(b"INSERT 0 5\0", 5), (b"UPDATE 0\0", 0), (b"BEGIN\0", None), (b"CREATE TABLE\0", None)]
)
def test_rows_are_what_the_tag_counts(tag: bytes, rows: int | None) -> None:
    assert wire.rows_of(tag) == rows


def test_an_error_whose_length_looks_like_a_field_has_its_code() -> None:
    body = b"SERROR\0VERROR\0C22012\0M"
    error = wire.message(b"E", body + b"x" * (67 - 4 - len(body) - 2) + b"\0\0")
    assert error[4:5] == b"C"
    session = ReplaySession(0, 0, 0, 1)
    assert session.take(error + READY)
    assert session.sqlstate == b"22012"


def test_no_server_fills_our_memory_with_an_error() -> None:
    session, size = ReplaySession(0, 0, 0, 1), 10_000_000
    assert not session.take(b"E" + struct.pack("!i", size + 4) + b"SERROR\0C42601\0M")
    for _ in range(size // 65536):
        assert not session.take(bytes(65536))
        assert len(session.partial) < 65536
    assert session.take(bytes(session.passing) + READY)
    assert session.sqlstate == b"42601"
    for kind in (b"C", b"Z", b"G"):
        with pytest.raises(ValueError, match="a message of 10000004 bytes"):
            ReplaySession(0, 0, 0, 1).take(kind + struct.pack("!i", size + 4))


def test_rows_that_no_record_can_hold_are_none() -> None:
    session = ReplaySession(0, 0, 0, 1)
    tag = wire.message(b"C", b"SELECT " + b"9" * 18 + b"\0")
    session.take(wire.message(b"C", b"SELECT " + b"9" * 19 + b"\0"))
    assert session.rows == -1
    session.take(tag * 10)
    assert session.rows == (1 << 63) - 1
