"""Records of engines as classes of answers."""

from __future__ import annotations

from pathlib import Path

from pgdyno.trace.engine.records import RECORD, Skip
from pgdyno.trace.outcome import classes, read_records


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
