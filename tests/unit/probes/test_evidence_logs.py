"""Logs as evidence: the lines of real servers, cut lines, other formats and languages, arbitrary bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.evidence import LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.checkpoint_lines import parse_complete, started_cause, too_frequent_gap
from pgdyno.probes.evidence.derive import oom_kills
from pgdyno.probes.evidence.log_files import local_parts
from pgdyno.probes.evidence.log_lines import LogFormat, format_of, parse_stderr, time_in
from pgdyno.probes.evidence.log_reader import LogReader

LOGS = Path(__file__).parents[2] / "data" / "pg-logs"
HINT = 'Consider increasing the configuration parameter "max_wal_size".'
WHOLE = (
    "checkpoint complete: wrote 368 buffers (4.5%), wrote 3 SLRU buffers; 0 WAL file(s) added, 1 removed, 0 recycled; "
    "write=0.145 s, sync=0.167 s, total=0.382 s; sync files=37, longest=0.029 s, average=0.005 s; "
    "distance=10975 kB, estimate=10976 kB; lsn=0/403AFF8, redo lsn=0/22031D0"
)


def read(*blocks: bytes, language: str | None = None) -> LogEvidence | Unknown:
    reader = LogReader(language)
    reader.read(blocks)
    return reader.evidence(("a.log",))


def known(*blocks: bytes) -> LogEvidence:
    found = read(*blocks)
    assert isinstance(found, LogEvidence)
    return found


@pytest.mark.requirement("R-PG-01", "R-PG-02")
@pytest.mark.parametrize("major", [13, 14, 15, 16, 17, 18])
def test_every_version_writes_lines_that_are_understood_whole(major):
    text = (LOGS / f"checkpoints_pg{major}.log").read_bytes()
    found = known(text)
    assert found.unparsed == 0
    assert found.lines == text.count(b"\n")
    assert len(found.checkpoints) == text.count(b"checkpoint complete")
    assert len(found.too_frequent_s) == text.count(b"too frequently")
    assert sum(found.starts.values()) == text.count(b"checkpoint starting")
    assert found.hints == (HINT,)
    assert "checkpoints are occurring too frequently (" in found.quotes["too_frequent"]
    assert "starting: wal" in found.quotes["wal_start"]
    assert "wrote 0 buffers" not in found.quotes["wal_complete"]  # the last of all is that of the shutdown
    for checkpoint in found.checkpoints:
        fields = asdict(checkpoint)
        assert (checkpoint.lsn is not None) == (major >= 16)
        assert (checkpoint.redo_lsn is not None) == (major >= 16)
        slru = fields.pop("slru_buffers")
        assert isinstance(slru, int) == (major >= 18)
        assert checkpoint.cause in ("wal", "requested", "shutdown")
        assert not [name for name, value in fields.items() if isinstance(value, Unknown | dict)]


@pytest.mark.requirement("R-PG-01", "R-PG-02")
def test_line_of_the_tuning_guide_cut_in_the_middle():
    found = known((LOGS / "checkpoint_epas14.log").read_bytes())
    (checkpoint,) = found.checkpoints
    assert (checkpoint.buffers, checkpoint.buffers_share) == (483625, 0.461)
    assert (checkpoint.wal_added, checkpoint.wal_removed, checkpoint.wal_recycled) == (0, 596, 0)
    assert (checkpoint.write_s, checkpoint.sync_s, checkpoint.total_s) == (5.702, 2.924, 9.524)
    assert checkpoint.cause == "wal"
    assert checkpoint.at == "2023-03-16 11:32:54 EDT"
    assert isinstance(checkpoint.sync_files, Unknown)
    assert isinstance(checkpoint.distance_bytes, Unknown)
    assert found.too_frequent_s == (10,)
    assert found.hints == (HINT,)


@pytest.mark.requirement("R-PG-02")
@given(st.integers(0, len(WHOLE)))
def test_cut_line_never_gives_another_number(cut):
    whole = parse_complete(WHOLE, at="t", cause="wal", is_whole=True)
    part = parse_complete(WHOLE[:cut], at="t", cause="wal", is_whole=False)
    if part is None:
        return
    for name, value in asdict(whole).items():
        got = getattr(part, name)
        assert got is None or isinstance(got, Unknown) or got == value, name


@pytest.mark.requirement("R-PG-01", "R-PG-02")
@given(st.sampled_from(sorted(path.name for path in LOGS.glob("checkpoints_*.log"))), st.data())
def test_cut_log_never_invents_an_event(name, data):
    text = (LOGS / name).read_bytes()
    whole = known(text)
    first, last = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    reader = LogReader()
    reader.read([text[first:last]], starts_whole=first == 0)
    part = reader.evidence(("cut.log",))
    if isinstance(part, Unknown):  # what is left holds no message at all
        kept = text[first:last] if first == 0 else text[first:last].partition(b"\n")[2]
        assert kept
        assert b"LOG:  " not in kept
        return
    assert len(part.checkpoints) <= len(whole.checkpoints)
    assert set(part.too_frequent_s) <= set(whole.too_frequent_s)
    known_sizes = {value.distance_bytes for value in whole.checkpoints}
    seen = {value.distance_bytes for value in part.checkpoints if not isinstance(value.distance_bytes, Unknown)}
    assert seen <= known_sizes


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\xff\x1b[31m not a log \xfe\n",
        b"Nov 22 14:00:01 db1 CRON[1]: session opened\n",
        b'{"level":"info","msg":"ready"}\n',
    ],
)
def test_a_file_of_something_else_is_unknown_and_not_a_quiet_log(text):
    found = read(text * 3)
    assert isinstance(found, Unknown)
    assert found.reason == "a.log is not a server log (none of its 3 lines is a message of PostgreSQL)"


def test_a_window_without_a_line_is_a_quiet_log():
    assert isinstance(read(b""), LogEvidence)


@given(st.lists(st.binary(max_size=400), max_size=8), st.sampled_from([None, "C", "de_DE.UTF-8"]))
def test_arbitrary_bytes_never_raise(blocks, language):
    read(*blocks, language=language)


@given(
    st.sampled_from(
        [
            b'{"timestamp":"2026-11-21 19:15:12.238 UTC","error_severity":"LOG",'
            b'"message":"checkpoint starting: wal"}\n',
            b'2026-11-21 19:15:12.238 UTC,,,1,,6a.1,1,,2026-11-21 19:15:11 UTC,,0,LOG,00000,"checkpoint starting: wal"'
            b',,,,,,,,,"","checkpointer",,0\n',
            b'2026-11-21 19:15:12.238 UTC [1] LOG:  temporary file: path "base/pgsql_tmp/1.0", size 1234567\n',
        ]
    ),
    st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=3)), max_size=5),
    st.integers(1, 97),
)
def test_damaged_lines_of_each_format_never_raise(line, damages, step):
    text = bytearray(line * 5)
    for at, junk in damages:
        text[at:at] = junk
    read(*(bytes(text[i : i + step]) for i in range(0, len(text), step)))


@pytest.mark.parametrize("step", [1, 7, 64, 5000])
def test_blocks_may_end_anywhere(step):
    text = (LOGS / "checkpoints_pg18.log").read_bytes()
    parts = [text[i : i + step] for i in range(0, len(text), step)]
    assert known(*parts) == known(text)


def test_csvlog_and_jsonlog_say_what_stderr_says():
    rows, records, plain = io.StringIO(), [], []
    writer = csv.writer(rows, lineterminator="\n")
    messages = [
        ("LOG", "checkpoints are occurring too frequently (3 seconds apart)", HINT),
        ("LOG", "checkpoint starting: wal", ""),
        ("LOG", WHOLE, ""),
        ("ERROR", 'relation "a\nb" does not exist', ""),
        ("LOG", 'temporary file: path "base/pgsql_tmp/pgsql_tmp7.0", size 5000', ""),
        ("ERROR", "deadlock detected", ""),
        ("LOG", "process 71 still waiting for ShareLock on transaction 5 after 1000.123 ms", ""),
        ("LOG", 'automatic vacuum of table "a.b.c": index scans: 0\npages: 0 removed', ""),
        ("LOG", 'automatic analyze of table "a.b.c" system usage: CPU', ""),
    ]
    for severity, message, hint in messages:
        at = "2026-11-21 19:15:12.238 UTC"
        statement = "UPDATE t SET secret = 'LOG:  checkpoint starting: time'"
        row = [at, "u", "d", 1, "", "6a.1", 1, "", at, "", 0, severity, "00000", message, "", hint]
        writer.writerow([*row, "", "", "", statement, "", "", "app", "client backend", "", 0])
        records.append(
            json.dumps(
                {"timestamp": at, "error_severity": severity, "message": message, "hint": hint, "statement": statement}
            )
        )
        plain.append(f"{at} [1] u@d {severity}:  " + message.replace("\n", "\n\t"))
        plain += [f"{at} [1] u@d HINT:  {hint}"] if hint else []
        plain.append(f"{at} [1] u@d STATEMENT:  {statement}")
    found = [
        known(rows.getvalue().encode()),
        known("\n".join(records).encode() + b"\n"),
        known("\n".join(plain).encode() + b"\n"),
    ]
    for evidence in found:
        assert evidence.too_frequent_s == (3,)
        assert evidence.hints == (HINT,)
        assert evidence.starts == {"wal": 1}
        assert evidence.checkpoints[0].distance_bytes == 10975 * 1024
        assert (evidence.temp_files, evidence.temp_bytes, evidence.largest_temp_bytes) == (1, 5000, 5000)
        assert (evidence.deadlocks, evidence.lock_waits) == (1, 1)
        assert (evidence.autovacuums, evidence.autoanalyzes) == (1, 1)
        assert "secret" not in repr(evidence)
        assert evidence.began == "2026-11-21 19:15:12.238 UTC"


def test_csvlog_read_from_the_middle_of_a_quoted_statement():
    at = "2026-11-21 19:15:12.238 UTC"
    tail = ',,,,,,,,,"","checkpointer",,0\n'
    line = f'{at},,,1,,6a.1,1,,{at},,0,LOG,00000,"checkpoint starting: wal"{tail}'
    reader = LogReader()
    reader.read([f'SELECT 1,\nWHERE x = ""a"""\n"{tail}{line}{line}'.encode()], starts_whole=False)
    found = reader.evidence(("x.csv",))
    assert isinstance(found, LogEvidence)
    assert found.starts.get("wal", 0) in (1, 2)


@pytest.mark.requirement("R-KRN-22")
def test_kill_by_the_kernel_is_one_crash():
    text = b"""2026-11-21 19:15:11 UTC [7] LOG:  server process (PID 99) was terminated by signal 9: Killed
2026-11-21 19:15:11 UTC [7] DETAIL:  Failed process was running: SELECT 'secret';
2026-11-21 19:15:11 UTC [7] LOG:  terminating any other active server processes
2026-11-21 19:15:11 UTC [7] LOG:  all server processes terminated; reinitializing
2026-11-21 19:15:12 UTC [8] LOG:  database system was not properly shut down; automatic recovery in progress
2026-11-21 19:16:12 UTC [9] LOG:  database system was not properly shut down; automatic recovery in progress
2026-11-21 19:16:13 UTC [9] PANIC:  could not locate a valid checkpoint record
2026-11-21 19:16:14 UTC [9] LOG:  archive command was terminated by signal 9: Killed
"""
    found = known(text)
    assert (found.killed_by_9, found.crashes, found.panics) == (1, 2, 1)
    assert "secret" not in repr(found)


@pytest.mark.requirement("R-KRN-22")
def test_kernel_log_names_processes_of_the_server_only():
    text = """[1.0] Out of memory: Killed process 71 (postgres) total-vm:1kB
[2.0] Memory cgroup out of memory: Killed process 72 (postgres) total-vm:1kB
[3.0] Out of memory: Killed process 73 (java) total-vm:1kB
[4.0] oom-kill:constraint=CONSTRAINT_MEMCG,task=postgres,pid=72
"""
    assert oom_kills(text) == 2
    assert oom_kills(text, since=1.5) == 1
    assert oom_kills(text.replace("[2.0] ", ""), since=9.0) == 1  # a line without a time counts


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "2026-11-21 19:15:11.641 UTC [7] ",
        "1763752511.641 [7]: ",
        "u@d,app=LOG 2026-11-21 19:15:11 +0100:",
        "[7] ",
    ],
)
def test_any_prefix(prefix):
    line = parse_stderr(f"{prefix}LOG:  checkpoint starting: time\n".encode())
    assert line is not None
    assert started_cause(line.message) == "time"


def test_times_of_prefixes():
    assert time_in("2026-11-21 19:15:11.641 UTC [7] ") == "2026-11-21 19:15:11.641 UTC"
    assert time_in("1763752511.641 [7]: ") == "2025-11-21T19:15:11.641+00:00"
    assert isinstance(time_in("[7] "), Unknown)


def test_continuations_and_statements_are_not_events():
    text = b"""2026-11-21 19:15:11 UTC ERROR:  syntax error
2026-11-21 19:15:11 UTC STATEMENT:  SELECT 'LOG:  checkpoint starting: wal'
\tLOG:  checkpoint starting: wal
2026-11-21 19:15:11 UTC LOG:  statement: SELECT 'LOG:  checkpoint starting: wal'
"""
    assert known(text).starts == {}


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de_DE.UTF-8", "2026-11-21 19:15:11 CET LOG:  Checkpoint beginnt: wal\n"),
        (None, "2026-11-21 19:15:11 CET FEHLER:  Division durch Null\n"),
        ("ru_RU.UTF-8", "2026-11-21 19:15:11 MSK СООБЩЕНИЕ:  начата контрольная точка: wal\n"),
    ],
)
def test_other_languages_are_unknown_with_the_reason(language, line):
    found = read(line.encode(), language=language)
    assert isinstance(found, Unknown)
    assert "English" in found.reason


def test_server_without_translations_writes_english_whatever_lc_messages_says():
    found = read((LOGS / "checkpoints_pg18.log").read_bytes(), language="de_DE.UTF-8")
    assert isinstance(found, LogEvidence)


@pytest.mark.parametrize("flags", ["immediate force wait", "fast force wait", "force"])
def test_checkpoints_that_were_asked_for(flags):
    assert started_cause(f"checkpoint starting: {flags}") == "requested"


def test_gap_that_was_cut_is_no_gap():
    assert too_frequent_gap("checkpoints are occurring too frequently (1") is None
    assert too_frequent_gap("checkpoints are occurring too frequently (1 second apart)") == 1


def test_newest_bytes_of_rotated_and_packed_files(tmp_path):
    text = (LOGS / "checkpoints_pg17.log").read_bytes()
    with gzip.open(tmp_path / "1.log.gz", "wb") as packed:
        packed.write(text)
    (tmp_path / "2.log").write_bytes(text)
    parts = local_parts([tmp_path / "2.log", tmp_path / "1.log.gz"])
    assert not isinstance(parts, Unknown)
    reader = LogReader()
    for part in parts:
        reader.read(part.blocks(), starts_whole=not part.start)
    assert reader.counts.lines == 2 * text.count(b"\n")
    (part,) = local_parts([tmp_path / "2.log"], 500)
    assert "last" in part.label
    assert sum(map(len, part.blocks())) == 500
    assert isinstance(local_parts([tmp_path / "none"]), Unknown)


def test_damaged_gzip_is_read_as_far_as_it_goes(tmp_path):
    packed = gzip.compress((LOGS / "checkpoints_pg17.log").read_bytes() * 200)
    (tmp_path / "a.log.gz").write_bytes(packed[: len(packed) // 2])
    (part,) = local_parts([tmp_path / "a.log.gz"])
    reader = LogReader()
    reader.read(part.blocks())
    assert reader.counts.starts


def test_formats_are_told_by_their_beginning():
    assert format_of(b'{"timestamp":"2026"}\n') is LogFormat.JSON
    assert format_of((LOGS / "checkpoints_pg13.log").read_bytes()) is LogFormat.STDERR


def test_lines_for_a_capture_make_the_same_evidence():
    reader = LogReader(keep_at_most=1000)
    reader.read([(LOGS / "checkpoints_pg18.log").read_bytes()])
    whole = reader.evidence(("a.log",))
    again = known("\n".join(reader.counts.kept).encode() + b"\n")
    assert isinstance(whole, LogEvidence)
    for name in ("checkpoints", "starts", "too_frequent_s", "hints", "quotes"):
        assert getattr(again, name) == getattr(whole, name)
