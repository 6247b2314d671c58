from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from exact_log import tally
from pgdyno.workloads.pgbench import log as pgbench_log
from pgdyno.workloads.pgbench.log import KEPT_BYTES, PgbenchLogFormat, PgbenchLogReader, parse_lines
from pgdyno.workloads.pgbench.log_words import FIRST, padded, read_columns
from pgdyno.workloads.pgbench.transaction_log import Status, TransactionLog

PLAIN = PgbenchLogFormat()
RATE = PgbenchLogFormat(lag=True)
RATE_RETRIES = PgbenchLogFormat(lag=True, retries=True)
FORMATS = [PLAIN, RATE, PgbenchLogFormat(retries=True), RATE_RETRIES]
WORDS = {
    Status.SKIPPED: "skipped",
    Status.FAILED: "failed",
    Status.SERIALIZATION: "serialization",
    Status.DEADLOCK: "deadlock",
}

# Captured from pgbench 18.6: plain, then -R with --max-tries.
CAPTURED_PLAIN = b"""\
0 1 2114 1 1795296015 788390
0 2 650 0 1795296015 789060
2 3 54 0 1795296015 790759
"""
CAPTURED_RATE = b"""\
0 1 3126 0 1795296018 810548 85 0
1 2 skipped 0 1795296018 811070 0 0
2 2 1584 0 1795296018 817741 265 3
"""

row = st.tuples(
    st.integers(0, 999),
    st.integers(1, 10**9),
    st.one_of(st.integers(0, 10**10), st.sampled_from(list(WORDS))),
    st.integers(0, 127),
    st.integers(10**9, 2 * 10**9),
    st.integers(0, 999_999),
    st.integers(0, 10**9),
    st.integers(0, 1000),
)


def write(rows: list[tuple[int, ...]], form: PgbenchLogFormat) -> bytes:
    lines = []
    for client, number, time, script, second, micros, lag, retries in rows:
        word = WORDS[time] if isinstance(time, Status) else str(time)
        optional = [str(lag)] * form.lag + [str(retries)] * form.retries
        lines.append(" ".join([str(client), str(number), word, str(script), str(second), str(micros), *optional]))
    return "".join(f"{line}\n" for line in lines).encode()


def assert_same(log: TransactionLog, rows: list[tuple[int, ...]], form: PgbenchLogFormat) -> None:
    assert log.end_us.tolist() == [r[4] * 1_000_000 + r[5] for r in rows]
    assert log.latency_us.tolist() == [0 if isinstance(r[2], Status) else r[2] for r in rows]
    assert log.status.tolist() == [r[2] if isinstance(r[2], Status) else Status.OK for r in rows]
    assert log.script.tolist() == [r[3] for r in rows]
    assert (log.lag_us is not None) == form.lag
    assert (log.retries is not None) == form.retries
    if log.lag_us is not None:
        assert log.lag_us.tolist() == [r[6] for r in rows]
    if log.retries is not None:
        assert log.retries.tolist() == [r[7] for r in rows]


@pytest.mark.parametrize("form", FORMATS)
@given(rows=st.lists(row, max_size=30))
def test_every_format_round_trips(form: PgbenchLogFormat, rows: list[tuple[int, ...]]) -> None:
    parsed = parse_lines(write(rows, form), form)
    assert parsed.malformed == 0
    assert_same(parsed.log, rows, form)


@pytest.mark.parametrize("form", FORMATS)
@given(
    rows=st.lists(row, min_size=1, max_size=10),
    junk=st.lists(
        st.binary(min_size=1, max_size=30).filter(lambda b: b"\n" not in b and b"\r" not in b), min_size=1, max_size=4
    ),
    data=st.data(),
)
def test_damaged_lines_are_counted_and_the_others_kept(
    form: PgbenchLogFormat, rows: list[tuple[int, ...]], junk: list[bytes], data: st.DataObject
) -> None:
    lines = write(rows, form).splitlines(keepends=True)
    for piece in junk:
        lines.insert(data.draw(st.integers(0, len(lines))), b"x" + piece + b"\n")
    parsed = parse_lines(b"".join(lines), form)
    assert parsed.malformed == len(junk)
    assert_same(parsed.log, rows, form)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_raise(data: bytes) -> None:
    parsed = parse_lines(data, PLAIN)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    assert len(parsed.log) + parsed.malformed == lines, "each line is a transaction or counted as none"


@pytest.mark.parametrize(
    "line",
    [
        b"0 1 500 0 1795296015",  # too few columns
        b"0 1 500 0 1795296015 1 2",  # too many
        b"0 1 500 0 1795296015 1000000",  # more than a second of microseconds
        b"0 1 5.5 0 1795296015 1",  # not a whole number
        b"0 1 500 200 1795296015 1",  # more scripts than pgbench has
        b"0 1 exploded 0 1795296015 1",  # an unknown word
        b"0 1 -7 0 1795296015 1",
        b"",
    ],
)
def test_one_bad_line_between_good_ones(line: bytes) -> None:
    parsed = parse_lines(CAPTURED_PLAIN + line + b"\n" + CAPTURED_PLAIN, PLAIN)
    assert (len(parsed.log), parsed.malformed) == (6, 1)


@pytest.mark.parametrize("line", [b" 1 500 0 1795296015 1", b"0  500 0 1795296015 1", b"0 1 500 0 1795296015 1 2"])
def test_one_bad_line_between_those_of_a_paced_log(line: bytes) -> None:
    parsed = parse_lines(CAPTURED_PLAIN + line + b"\n" + CAPTURED_PLAIN, PgbenchLogFormat(paced=True))
    assert (len(parsed.log), parsed.malformed) == (2, 1)


def test_what_a_second_is_parsed_in_is_not_asked_of_the_kernel_anew() -> None:
    turns = """if True:
        import resource
        from pgdyno.workloads.pgbench.log import KEPT_BYTES, keep_freed_memory
        keep_freed_memory()
        for turn in range(20):
            if turn == 2:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            data = [b"x" * (KEPT_BYTES // 8) for _ in range(4)]
            del data
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    faults = subprocess.run([sys.executable, "-c", turns], capture_output=True, text=True, check=True).stdout
    pages = 18 * KEPT_BYTES // 2 // resource.getpagesize()
    assert int(faults) < pages / 10, "each turn's memory would be that of the turn before"


def test_captured_lines() -> None:
    plain = parse_lines(CAPTURED_PLAIN, PLAIN).log
    assert plain.latency_us.tolist() == [2114, 650, 54]
    assert plain.script.tolist() == [1, 0, 0]
    assert plain.end_us[0] == 1795296015788390
    rate = parse_lines(CAPTURED_RATE, RATE_RETRIES).log
    counts = tally(rate)
    assert (counts.committed, counts.failed, counts.retried, counts.skipped) == (2, 0, 1, 1)


def test_the_wrong_format_is_all_malformed_and_not_misread() -> None:
    parsed = parse_lines(CAPTURED_RATE, RATE)
    assert (len(parsed.log), parsed.malformed) == (0, 3)


def test_reader_follows_growing_files_of_its_own_process_only(tmp_path: Path) -> None:
    prefix = tmp_path / "transactions"
    first, second = tmp_path / "transactions.77", tmp_path / "transactions.77.1"
    (tmp_path / "transactions.771").write_bytes(CAPTURED_PLAIN)
    reader = PgbenchLogReader(prefix, 77, PLAIN)
    assert list(reader.read_new()) == []
    first.write_bytes(CAPTURED_PLAIN[:40])
    assert [len(piece) for piece in reader.read_new()] == [1]
    first.write_bytes(CAPTURED_PLAIN)
    second.write_bytes(b"2 1 9 0 1795296014 5\n3 1 9 0 17952")
    assert [piece.latency_us.tolist() for piece in reader.read_new()] == [[650, 54], [9]]
    assert reader.files == (first, second)
    assert list(reader.read_rest()) == []
    assert reader.malformed == 1, "the unfinished last line of a killed thread"


def test_each_byte_of_a_log_is_read_once_and_never_much_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    real = pgbench_log.read_regular_into

    def read(path: Path, room: memoryview, start: int) -> int:
        reads.append(real(path, room, start))
        return reads[-1]

    monkeypatch.setattr(pgbench_log, "read_regular_into", read)
    monkeypatch.setattr(pgbench_log, "PIECE_BYTES", 1000)
    log, reader = tmp_path / "t.7", PgbenchLogReader(tmp_path / "t", 7, PLAIN)
    for _ in range(50):
        with log.open("ab") as file:
            file.write(CAPTURED_PLAIN * 30)
        assert sum(len(piece) for piece in reader.read_new()) == 90
    size = log.stat().st_size
    assert max(reads) <= 1000
    assert size <= sum(reads) <= 1.05 * size, "of a piece that ends within a line the line is read again"


def test_a_writer_that_is_faster_does_not_hold_the_reader(tmp_path: Path) -> None:
    log, reader = tmp_path / "t.7", PgbenchLogReader(tmp_path / "t", 7, PLAIN)
    log.write_bytes(CAPTURED_PLAIN)
    for number, _ in enumerate(reader.read_new()):
        assert number < 2, "what is written while it reads is for the next call"
        with log.open("ab") as file:
            file.write(CAPTURED_PLAIN)
    assert [len(piece) for piece in reader.read_new()] == [3]


def test_of_a_paced_log_every_odd_line_of_a_client_is_a_pause() -> None:
    data = b"0 1 900000 0 100 0\n0 2 1500 1 100 1\n1 1 700000 2 100 2\n0 3 900000 0 101 0\n1 2 serialization 1 101 1\n"
    parsed = parse_lines(data, PgbenchLogFormat(paced=True))
    assert parsed.log.latency_us.tolist() == [1500, 0]
    assert parsed.paused_us == 2_500_000
    assert parsed.malformed == 0
    assert len(parse_lines(data, PLAIN).log) == 5


def columns_of(data: bytes, *, counter: bool = True) -> NDArray[np.int64] | None:
    memory = padded(len(data))
    memory[FIRST : FIRST + len(data)] = data
    return read_columns(memory, FIRST + len(data), 6, counter=counter)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 9_999_999),
            st.integers(1, 10**9),
            st.integers(0, 10**8),
            st.integers(0, 11),
            st.one_of(st.just(1_700_000_000), st.integers(10**7, 10**10)),
            st.integers(0, 999_999),
        ),
        min_size=1,
    )
)
def test_the_usual_form_of_script_epoch_and_client_reads_as_every_other(rows: list[tuple[int, ...]]) -> None:
    data = "".join(f"{' '.join(map(str, row))}\n" for row in rows).encode()
    whole, without = columns_of(data), columns_of(data, counter=False)
    assert whole is not None
    assert whole.T.tolist() == [list(row) for row in rows]
    assert without is not None
    assert without[[0, 2, 3, 4, 5]].tolist() == whole[[0, 2, 3, 4, 5]].tolist()


@pytest.mark.parametrize(
    "line",
    [
        b"5 1 0 3968319 67 5679173",  # a space where an epoch of ten digits would be
        b"0 1 2 0 1700000000 1234567890123456",
        b"0  2 0 1700000000 5",
        b"0 2 0 1700000000 5",
        b"0\t1 2 0 1700000000 5",
        b"0 1 2\x100 1700000000 5",
        b"12345678901234567 1 2 0 1700000000 5",
        b"1\n2\n3 4 5 6",  # ends of lines so close together that eight bytes hold two
        b"\n\n\n 1 2 3 4 5",
    ],
)
def test_only_whole_lines_of_the_form_are_read_at_once(line: bytes) -> None:
    words = line.split(b" ")
    found = columns_of(b"1 2 3 4 1700000000 6\n" + line + b"\n", counter=False)
    if len(words) == 6 and all(word.isdigit() and len(word) < 16 for word in words):
        assert found is not None
        assert [int(value) for value in found[:, 1]][2:] == [int(word) for word in words][2:]
    else:
        assert found is None
