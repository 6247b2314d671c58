"""Logs as files: cut anywhere, packed, rotated, in other encodings and zones, damaged, and from strangers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from io import DEFAULT_BUFFER_SIZE
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.logs import codec, look, segments
from pgdyno.trace.records import CsvForm
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import CapturedServer, Lost, TraceMeta
from trace_rows import rows_of

LOGS = Path(__file__).parents[2] / "data" / "traces"
PREFIX = "%m [%p] %c:%l %q%u@%d %a %v %x %e "


def build(tmp_path: Path, *logs: Path, **options: Any) -> tuple[TraceMeta, list[tuple[Any, ...]]]:
    out = tmp_path / "out.parquet"
    meta = build_trace(logs, out, BuildOptions(**options))
    return replace(meta, digest=""), rows_of(out)


def lines(name: str) -> list[bytes]:
    """Return the records of a fixture."""
    return list(CsvForm().records((LOGS / name).read_bytes()))


@pytest.mark.parametrize(
    ("name", "size"), [("18-A.csv", 900), ("18-B.csv", 2777), ("15-B.json", 5000), ("18-A.log", 1500)]
)
def test_a_cut_anywhere_gives_the_same_trace(tmp_path: Path, name: str, size: int) -> None:
    options = {"prefix": PREFIX} if name.endswith(".log") else {}
    whole = build(tmp_path, LOGS / name, **options)
    assert build(tmp_path, LOGS / name, segment=size, **options) == whole


field = st.text(st.sampled_from('a",\n\r x'), max_size=8)


@given(st.lists(st.lists(field, min_size=1, max_size=4), min_size=1, max_size=8), st.integers(0, 400))
def test_a_segment_ends_where_a_record_does(rows: list[list[str]], at: int) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    data = buffer.getvalue().encode()
    end = CsvForm().end(data, at)
    assert end <= at
    records = list(CsvForm().records(data))
    assert b"".join(records) == data
    ends = [sum(map(len, records[:count])) for count in range(len(records) + 1)]
    assert end == max(one for one in ends if one <= min(at, len(data)))


def test_packed_and_rotated_files_in_any_order(tmp_path: Path) -> None:
    whole = build(tmp_path, LOGS / "18-B.csv")
    records = lines("18-B.csv")
    parts = [b"".join(records[:60]), b"".join(records[60:130]), b"".join(records[130:])]
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(parts[1]))
    (tmp_path / "c.csv").write_bytes(parts[0])
    last = tmp_path / "a.csv"
    last.write_bytes(parts[2])
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", "--rm", last], check=True)
        last = tmp_path / "a.csv.zst"
    assert build(tmp_path, last, tmp_path / "b.csv.gz", tmp_path / "c.csv") == whole


def test_what_the_edges_of_a_log_cut_is_counted(tmp_path: Path) -> None:
    records = lines("18-A.csv")
    begin = next(place for place, one in enumerate(records) if b"execute S_2" in one)
    end = next(place for place, one in enumerate(records) if b"statement: rollback to" in one)
    (tmp_path / "pg.csv").write_bytes(b"".join(records[begin + 1 : end + 1]))
    meta, rows = build(tmp_path, tmp_path / "pg.csv")
    assert meta.lost == Lost(cut_sessions=1, cut_statements=2)
    implied = [row for row in rows if row[20]]
    assert [row[2] for row in implied] == ["connect", "disconnect"]
    assert {row[1] for row in rows if row[0] == 0} == set(range(sum(row[0] == 0 for row in rows)))


@pytest.mark.parametrize("name", ["18-A.csv", "18-B.csv", "13-B.csv"])
@pytest.mark.parametrize("segment", [700, 1 << 20])
def test_the_rest_of_a_transaction_that_began_before_the_log_is_never_sent(
    tmp_path: Path, name: str, segment: int
) -> None:
    """Without its begin each statement would be committed by itself."""
    records = lines(name)
    begin = next(place for place, one in enumerate(records) if b"statement: begin" in one)
    (tmp_path / "pg.csv").write_bytes(b"".join(records[begin + 1 + name.endswith("A.csv") :]))
    meta, rows = build(tmp_path, tmp_path / "pg.csv", segment=segment)
    assert (meta.refused, meta.lost.cut_sessions) == ({Barred.BEGUN: 7}, 1)
    told = [(row[10], row[21]) for row in rows if row[0] == 0 and row[2] in ("simple", "extended")]
    assert [sql for sql, refused in told if refused == Barred.BEGUN][-1] == "commit"
    assert [sql for sql, refused in told if refused is None][:3] == ["begin", "select 1/0", "rollback"]
    never_ended = records[begin + 1 + name.endswith("A.csv") :]
    end = next(place for place, one in enumerate(never_ended) if b"statement: commit" in one)
    (tmp_path / "pg.csv").write_bytes(b"".join(never_ended[:end]))
    assert build(tmp_path, tmp_path / "pg.csv", segment=segment)[0].refused == {Barred.BEGUN: 6}


@pytest.mark.parametrize(("age_s", "is_older"), [(60, True), (0, False)])
def test_a_session_whose_lines_are_all_there_is_older_than_its_log_by_its_start(
    tmp_path: Path, age_s: int, is_older: bool
) -> None:
    """As where a capture switches the logging on: what was open before has written no line."""
    whole = [next(csv.reader(io.StringIO(one.decode(), newline=""))) for one in lines("18-B.csv")]
    begin = next(place for place, one in enumerate(whole) if one[13].endswith("statement: begin"))
    rest, numbers = whole[begin + 1 :], dict[str, int]()
    old = rest[0][5]
    for one in rest:
        started, _, pid = one[5].partition(".")
        numbers[one[5]] = numbers.get(one[5], 0) + 1
        one[6] = str(numbers[one[5]])
        one[5] = f"{int(started, 16) - age_s:x}.{pid}" if one[5] == old else one[5]
    with (tmp_path / "pg.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rest)
    meta, _ = build(tmp_path, tmp_path / "pg.csv")
    assert (meta.refused, meta.lost.cut_sessions) == (({Barred.BEGUN: 7}, 1) if is_older else ({}, 0))


def test_a_session_that_began_before_the_log_and_was_in_no_transaction_is_sent_whole(tmp_path: Path) -> None:
    records = lines("18-B.csv")
    first = next(place for place, one in enumerate(records) if b"statement: begin" in one)
    (tmp_path / "pg.csv").write_bytes(b"".join(records[first:]))
    meta, _ = build(tmp_path, tmp_path / "pg.csv")
    assert (meta.refused, meta.lost.cut_sessions) == ({}, 1)


def test_missing_lines_are_counted(tmp_path: Path) -> None:
    records = lines("18-B.csv")
    at = next(place for place, one in enumerate(records) if b"bind S_2" in one)
    (tmp_path / "pg.csv").write_bytes(b"".join(records[:at] + records[at + 2 :]))
    meta, _ = build(tmp_path, tmp_path / "pg.csv")
    assert meta.lost.gaps == 2


def test_records_that_are_none_are_counted(tmp_path: Path) -> None:
    records = [one for one in lines("18-B.csv") if one.count(b"\n") == 1]
    (tmp_path / "pg.csv").write_bytes(b"".join([*records[:40], b"no,record\n", *records[40:], b"none,either\n"]))
    meta, _ = build(tmp_path, tmp_path / "pg.csv")
    assert meta.lost.unreadable == 2


def test_a_file_given_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="come twice"):
        build(tmp_path, LOGS / "18-B.csv", LOGS / "18-B.csv")


def test_two_formats_of_one_load_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="several formats"):
        build(tmp_path, LOGS / "18-B.csv", LOGS / "18-B.json")


def test_a_database_in_another_encoding(tmp_path: Path) -> None:
    whole = build(tmp_path, LOGS / "18-B.csv")
    text = (LOGS / "18-B.csv").read_text().replace("☃", "§")
    (tmp_path / "pg.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r'pg.csv" line \d+: not in utf-8, database "postgres"'):
        build(tmp_path, tmp_path / "pg.csv")
    meta, rows = build(tmp_path, tmp_path / "pg.csv", encodings={"postgres": codec("LATIN1")})
    assert meta.statements == whole[0].statements
    assert [row[10] for row in rows] == [row[10] and row[10].replace("☃", "§") for row in whole[1]]


def test_a_zone_that_is_not_utc(tmp_path: Path) -> None:
    whole = build(tmp_path, LOGS / "18-B.csv")
    text = (LOGS / "18-B.csv").read_text().replace(" 06:17:45", " 07:17:45").replace(" 06:17:46", " 07:17:46")
    (tmp_path / "pg.csv").write_text(text.replace(" UTC", " CET"))
    with pytest.raises(UsageError, match='times are in "CET"'):
        build(tmp_path, tmp_path / "pg.csv")
    assert build(tmp_path, tmp_path / "pg.csv", log_timezone="Europe/Berlin")[1] == whole[1]
    (tmp_path / "pg.csv").write_text(text.replace(" UTC", " +01"))
    assert build(tmp_path, tmp_path / "pg.csv")[1] == whole[1]


def test_values_that_the_server_cut_are_an_error(tmp_path: Path) -> None:
    text = (LOGS / "18-B.csv").read_text()
    assert "'" + "x" * 60 + "'" in text
    (tmp_path / "pg.csv").write_text(text.replace("'" + "x" * 60 + "'", "'" + "x" * 90 + "...'"))
    with pytest.raises(UsageError, match="only a part of 1 statement"):
        build(tmp_path, tmp_path / "pg.csv")
    assert build(tmp_path, tmp_path / "pg.csv", allow_truncated=True)[0].lost == Lost(truncated=1)


def test_lines_of_others_in_stderr_are_counted(tmp_path: Path) -> None:
    whole = build(tmp_path, LOGS / "18-B.log", prefix=PREFIX)
    (tmp_path / "pg.log").write_bytes((LOGS / "18-B.log").read_bytes() + b"cp: no space left\n")
    meta, rows = build(tmp_path, tmp_path / "pg.log", prefix=PREFIX)
    assert (meta.lost, rows) == (Lost(unreadable=1), whole[1])


def test_a_prefix_without_session_numbers(tmp_path: Path) -> None:
    whole = build(tmp_path, LOGS / "18-B.log", prefix=PREFIX)
    text = (LOGS / "18-B.log").read_text()
    text = re.sub(r"(?m)^(\S+ \S+ \S+ \[\d+\]) \S+ ", r"\1 ", text)
    text = re.sub(r"(?m)^(\S+ \S+ \S+ \[\d+\] \S+@\S+ .*?) (?:\d+/\d+)? \d+ ([0-9A-Z]{5}) ", r"\1 \2 ", text)
    (tmp_path / "pg.log").write_text(text)
    meta, rows = build(tmp_path, tmp_path / "pg.log", prefix="%m [%p] %q%u@%d %a %e ")
    assert meta.lost == Lost()
    ours = [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18]
    assert [[row[at] for at in ours] for row in rows] == [[row[at] for at in ours] for row in whole[1]]


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("%u@%d ", "no time"),
        ("%m %u ", "sessions apart"),
        ("%m %p %y ", '"%y" is no escape'),
        ("%m %c <> ", "no line begins"),
    ],
)
def test_a_prefix_that_does_not_do(tmp_path: Path, prefix: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(tmp_path, LOGS / "18-B.log", prefix=prefix)


GARBAGE = {
    "noise": os.urandom(5000),
    "nul.csv": (LOGS / "18-B.csv").read_bytes()[:9000] + b"\0" * 500,
    "half.csv": (LOGS / "18-B.csv").read_bytes()[:9000],
    "columns.csv": b'2026-11-26 06:17:45.770 UTC,"a","b",3,4\n',
    "json.json": b'{"timestamp":"2026-11-26 06:17:45.770 UTC"' + b'{"a":' * 3000 + b"\n",
    "list.json": b'{"timestamp":"2026-11-26 06:17:45.770 UTC","message":[1,{"a":2}]}\n[1]\nnull\n',
    "damaged.gz": gzip.compress((LOGS / "18-B.csv").read_bytes())[:-300],
    "damaged.zst": b"\x28\xb5\x2f\xfd" + bytes(range(1, 200)),
    "quote.csv": b'2026-11-26 06:17:45.770 UTC,"a","b\n' * 300,
    "times.csv": b"".join(
        f'{year}-01-01 00:00:00.000 UTC,"a","b",1,,6b07ca2c.4c,{n},,,1/1,0,LOG,0,"{said} x",,,,,,,,,"",,,\n'.encode()
        for n, year, said in (
            (1, "0001", "statement:"),
            (2, "9998", "duration: 99999999999999999999.0 ms  statement:"),
            (3, "9999", "duration: 999999999999.0 ms  statement:"),
        )
    ),
    "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_one_clear_error_or_counted(tmp_path: Path, name: str) -> None:
    log = tmp_path / name
    log.write_bytes(GARBAGE[name])
    try:
        meta, _ = build(tmp_path, log, prefix=PREFIX)
    except PgdynoError:
        assert [path.name for path in tmp_path.iterdir()] == [name]
    else:
        assert meta.lost.unreadable or name == "times.csv"


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd here")
def test_a_log_that_takes_gigabytes_to_unpack_is_refused_in_words(tmp_path: Path) -> None:
    packed = subprocess.run(
        ["zstd", "-q", "-c", "--long=31"], input=(LOGS / "18-B.csv").read_bytes(), capture_output=True, check=True
    )
    (tmp_path / "pg.csv.zst").write_bytes(packed.stdout)
    with pytest.raises(UsageError, match="takes more than 128 MB of memory to unpack") as refused:
        build(tmp_path, tmp_path / "pg.csv.zst")
    assert "--long=31" in str(refused.value.hint)


def test_a_log_that_shrinks_while_it_is_read_ends_where_it_is_cut(tmp_path: Path) -> None:
    whole, log = (LOGS / "18-B.csv").read_bytes(), tmp_path / "pg.csv"
    log.write_bytes(
        whole * (2 + 2 * DEFAULT_BUFFER_SIZE // len(whole))
    )  # more than Python reads ahead, 128 kB from 3.14 on
    given = segments(look(log), {}, size=9000)
    first = next(given)
    assert first.unreadable == 0
    os.truncate(log, 20_005)
    assert sum(one.unreadable for one in given) == 1


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(UsageError, match="cannot be read"):
        build(tmp_path, tmp_path / "log")


def test_the_folder_of_a_capture(tmp_path: Path) -> None:
    from pgdyno.trace.capture_record import CapturedLog, CaptureRecord, SourceDatabase, SourceEnd, record_text

    log = (LOGS / "18-B.csv").read_bytes()
    folder = tmp_path / "capture"
    folder.mkdir()
    (tmp_path / "server.csv").write_bytes(b"older lines\n" + log + b"newer lines\n")
    record = CaptureRecord(
        version=1, id="c", target="t", host=None, system_identifier="77", server_version=180006, data_directory="/d",
        style="csvlog B", began_at="2026-11-26T06:17:45+00:00", lsn="0/1", seconds=1, max_bytes=1, clock_ahead_s=0,
        round_trip_s=0, settings={"work_mem": "4MB"}, sequences={"postgres.public.s": 7},
        databases=(SourceDatabase("postgres", "UTF8", None),),
        logs=(CapturedLog(str(tmp_path / "server.csv"), "csvlog", 12, 12 + len(log)),),
    )  # fmt: skip
    (folder / "capture.json").write_text(record_text(record))
    whole = build(tmp_path, LOGS / "18-B.csv")
    meta, rows = build(tmp_path, folder)
    assert rows == whole[1]
    xids = sorted({row[13] for row in rows if row[13]})
    order = [xids[2], xids[0], xids[1]]
    told = [f'{xid},0/{at:X},5,"[[""t"",{{""a"":1}}]]"' for xid, at in zip(order, (0xF, 0x10, 0x100), strict=True)]
    (folder / "commits.csv").write_text("\n".join(["xid,commit_lsn,commit_us,keys", *reversed(told)]) + "\n")
    (folder / "capture.json").write_text(record_text(replace(record, commits="commits.csv")))
    places = {(row[13], row[14]) for row in build(tmp_path, folder)[1] if row[13] in order}
    assert places == {(xid, place) for place, xid in enumerate(order)}
    assert (meta.system_identifier, meta.server_version, meta.sequences) == ("77", 180006, {"postgres.public.s": 7})
    seen = CapturedServer("2026-11-27T10:00:00.000001+00:00", 8, 1234, "boot")
    hole = "ALTER ROLE batch SET log_min_duration_statement = -1: its sessions are not logged"
    for end, until in ((SourceEnd("x", "killed"), "0/1"), (SourceEnd("x", "time", "0/FF"), "0/FF"), (None, "0/1")):
        (folder / "capture.json").write_text(record_text(replace(record, end=end, holes=(hole,), server=seen)))
        found = build(tmp_path, folder)[0]
        assert (found.captured_until, found.holes, found.captured_server) == (until, (hole,), seen)
    (folder / "capture.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(UsageError, match="version 99"):
        build(tmp_path, folder)


def test_an_error_at_the_commit_belongs_to_the_statement_before_it(tmp_path: Path) -> None:
    records = lines("18-B.csv")
    at = next(place for place, one in enumerate(records) if b"execute S_2" in one)
    late = records[at].replace(b",LOG,00000,", b",ERROR,23503,")
    late = re.sub(rb'"duration:.*?",(".*?"),', rb'"violates foreign key",,', late, flags=re.DOTALL)
    numbered = re.search(rb",[0-9a-f]{8}\.[0-9a-f]+,(\d+),", late)
    assert numbered
    (tmp_path / "pg.csv").write_bytes(b"".join([*records[: at + 1], late, late]))
    with pytest.raises(UsageError, match="come twice"):
        build(tmp_path, tmp_path / "pg.csv")
    begin, end = numbered.span(1)
    after = [late[:begin] + str(int(numbered[1]) + more).encode() + late[end:] for more in (1, 2)]
    whole = build(tmp_path, LOGS / "18-B.csv")[1]
    (tmp_path / "pg.csv").write_bytes(b"".join([*records[: at + 1], *after]))
    meta, rows = build(tmp_path, tmp_path / "pg.csv", allow_truncated=True)
    sent = [row for row in rows if row[2] != "disconnect"]
    assert [row[:14] for row in sent] == [row[:14] for row in whole if row[2] != "disconnect"][: len(sent)]
    assert sent[-1][16] == "23503"
    assert meta.lost.unworded == 1


def test_what_stands_behind_the_end_of_the_part_that_counts_says_nothing_of_a_log(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(b"words of before\n\0\0\0")
    assert look(path, 0, 16).format == "stderr"
    assert look(path, 16, 16).format == "empty"
    with pytest.raises(UsageError, match="NUL bytes"):
        look(path, 0, 17)
