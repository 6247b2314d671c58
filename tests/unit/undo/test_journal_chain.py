"""The journal: whatever happens to its bytes, it says the truth, or says that it is damaged."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdyno.errors import RollbackError
from pgdyno.undo.journal import Journal, JournalRecord, decode, encode, may_be_open, read_journal

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)
entries = st.lists(
    st.tuples(st.text(min_size=1, max_size=12), st.dictionaries(st.text(max_size=8), json_values, max_size=3)),
    min_size=1,
    max_size=5,
)
times = st.floats(0, 4e9, allow_nan=False)


def journal_bytes(kinds: list[tuple[str, dict[str, object]]], at: float = 1.5) -> tuple[list[JournalRecord], bytes]:
    records, data, chain = [], b"", ""
    for number, (kind, fields) in enumerate(kinds):
        record = JournalRecord(number, at, kind, fields)
        line, chain = encode(record, chain)
        records.append(record)
        data += line
    return records, data


@given(entries, times)
def test_what_was_written_is_read(kinds: list[tuple[str, dict[str, object]]], at: float) -> None:
    records, data = journal_bytes(kinds, at)
    reading = decode(data)
    assert list(reading.records) == records
    assert (reading.torn, reading.damage, reading.valid_bytes) == (False, None, len(data))


@given(entries)
@settings(max_examples=30)
def test_truncated_at_every_byte_loses_only_the_last_lines(kinds: list[tuple[str, dict[str, object]]]) -> None:
    records, data = journal_bytes(kinds)
    for length in range(len(data) + 1):
        reading = decode(data[:length])
        whole = data[:length].count(b"\n")
        assert list(reading.records) == records[:whole]
        assert reading.damage is None
        assert reading.torn == (reading.valid_bytes != length)


@given(entries, st.data())
@settings(max_examples=200)
def test_a_changed_byte_is_never_believed(kinds: list[tuple[str, dict[str, object]]], draw: st.DataObject) -> None:
    records, data = journal_bytes(kinds)
    position = draw.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[position] ^= draw.draw(st.integers(1, 255))
    reading = decode(bytes(changed))
    line = data[:position].count(b"\n")
    assert list(reading.records) == records[:line]
    # The one change that looks like a crash in mid-write is the loss of the very last newline.
    assert reading.damage is not None or (reading.torn and position == len(data) - 1)


@given(entries.filter(lambda kinds: len(kinds) > 1), st.data())
def test_a_lost_or_moved_line_is_damage(kinds: list[tuple[str, dict[str, object]]], draw: st.DataObject) -> None:
    _, data = journal_bytes(kinds)
    lines = data.splitlines(keepends=True)
    lost = draw.draw(st.integers(0, len(lines) - 2))
    at = len(b"".join(lines[:lost]))
    damage = decode(b"".join(lines[:lost] + lines[lost + 1 :])).damage
    assert damage == f"line {lost + 1} at byte {at} has a wrong checksum"
    assert decode(b"".join(lines[1:2] + lines[:1] + lines[2:])).damage is not None


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    reading = decode(data)
    assert reading.valid_bytes <= len(data)


def test_the_file_is_private(tmp_path: Path) -> None:
    Journal.create(tmp_path / "journal").append("begun")
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o600


@given(entries, st.integers(0, 10_000))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_appending_goes_on_after_a_torn_line(
    tmp_path: Path, kinds: list[tuple[str, dict[str, object]]], length: int
) -> None:
    records, data = journal_bytes(kinds)
    path = tmp_path / "journal"
    path.write_bytes(data[: length % (len(data) + 1)])
    journal = Journal(path, clock=lambda: 2.0)
    kept = len(journal.records)
    journal.append("after", {"n": 1})
    reading = decode(path.read_bytes())
    assert reading.damage is None
    assert list(reading.records) == [*records[:kept], JournalRecord(kept, 2.0, "after", {"n": 1})]


def test_a_damaged_journal_is_not_appended_to(tmp_path: Path) -> None:
    _, data = journal_bytes([("a", {}), ("b", {})])
    path = tmp_path / "journal"
    path.write_bytes(b"x" + data)
    with pytest.raises(RollbackError, match="is damaged"):
        Journal(path)


def test_a_failed_append_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(tmp_path / "journal")
    journal.append("begun")
    before = journal.path.read_bytes()
    real_write = os.write

    def half_a_write(descriptor: int, data: bytes) -> int:
        real_write(descriptor, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_a_write)
        with pytest.raises(OSError, match="No space"):
            journal.append("intent", {"settings": {"work_mem": "8MB"}})
    assert journal.path.read_bytes() == before
    journal.append("in force")
    assert [record.kind for record in decode(journal.path.read_bytes()).records] == ["begun", "in force"]


def test_an_append_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(tmp_path / "journal")
    synced: list[int] = []
    real_fsync = os.fsync

    def watched(descriptor: int) -> None:
        real_fsync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", watched)
    journal.append("intent")
    assert synced == [journal.path.stat().st_size]


@pytest.mark.parametrize(
    ("kinds", "is_open"),
    [([], False), (["begun", "closed"], False), (["begun"], True), (["begun", "closed", "in force"], True)],
)
def test_a_session_may_be_open_until_its_journal_ends_with_the_close(tmp_path, kinds, is_open):
    assert not may_be_open(tmp_path / "none")
    (tmp_path / ".draft-1").mkdir()
    if kinds:
        (tmp_path / "20260102T030405Z-a").mkdir()
        journal = Journal.create(tmp_path / "20260102T030405Z-a" / "journal.jsonl")
        for kind in kinds:
            journal.append(kind, {})
    assert may_be_open(tmp_path) is is_open


def test_a_session_whose_journal_cannot_be_read_may_be_open(tmp_path):
    (tmp_path / "20260102T030405Z-a").mkdir()
    assert may_be_open(tmp_path)


def test_the_sum_of_a_line_goes_by_all_lines_before_it() -> None:
    record = JournalRecord(3, 1.5, "intent", {})
    sums = {encode(record, chain)[1] for chain in ("", "a" * 64, "b" * 64)}
    assert len(sums) == 3


def test_an_empty_line_is_damage_and_no_journal_has_no_valid_part(tmp_path: Path) -> None:
    reading = decode(b"\n")
    assert (reading.torn, reading.damage, reading.valid_bytes) == (False, "line 1 at byte 0 has a wrong checksum", 0)
    reading = read_journal(tmp_path / "none")
    assert (reading.records, reading.torn, reading.valid_bytes, reading.chain) == ((), False, 0, "")
    assert "No such file" in str(reading.damage)
