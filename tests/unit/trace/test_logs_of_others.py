"""Logs of servers whose settings nobody chose for a trace: what they leave out is told, what only looks so is none."""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine_tapes import mapped, read_record
from pgdyno.errors import UsageError
from pgdyno.replay import captured
from pgdyno.replay.captured import write_tape
from pgdyno.report.trace_page import trace_page
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.tape import HOLDS, Act
from pgdyno.trace.gates import Order
from pgdyno.trace.parquet import read_meta
from pgdyno.trace.schema import Lost, TraceMeta
from pgdyno.trace.summary import summarize
from pgdyno.trace.whole import hint, missing_words
from trace_rows import rows_of

LOGS = Path(__file__).parents[2] / "data" / "traces"
PREFIX = "%m [%p] %c:%l %q%u@%d %a %v %x %e "
BUILDERS = pytest.mark.parametrize("builder", ["python", None])
pytestmark = pytest.mark.usefixtures("compiled_engine")
BEGIN = int(datetime(2026, 11, 26, 6, 17, tzinfo=UTC).timestamp())
T, U = "duration: 1.000 ms  statement: ", "duration: 1.000 ms  execute <unnamed>: "


def build(tmp_path: Path, log: Path, builder: str | None = None, **options: Any) -> tuple[TraceMeta, list[Any]]:
    out = tmp_path / "out.parquet"
    meta = build_trace([log], out, BuildOptions(builder=builder, **options))
    return replace(meta, digest=""), rows_of(out)


def written(log: Path, *lines: dict[str, Any]) -> Path:
    """Write a csvlog of these lines, a second apart: `s` is the session, 0 for a process of the server."""
    numbers, starts = dict[int, int](), dict[int, str]()
    with log.open("w", newline="") as file:
        for second, one in enumerate(lines):
            session = one.get("s", 1)
            numbers[session] = numbers.get(session, 0) + 1
            at = f"2026-11-26 06:17:{second:02}.000 UTC"
            began = starts.setdefault(session, f"{BEGIN + second:x}.{session:x}")
            row = [at, "u" if session else "", "d" if session else "", "7", "", began,
                   str(numbers[session]), one.get("tag", "SELECT"), at, one.get("vx", "3/1") if session else "", "0",
                   one.get("severity", "LOG"), one.get("state", "00000"), one["said"], one.get("detail", ""),
                   "", "", "", one.get("context", ""), one.get("query", ""), "", "", one.get("app", "x"),
                   "client backend" if session else "startup", "", "0"]  # fmt: skip
            csv.writer(file, lineterminator="\n").writerow(row)
    return log


@BUILDERS
def test_values_that_were_not_logged_at_all_are_an_error(tmp_path: Path, builder: str | None) -> None:
    """As with log_parameter_max_length = 0: a replay could bind none of them."""
    lines = [
        {"said": U + "select $1"}, {"said": U + "select $1, $2", "detail": "Parameters: $1 = 'a', $2 = NULL"},
        {"said": U + "/* web */ select $1 || 'x'"},
    ]  # fmt: skip
    log = written(tmp_path / "a.csv", *lines)
    with pytest.raises(UsageError, match="only a part of 2 statements") as raised:
        build(tmp_path, log, builder)
    assert "log_parameter_max_length" in (raised.value.detail or "")
    assert build(tmp_path, log, builder, allow_truncated=True)[0].lost == Lost(truncated=2)


@BUILDERS
def test_a_dollar_that_is_no_parameter_lacks_no_value(tmp_path: Path, builder: str | None) -> None:
    texts = (
        "select '$1'", "select \"a\", '$100' from t", "do $$ begin perform f($1); end $$", "select 1 -- $1",
        "create function f(int) returns int language sql as 'select $1'", "prepare p as select $1",
    )  # fmt: skip
    meta, rows = build(tmp_path, written(tmp_path / "a.csv", *({"said": U + text} for text in texts)), builder)
    assert meta.lost == Lost()
    assert [row[10] for row in rows if row[2] == "extended"] == list(texts)


@BUILDERS
def test_what_a_function_writes_to_the_log_is_no_statement(tmp_path: Path, builder: str | None) -> None:
    """RAISE LOG may say anything; it has a context, which no line of the server about a statement has."""
    forged = [
        {"said": said, "context": "PL/pgSQL function f() line 1 at RAISE"}
        for said in (T + "drop table t", "statement: drop table t", "disconnection: x", "took 1.234 ms", "duration: x")
    ]
    meta, rows = build(tmp_path, written(tmp_path / "a.csv", *forged, {"said": T + "select f()"}), builder)
    assert [row[10] for row in rows if row[2] == "simple"] == ["select f()"]
    assert meta.lost == Lost()


@BUILDERS
@pytest.mark.parametrize(
    ("said", "severity"),
    [
        ("Dauer: 0.087 ms  Anweisung: select 1", "LOG"),
        ("durée : 0.087 ms, instruction : select 1", "LOG"),
        ("期間: 0.087 ミリ秒  文: select 1", "LOG"),
        ("Division durch Null", "FEHLER"),
        ("продолжительность: 0.087 мс, оператор: select 1", "СООБЩЕНИЕ"),
    ],
)
def test_lines_in_another_language_are_counted(tmp_path: Path, builder: str | None, said: str, severity: str) -> None:
    """A role or a database may have an lc_messages of its own: its statements are not in the trace."""
    log = written(tmp_path / "a.csv", {"said": T + "select 1"}, {"s": 2, "said": said, "severity": severity})
    meta, _ = build(tmp_path, log, builder)
    assert meta.lost == Lost(not_english=1)
    assert "not in English" in missing_words(meta)[0]
    assert "lc_messages" in hint(meta)


def test_english_lines_of_every_kind_are_not_counted(tmp_path: Path) -> None:
    said = (
        "process 7 acquired ShareLock on transaction 5 after 100.123 ms", "temporary file: path \"a\", size 5",
        "connection ready: setup total=5.123 ms, fork=0.300 ms", "could not send data to client: Broken pipe",
    )  # fmt: skip
    lines = [{"said": one} for one in said] + [
        {"said": "x", "severity": one} for one in ("WARNING", "NOTICE", "INFO", "DEBUG1")
    ]
    assert build(tmp_path, written(tmp_path / "a.csv", *lines, {"said": T + "select 1"}))[0].lost == Lost()


@pytest.mark.parametrize("prefix", [PREFIX, "%m [%p] %c:%l %q%u@%d %a %v %x "])
def test_a_verbose_log_to_stderr_is_the_same(tmp_path: Path, prefix: str) -> None:
    """log_error_verbosity = verbose writes the SQLSTATE before each message, and where in the source it was."""
    whole = build(tmp_path, LOGS / "18-B.log", prefix=PREFIX)
    text = re.sub(
        r"(?m)^(.*?)( [0-9A-Z]{5})? (LOG|ERROR|FATAL|WARNING|NOTICE):  ",
        lambda found: f"{found[1]}{found[2] or ''} {found[3]}:  {(found[2] or ' 00000').strip()}: ",
        (LOGS / "18-B.log").read_text(),
    )
    if prefix != PREFIX:
        text = re.sub(r"(?m)^(\S+ \S+ \S+ \[\d+\] \S+ \S+@.*?) [0-9A-Z]{5} ((?:[A-Z]+[0-9]?):  )", r"\1 \2", text)
    (tmp_path / "pg.log").write_text(text)
    meta, rows = build(tmp_path, tmp_path / "pg.log", prefix=prefix)
    assert meta == whole[0]
    assert rows == whole[1]


@BUILDERS
def test_no_session_outlives_its_server(tmp_path: Path, builder: str | None) -> None:
    """A server that crashed wrote no disconnection; a session that stayed open would keep its locks to the end."""
    lines = [
        {"said": T + "begin"}, {"said": T + "update t set a = 1"},
        {"s": 0, "said": "database system was interrupted; last known up at 2026-11-26 06:17:00 UTC"},
        {"s": 2, "said": T + "update t set a = 2"}, {"s": 2, "said": "disconnection: session time: 0:00:01"},
        {"s": 3, "said": T + "select 1"}, {"s": 3, "said": T + "select 2"},
    ]  # fmt: skip
    _, rows = build(tmp_path, written(tmp_path / "a.csv", *lines), builder)
    ends = {row[0]: row[3] / 1e6 for row in rows if row[2] == "disconnect"}
    assert ends == pytest.approx({0: 2.0, 1: 4.0, 2: 6.0}, abs=0.01)


@BUILDERS
def test_without_disconnections_in_a_log_a_session_ends_with_its_last_statement(
    tmp_path: Path, builder: str | None
) -> None:
    """All sessions of a log at one time are far more than there ever were, and more than a target takes."""
    lines = [{"s": number // 2 + 1, "said": T + "select 1"} for number in range(8)]
    _, rows = build(tmp_path, written(tmp_path / "a.csv", *lines), builder)
    ends = [(row[0], row[3] / 1e6) for row in rows if row[2] == "disconnect"]
    assert [end for _, end in sorted(ends)] == pytest.approx([1.0, 3.0, 5.0, 7.0], abs=0.01)
    assert all(row[20] for row in rows if row[2] == "disconnect")


@BUILDERS
def test_log_duration_beside_log_statement_lacks_nothing(tmp_path: Path, builder: str | None) -> None:
    """log_statement = all with log_duration = on: parse and bind have durations, and no texts of their own."""
    alone = "duration: 0.500 ms"
    lines = [
        {"said": alone, "tag": "PARSE"}, {"said": alone, "tag": "BIND"},
        {"said": "execute S_1: select $1", "detail": "Parameters: $1 = 'a'"}, {"said": alone},
        {"said": "statement: select 2"}, {"said": alone},
    ]  # fmt: skip
    meta, rows = build(tmp_path, written(tmp_path / "a.csv", *lines), builder)
    assert (meta.style, meta.lost) == ("csvlog A", Lost())
    found = [(row[2], row[7], row[9], row[11]) for row in rows if row[10]]
    assert found == [("extended", 500, "S_1", ["a"]), ("simple", 500, None, None)]


@BUILDERS
def test_statements_without_a_duration_are_not_cut(tmp_path: Path, builder: str | None) -> None:
    """log_statement = all with a log_min_duration_statement above 0: what was quicker has no duration."""
    lines = [{"said": "statement: select 1"}] * 3 + [{"said": "statement: select 2"}, {"said": "duration: 500.000 ms"}]
    log = written(tmp_path / "a.csv", *lines, {"said": "disconnection: x"})
    for segment in (200, 1 << 20):
        meta, rows = build(tmp_path, log, builder, segment=segment)
        assert (meta.style, meta.lost) == ("csvlog A", Lost())
        assert [row[7] for row in rows if row[2] == "simple"] == [None, None, None, 500_000]
        for file in tmp_path.glob("out.*"):
            file.unlink()


def test_values_of_a_failed_bind_are_missed_in_stderr_too(tmp_path: Path) -> None:
    """Without %i a log does not say that a bind failed; a text that was prepared, and is right, was bound."""
    log, at = tmp_path / "a.log", "2026-11-26 06:17:00.000 UTC [7] 6b07ca2c.7"
    failed = "ERROR:  invalid input syntax for type integer"
    log.write_text(
        f"{at}:1 u@d 00000 LOG:  duration: 1.000 ms  parse S_1: select $1::int\n"
        f'{at}:2 u@d 22P02 {failed}: "x"\n{at}:3 u@d 22P02 STATEMENT:  select $1::int\n'
        f"{at}:4 u@d 22P02 {failed}: \"$100\"\n{at}:5 u@d 22P02 STATEMENT:  select '$100'::int\n"
        f"{at}:6 u@d 42601 ERROR:  syntax error\n{at}:7 u@d 42601 STATEMENT:  selec $1\n"
    )
    meta, rows = build(tmp_path, log, prefix="%m [%p] %c:%l %q%u@%d %e ")
    assert (meta.lost.without_params, meta.errors) == (1, 3)
    assert [(row[2], row[9]) for row in rows if row[16]] == [("extended", "S_1"), ("simple", None), ("extended", "")]


def test_an_error_is_of_the_statement_that_it_names(tmp_path: Path) -> None:
    """Without durations and %i, nothing but its text tells that a statement failed before its start was logged."""
    log, at = tmp_path / "a.log", "2026-11-26 06:17:00.000 UTC [7] 6b07ca2c.7"
    log.write_text(
        f"{at}:1 u@d 00000 LOG:  execute S_1: select 1\n"
        f"{at}:2 u@d 22012 ERROR:  division by zero\n{at}:3 u@d 22012 STATEMENT:  select 1/0\n"
        f"{at}:4 u@d 00000 LOG:  statement: select 2/0\n"
        f"{at}:5 u@d 22012 ERROR:  division by zero\n{at}:6 u@d 22012 STATEMENT:  select 2/0\n"
    )
    _, rows = build(tmp_path, log, prefix="%m [%p] %c:%l %q%u@%d %e ")
    found = [(row[10], row[16]) for row in rows if row[10]]
    assert found == [("select 1", None), ("select 1/0", "22012"), ("select 2/0", "22012")]


@BUILDERS
def test_a_log_of_slow_statements_alone_is_not_whole(tmp_path: Path, builder: str | None) -> None:
    """log_min_duration_statement = 100 is what many servers have, and no line says what it left out."""
    slow = [{"said": f"duration: {100 + number}.250 ms  statement: select {number}"} for number in range(12)]
    meta, _ = build(tmp_path, written(tmp_path / "a.csv", *slow), builder)
    assert meta.lost == Lost(slow_alone=12)
    assert "quicker ones seem to be left out" in missing_words(meta)[0]
    quick = {"said": "duration: 0.250 ms  statement: begin"}
    for file in tmp_path.glob("out.*"):
        file.unlink()
    assert build(tmp_path, written(tmp_path / "b.csv", *slow, quick), builder)[0].lost == Lost()


@BUILDERS
def test_a_log_of_changes_alone_is_not_whole(tmp_path: Path, builder: str | None) -> None:
    """log_statement = mod is what many servers have, with the durations of slow statements or without any."""
    changes = [{"said": f"statement: /* x */ insert into t values ({number})"} for number in range(12)]
    failed = {"said": "division by zero", "severity": "ERROR", "state": "22012", "query": "select 1/0"}
    slow = {"said": "duration: 300.250 ms  statement: select 1"}

    def lost(*lines: dict[str, Any]) -> Lost:
        for file in tmp_path.glob("out.*"):
            file.unlink()
        return build(tmp_path, written(tmp_path / "a.csv", *lines), builder)[0].lost

    assert lost(*changes, failed) == Lost(changes_alone=13)
    assert lost(*changes, slow) == Lost(changes_alone=13)
    assert "none of which reads" in missing_words(meta_of_lost := read_meta(tmp_path / "out.parquet"))[0]
    assert "log_min_duration_statement = 0" in hint(meta_of_lost)
    assert lost(*changes[:5]) == lost(*changes, {"said": "statement: begin"}) == Lost()
    assert lost(*changes, slow, {"said": "duration: 0.250 ms  statement: (select 1)"}) == Lost()


@BUILDERS
def test_a_log_of_errors_alone_is_no_load(tmp_path: Path, builder: str | None) -> None:
    """As with log_min_duration_statement = -1 and log_statement = none, the default."""
    failed = {"said": "division by zero", "severity": "ERROR", "state": "22012", "query": "select 1/0"}
    with pytest.raises(UsageError, match="no statement is recognised in the log but such that failed"):
        build(tmp_path, written(tmp_path / "a.csv", failed, failed), builder)


@BUILDERS
def test_a_value_that_could_not_be_read_is_in_the_context_of_its_error(tmp_path: Path, builder: str | None) -> None:
    """Of several values the others are in no log."""
    failed = {"said": "invalid input", "severity": "ERROR", "state": "22P02", "tag": "BIND"}
    lines = [
        {**failed, "query": "select $1::int, '$2'", "context": "unnamed portal parameter $1 = 'it''s\nx'"},
        {**failed, "query": "select $1::int + $1", "context": "portal \"a\" parameter $1 = 'y'"},
        {**failed, "query": "select $1::int + $2", "context": "unnamed portal parameter $1 = 'z'"},
        {**failed, "query": "select $12::int", "context": "unnamed portal parameter $12 = 'z'"},
        {"said": T + "select 1"},
    ]
    meta, rows = build(tmp_path, written(tmp_path / "a.csv", *lines), builder)
    assert [row[11] for row in rows if row[16]] == [["it's\nx"], ["y"], None, None]
    assert meta.lost == Lost(without_params=2)


@pytest.mark.parametrize("grouped", [captured._GROUPED, 1])
def test_pipelines_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: int) -> None:
    """Their statements have one virtual transaction and no BEGIN; some sessions are looked at after others."""
    monkeypatch.setattr(captured, "_GROUPED", grouped)

    def said(text: str, vx: int) -> dict[str, Any]:
        return {"said": U + text, "vx": f"3/{vx}"}

    build(tmp_path, written(
        tmp_path / "a.csv", said("insert 1", 1), said("insert 2", 1), said("select 1", 2), said("BEGIN", 3),
        said("select 2", 3), said("select 3", 3), said("insert 3", 4), said("insert 4", 4), said("insert 5", 4),
    ))  # fmt: skip
    summary = summarize(tmp_path / "out.parquet")
    assert summary.pipelined == 2
    assert "2 transactions were sent as a pipeline" in str(trace_page(summary, "out"))
    taped = write_tape(tmp_path / "out.parquet", tmp_path / "tape", Order.SESSION, lambda _: None)
    tape = mapped(tmp_path / "tape")
    found = [read_record(tape, place) for place in range(len(tape.index))]
    assert [one.flags for one in found if one.act is Act.SEND] == [HOLDS, 0, 0, 0, 0, 0, HOLDS, HOLDS, 0]
    assert [one.payload.endswith(wire.HOLD) for one in found] == [one.flags == HOLDS for one in found]
    assert taped.statements == 9


def test_what_only_looks_like_a_pipeline_is_sent_alone(tmp_path: Path) -> None:
    """A BEGIN behind a comment, one that is not in the log before an error, a chain of transactions."""

    def said(text: str, vx: int) -> dict[str, Any]:
        return {"said": U + text, "vx": f"3/{vx}"}

    failed = {"said": "no", "severity": "ERROR", "state": "22012", "query": "select 1/0", "vx": "3/2"}
    build(tmp_path, written(
        tmp_path / "a.csv", said("/* by:\n us */ -- x\n begin", 1), said("insert 1", 1), said("COMMIT", 1),
        said("SAVEPOINT a", 2), failed, said("ROLLBACK TO a", 2), said("COMMIT", 2),
    ))  # fmt: skip
    assert summarize(tmp_path / "out.parquet").pipelined == 0
    for old in tmp_path.glob("out.*"):
        old.unlink()
    build(tmp_path, written(
        tmp_path / "a.csv", said("BEGIN", 1), said("COMMIT AND CHAIN", 1), said("insert 1", 2), said("insert 2", 2),
    ))  # fmt: skip
    assert summarize(tmp_path / "out.parquet").pipelined == 0


@pytest.mark.parametrize("name", ["18-B.csv", "18-B.json", "18-B.log"])
def test_a_log_of_a_server_on_windows_is_the_same(tmp_path: Path, name: str) -> None:
    """There each line end is two bytes, also those within texts."""
    options = {"prefix": PREFIX} if name.endswith(".log") else {}
    whole = build(tmp_path, LOGS / name, **options)
    data = (LOGS / name).read_bytes().replace(b"\n", b"\r\n")
    for file, content in ((tmp_path / "w.log", data), (tmp_path / "w.log.gz", gzip.compress(data))):
        file.write_bytes(content)
        for old in tmp_path.glob("out.*"):
            old.unlink()
        assert build(tmp_path, file, segment=10_000, **options) == whole  # three segments at least


def test_statements_with_line_ends_of_windows_keep_them(tmp_path: Path) -> None:
    text = "select 1,\r\n" * 2000
    lines = [{"said": T + text}, {"said": T + "select 1"}]
    assert build(tmp_path, written(tmp_path / "a.csv", *lines), "python")[1][1][10] == text


def test_names_with_blanks_are_read_by_what_the_connection_says(tmp_path: Path) -> None:
    """A prefix such as `%u@%d %a` does not tell where a name ends."""
    log, at = tmp_path / "a.log", "2026-11-26 06:17:00.000 UTC [7] 6b07ca2c.7"
    who = 'o@b@my "db'
    log.write_text(
        f'{at}:1 {who} [unknown] LOG:  connection authorized: user=o@b database=my "db application_name=a b\n'
        f"{at}:2 {who} a b LOG:  {T}select 1\n{at}:3 {who} a b LOG:  disconnection: session time: 0:00:00.1\n"
    )
    _, rows = build(tmp_path, log, prefix="%m [%p] %c:%l %q%u@%d %a ")
    assert [(row[2], row[17], row[18], row[19]) for row in rows if row[2] == "simple"] == [
        ("simple", "o@b", 'my "db', "a b")
    ]
