"""Tapes: what is written is what an engine reads, and what is no tape is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_tapes import mapped, read_record
from pgdyno.trace.engine.tape import HEADER, Act, Tape, TapeError
from pgdyno.trace.tape_writer import TapeRecord, TapeWriter, gate_bytes

RECORDS = st.builds(
    TapeRecord,
    session=st.integers(0, 5),
    seq=st.integers(0, 1 << 31),
    act=st.sampled_from(Act),
    due_us=st.integers(0, 1 << 50),
    payload=st.binary(max_size=40),
    think_us=st.integers(-1, 1 << 40),
    cancel_us=st.integers(-1, 1 << 40),
    flags=st.integers(0, 1),
    expected=st.none() | st.from_regex(r"[0-9A-Z]{5}", fullmatch=True),
    gates=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=3).map(gate_bytes),
)


def written(path: Path, records: list[TapeRecord]) -> Tape:
    with path.open("wb") as file:
        writer = TapeWriter(file)
        for record in records:
            writer.add(record)
        writer.close()
    return mapped(path)


@given(records=st.lists(RECORDS, max_size=20, unique_by=lambda one: (one.session, one.seq)))
def test_each_session_reads_its_own_in_its_order(tmp_path_factory: pytest.TempPathFactory, records) -> None:
    tape = written(tmp_path_factory.mktemp("tape") / "x.tape", records)
    found = {
        session: [read_record(tape, place) for place in range(first, first + count)]
        for session, first, count in tape.sessions
    }
    assert found == {
        session: sorted((one for one in records if one.session == session), key=lambda one: one.seq)
        for session in {one.session for one in records}
    }


def test_sessions_come_in_the_order_in_which_they_are_due(tmp_path: Path) -> None:
    records = [TapeRecord(0, 0, Act.CONNECT, 900), TapeRecord(1, 0, Act.CONNECT, 5), TapeRecord(0, 1, Act.SEND, 1000)]
    assert [session for session, _, _ in written(tmp_path / "x.tape", records).sessions] == [1, 0]


def test_a_tape_that_was_being_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tape"
    with path.open("wb") as file:
        TapeWriter(file).add(TapeRecord(0, 0, Act.CONNECT, 0))
    with pytest.raises(TapeError, match="no tape"):
        mapped(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda tape: b"", "empty"),
        (lambda tape: b"x" * 100, "no tape"),
        (lambda tape: tape[:-1], "not whole"),
        (lambda tape: tape[:8] + b"\x09\0\0\0" + tape[12:], "version 9"),
        (lambda tape: tape[: HEADER.size], "not whole"),
    ],
)
def test_what_is_no_whole_tape_is_refused(tmp_path: Path, damage, message: str) -> None:
    path = tmp_path / "x.tape"
    written(path, [TapeRecord(0, 0, Act.CONNECT, 0), TapeRecord(0, 1, Act.DISCONNECT, 5)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TapeError, match=message):
        mapped(path)


@pytest.mark.parametrize(
    "record",
    [
        TapeRecord(0, 0, Act.SEND, 0, expected="235"),
        TapeRecord(-1, 0, Act.SEND, 0),
        TapeRecord(0, 0, Act.SEND, 1 << 70),
    ],
)
def test_what_no_tape_can_hold_is_an_error(tmp_path: Path, record: TapeRecord) -> None:
    with (tmp_path / "x.tape").open("wb") as file, pytest.raises(ValueError, match=r"SQLSTATE|session"):
        TapeWriter(file).add(record)
