"""Records and lines of a log that are very long: read, or refused in words, in little memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from pathlib import Path

import pytest
from test_logs import build, lines

from pgdyno.errors import UsageError
from pgdyno.trace.logs import LONGEST, look, segments
from pgdyno.trace.records import CsvForm, JsonForm
from pgdyno.trace.schema import Lost

LOGS = Path(__file__).parents[2] / "data" / "traces"


def test_a_line_without_end_is_refused_in_flat_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pgdyno.trace.logs as logs

    assert LONGEST > 1 << 20
    monkeypatch.setattr(logs, "LONGEST", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(
        gzip.compress(lines("18-B.csv")[0] + b'2026-11-26 06:17:45.770 UTC,"' + b"x" * (40 << 20))
    )
    with pytest.raises(UsageError, match="a record of more than"):
        build(tmp_path, tmp_path / "bomb.gz", segment=1 << 20)


def test_a_last_line_without_end_is_refused_by_its_length_and_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fits into what is read at once: looking whether it is whole took ten times its length."""
    import pgdyno.trace.logs as logs

    monkeypatch.setattr(logs, "LONGEST", 1 << 20)
    monkeypatch.setattr(CsvForm, "is_whole", lambda *_: pytest.fail("it is looked into"))
    (tmp_path / "a.csv").write_bytes(lines("18-B.csv")[0] + b'2026-11-26 06:17:45.770 UTC,"' + b"x" * (3 << 20))
    with pytest.raises(UsageError, match="line 2: a record of more than 1 MB"):
        build(tmp_path, tmp_path / "a.csv", segment=8 << 20)


def test_a_statement_of_megabytes(tmp_path: Path) -> None:
    text = (LOGS / "18-B.csv").read_text()
    (tmp_path / "pg.csv").write_text(
        text.replace("select *\nfrom things", "select '" + "x" * 3_000_000 + "'\nfrom things")
    )
    meta, rows = build(tmp_path, tmp_path / "pg.csv", segment=20_000)
    assert (meta.statements, meta.lost) == (48, Lost())
    assert max(len(row[10] or "") for row in rows) > 3_000_000


def test_a_statement_of_megabytes_in_many_lines(tmp_path: Path) -> None:
    """Each line is short; the record was longer than what DuckDB was let read at once."""
    text, long = (LOGS / "18-B.csv").read_text(), ("y, z" + 3996 * "x" + "\n") * 2000
    (tmp_path / "pg.csv").write_text(text.replace("select *\nfrom things", f"select '{long}'\nfrom things", 1))
    meta, rows = build(tmp_path, tmp_path / "pg.csv", builder="python")
    assert (meta.statements, meta.lost) == (48, Lost())
    assert max(len(row[10] or "") for row in rows) > len(long) > 8_000_000


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("text", ["x" * 99 + "\\n", "y, z" + '""' + "\n"])
def test_a_long_record_is_looked_at_in_little_memory(is_json: bool, text: str) -> None:
    """It was taken apart, which took ten times its length."""
    fields = 26 * [""]
    fields[13] = text * ((3 << 20) // len(text))
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(fields)
    form = JsonForm() if is_json else CsvForm()
    told = json.dumps({"dbname": 'a"b', "message": fields[13]}, separators=(",", ":")) + "\n"
    record = (told if is_json else buffer.getvalue()).encode()
    tracemalloc.start()
    try:
        assert form.is_whole(record)
        assert not form.is_whole(record[:-40])
        assert not form.is_whole(record[: len(record) // 2])
        assert (form.columns(record), form.database(record)) == ((0, 'a"b') if is_json else (26, ""))
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(record)
    finally:
        tracemalloc.stop()


def test_a_long_record_does_not_make_all_segments_after_it_long(tmp_path: Path) -> None:
    records = lines("18-B.csv")
    long = records[0].replace(b'"starting', b'"' + b"x" * 300_000 + b"starting", 1)
    assert len(long) > 300_000
    (tmp_path / "a.csv").write_bytes(b"".join([long, *records[1:] * 40]))
    sizes = [one.path.stat().st_size for one in segments(look(tmp_path / "a.csv"), {}, size=20_000)]
    assert max(sizes) >= 300_000
    assert max(sizes[3:]) <= 20_000
