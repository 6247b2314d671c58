"""Records of engines as classes of answers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import duckdb
import pytest

from made_trace import made_trace
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.trace import outcome_file, parquet
from pgdyno.trace.compared_rows import side_of
from pgdyno.trace.cut import CutOptions, cut_trace
from pgdyno.trace.engine.records import RECORD, Skip
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.outcome import Records, classes, read_records
from pgdyno.trace.outcome_file import KILLED, TAPE, OutcomeFacts, OutcomeWriter, read_facts, recover
from pgdyno.trace.parquet import connection, read_rows, work_folder

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def record(came: bytes, expected: bytes, skip: Skip = Skip.SENT) -> bytes:
    return RECORD.pack(3, 4, 10, 11, 12, 13, 1, 0, 0, 5, 60, came, expected, skip)


def test_answers_are_classed_and_a_cut_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.records"
    ok = b"\0" * 5
    whole = [record(ok, ok), record(b"23505", b"23505"), record(b"23505", ok), record(ok, b"23505"),
             record(b"40P01", b"23505"), record(ok, ok, Skip.REFUSED)]  # fmt: skip
    path.write_bytes(b"".join(whole) + whole[0][:50])
    found = read_records(path)
    assert list(classes(found)) == ["success", "expected", "new", "missing", "changed", "skipped"]
    assert found[0].tolist() == (3, 4, 10, 11, 12, 13, 1, 0, 0, 5, 60, b"", b"", 0)
    assert list(classes(read_records(path, 4))) == ["changed", "skipped"]
    assert len(read_records(path, 9)) == 0


def test_a_run_that_was_killed_can_be_read_up_to_the_kill_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok, folder = b"\0" * 5, tmp_path / "x.outcome"
    numbers = [RECORD.pack(0, seq, 10, 11, 12, 13, 1, 0, 0, 5, 60, ok, ok, Skip.SENT) for seq in range(5)]
    facts = OutcomeFacts(1, "t", "d", "db", "18", "1", "python", 1.0, "schedule", "session", 1, 0.0, 1.0)
    writer = OutcomeWriter(folder, facts)
    (file,) = writer.files
    file.write_bytes(b"".join(numbers[:2]))
    writer.take()
    file.write_bytes(b"".join(numbers) + numbers[0][:30])
    (folder / TAPE).touch()
    with work_folder(folder / TAPE) as work:
        (work / "gates.parquet").touch()
        (left,) = folder.glob(".*.work")
        left.rename(kept := tmp_path / "kept")
    kept.rename(left)
    recover(folder)
    assert file.exists(), "who writes it lives"
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: False)
    for _ in range(2):
        recover(folder)
        seqs = [row[0] for part in sorted(folder.glob("part-*.parquet")) for row in read_rows(part, ["seq"])]
        assert sorted(seqs) == [0, 1, 2, 3, 4]
        assert read_facts(folder).ended == KILLED
        assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"outcome.json", "part"}


def numbered(session: int, seq: int) -> bytes:
    ok = b"\0" * 5
    return RECORD.pack(session, seq, 10, 11, 12, 13, 1, 0, 0, 5, 60, ok, ok, Skip.SENT)


def test_what_a_killed_run_left_is_recovered_some_at_a_time_and_none_of_it_twice_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two engines; whoever recovers their records is killed once as well, after each of the parts that it makes."""
    folder, most = tmp_path / "x.outcome", 3
    facts = OutcomeFacts(1, "t", "d", "db", "18", "1", "python", 1.0, "schedule", "session", 2, 0.0, 1.0)
    writer = OutcomeWriter(folder, facts)
    kept = [[(session, seq) for seq in range(8) for session in (number, number + 2)] for number in range(2)]
    for file, pairs in zip(writer.files, kept, strict=True):
        file.write_bytes(b"".join(numbered(*pair) for pair in pairs[:5]))
    writer.take()
    for file, pairs in zip(writer.files, kept, strict=True):
        file.write_bytes(b"".join(numbered(*pair) for pair in pairs))
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: False)
    monkeypatch.setattr(outcome_file, "_ONE_PART", most)
    write, sizes, kills = outcome_file.write_part, list[int](), 0

    def killed_after(path: Path, records: Records) -> None:
        write(path, records)
        sizes.append(len(records))
        if kills < 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(outcome_file, "write_part", killed_after)
    while True:
        try:
            recover(folder)
            break
        except KeyboardInterrupt:
            kills += 1
    assert kills > 4
    assert max(sizes) <= most
    found = [row for part in folder.glob("part-*.parquet") for row in read_rows(part, ["session", "seq"])]
    assert sorted(found) == sorted(pair for pairs in kept for pair in pairs)
    assert read_facts(folder).ended == KILLED


@pytest.mark.parametrize(
    ("of", "kept"),
    [
        ("trace", "half of what its log does"), ("outcome", "can be compared"), ("tape", "beside the outcome"),
        ("temporary files", "TMPDIR"),
    ],
)  # fmt: skip
def test_a_full_disk_is_that_of_what_is_written(of: str, kept: str) -> None:
    spilled = (
        "failed to offload data block of size 256.0 KiB\nThis limit was set by the 'max_temp_directory_size' setting."
    )
    written = "Could not write file: No space left on device"
    for error in (duckdb.IOException(written), duckdb.OutOfMemoryException(spilled), FULL):
        with (
            pytest.raises(EnvironmentUnsuitable, match=f"no room is left on the disk of the {of}") as told,
            connection(of=of),
        ):
            raise error
        assert kept in str(told.value.hint)


def test_a_trace_whose_facts_find_no_room_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are written first: they alone stood under its name, and `trace cut` ended without a hint."""
    whole = made_trace(tmp_path / "whole.parquet", sessions=1, seconds=2.0)

    def full(path: Path, content: str) -> None:
        raise FULL

    monkeypatch.setattr(parquet, "write_output", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(EnvironmentUnsuitable, match="no room is left on the disk of the trace") as told:
        cut_trace(whole, tmp_path / "part.parquet", CutOptions(to_s=1.0))
    assert told.value.hint
    assert set(tmp_path.iterdir()) == before


def test_records_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_file, "_LOOKED_AT", 2)
    ok = b"\0" * 5
    writer = OutcomeWriter(
        tmp_path / "x", OutcomeFacts(1, "t", "d", "db", "18", "1", "python", 1.0, "schedule", "session", 2, 0.0, 1.0)
    )
    writer.files[1].write_bytes(record(ok, ok) * 5)
    assert [len(piece) for piece in writer.records()] == [2, 2, 1]


@pytest.mark.parametrize("name", ["part-00000.parquet", "engine-0.records"])
def test_a_pipe_of_a_stranger_in_the_folder_of_a_killed_run_is_not_waited_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "x.outcome"
    OutcomeWriter(folder, OutcomeFacts(1, "t", "d", "db", "18", "1", "python", 1.0, "schedule", "session", 1, 0.0, 1.0))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: False)
    with pytest.raises(UsageError, match=r"fifo|cannot be read|not a regular file"):
        recover(folder)


def test_a_run_that_ended_before_an_answer_is_told_as_that(tmp_path: Path) -> None:
    facts = OutcomeFacts(1, "t", "d", "db", "18", "1", "python", 1.0, "schedule", "session", 1, 0.0, 1.0)
    OutcomeWriter(tmp_path / "x", facts).finish(KILLED, RunTally(), {})
    (tmp_path / "y").mkdir()
    for name, words in (("x", f"its run ended before one came ({KILLED})"), ("y", "it has no part-")):
        with pytest.raises(UsageError) as told:
            side_of(tmp_path / name)
        assert words in str(told.value)
