"""Traces of logs that real servers wrote of one load, held against what its client sent."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.parquet import MEMORY_MB, connection, read_meta, read_rows
from pgdyno.trace.schema import Lost
from pgdyno.trace.summary import summarize
from pgdyno.trace.whole import missing_words

LOGS = Path(__file__).parents[2] / "data" / "traces"
TRUTH = json.loads((LOGS / "truth.json").read_text())
COLUMNS = (
    "session", "seq", "kind", "due_us", "end_us", "parse_us", "bind_us", "execute_us", "statement", "sql", "params",
    "tx", "fingerprint", "sqlstate", "application", "implied", "refused",
)  # fmt: skip


def _rows(trace: Path) -> list[dict[str, Any]]:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in read_rows(trace, COLUMNS)]
    return sorted(found, key=lambda row: (row["session"], row["seq"]))


def _sent(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (row["application"], row["kind"], row["sql"], row["params"], row["statement"], row["sqlstate"])
        for row in rows
        if row["kind"] not in ("connect", "disconnect")
    ]


def _truth() -> list[tuple[object, ...]]:
    found = list[tuple[object, ...]]()
    for one in TRUTH:
        kind = "parse" if one["is_parse"] else "simple" if one["name"] is None else "extended"
        # values are bound after the parse, which fails here: no server logs them
        params = None if kind == "extended" and one["sqlstate"] == "42P01" else one["params"]
        found.append((one["session"], kind, one["sql"], params, one["name"], one["sqlstate"]))
    return found


@pytest.fixture
def built(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    out = tmp_path / "load.parquet"
    build_trace([LOGS / request.param], out, BuildOptions())
    return out


@pytest.mark.requirement("R-RPL-18")
@pytest.mark.parametrize("built", ["13-pgreplay.csv", "18-pgreplay.csv"], indirect=True)
def test_a_log_with_the_settings_of_pgreplay_gives_every_statement_that_was_begun(built: Path) -> None:
    """log_statement = all, log_min_error_statement = log: what fails before it begins has its error alone.

    Without a line for its parse, nothing tells a slash in a statement's name from one before its portal.
    """
    begun = [
        (*one[:4], one[4] and one[4].partition("/")[0], one[5])
        for one in _truth()
        if one[1] != "parse" and one[2] not in UNBEGUN
    ]
    rows, meta = _rows(built), read_meta(built)
    assert _sent(rows) == begun
    assert meta.style == "csvlog without durations"
    assert meta.lost == Lost(unworded=len(UNBEGUN))
    assert missing_words(meta) == ["3 statements that failed, whose text the log does not have"]
    assert {row["execute_us"] for row in rows} == {None}
    summary = summarize(built)
    assert (summary.server_seconds, summary.most_at_once, summary.think.p50) == (None, None, None)
    assert {one.seconds for one in summary.classes} == {None}


UNBEGUN = ("selec 1", "select 1 / $1::int", "select * from nothing_of_that_name where x = $1")
"""Texts of the load that fail at their parse, or as they are bound."""


@pytest.mark.parametrize(
    "built", ["13-A.csv", "13-B.csv", "15-A.csv", "15-B.json", "18-A.csv", "18-B.csv", "18-A.json", "18-B.json"],
    indirect=True,
)  # fmt: skip
def test_every_statement_is_in_the_trace_as_it_was_sent(built: Path) -> None:
    rows = _rows(built)
    assert _sent(rows) == _truth()
    meta = read_meta(built)
    assert (meta.statements, meta.sessions, meta.lost) == (len(TRUTH), 6, Lost())
    assert meta.errors == sum(one["sqlstate"] is not None for one in TRUTH)
    assert [row["kind"] for row in rows].count("connect") == [row["kind"] for row in rows].count("disconnect") == 6
    assert not any(row["implied"] for row in rows)


@pytest.mark.parametrize("built", ["18-A.csv", "18-B.csv"], indirect=True)
def test_times_follow_each_other_in_a_session(built: Path) -> None:
    rows = _rows(built)
    for before, after in itertools.pairwise(rows):
        if before["session"] == after["session"]:
            assert after["seq"] == before["seq"] + 1
            assert after["due_us"] >= before["end_us"] >= before["due_us"]


@pytest.mark.parametrize("built", ["18-B.csv"], indirect=True)
def test_a_failed_statement_has_no_duration(built: Path) -> None:
    failed = [row for row in _rows(built) if row["sqlstate"]]
    assert failed
    assert all(row["execute_us"] is None for row in failed)


def test_transactions_hold_what_ran_in_them(tmp_path: Path) -> None:
    found = list[list[tuple[str, int]]]()
    for name in ("18-A.csv", "18-B.csv", "13-B.csv", "15-A.csv"):
        out = tmp_path / "load.parquet"
        build_trace([LOGS / name], out, BuildOptions())
        found.append([(row["sql"], row["tx"]) for row in _rows(out) if row["application"] == "transactions-0"])
    assert all(one == found[0] for one in found)
    numbers = [tx for _, tx in found[0] if tx is not None]
    assert numbers == [0] * 8 + [1] * 3 + [2] + [3] * 3


def test_both_files_are_private(tmp_path: Path) -> None:
    build_trace([LOGS / "18-B.csv"], tmp_path / "load.parquet", BuildOptions())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["load.json", "load.parquet"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_log_without_statements_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "pg.csv"
    log.write_bytes(b"".join((LOGS / "18-B.csv").read_bytes().splitlines(keepends=True)[:4]))
    with pytest.raises(UsageError, match="no statement is recognised"):
        build_trace([log], tmp_path / "load.parquet", BuildOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["pg.csv"]


def test_a_log_whose_line_ends_were_changed_in_part_is_named(tmp_path: Path) -> None:
    """Where all are those of Windows, they are read: `test_logs_of_others`."""
    log = tmp_path / "changed.csv"
    first, *rest = (LOGS / "18-A.csv").read_bytes().splitlines(keepends=True)
    log.write_bytes(first + b"".join(rest).replace(b"\n", b"\r\n"))
    with pytest.raises(UsageError, match=r'log ".*changed\.csv" cannot be read as csvlog'):
        build_trace([log], tmp_path / "out.parquet", BuildOptions())


def test_a_connection_that_makes_tables_again_and_again_keeps_half_of_its_memory() -> None:
    held = "SELECT value FROM duckdb_settings() WHERE name = 'block_allocator_memory'"
    with connection() as plain, connection(keeps_memory=True) as keeping:
        before, after = plain.execute(held).fetchall(), keeping.execute(held).fetchall()
    assert not before or before == [("0 bytes",)]
    assert not after or float(after[0][0].split()[0]) == pytest.approx(MEMORY_MB / 2 * 1e6 / (1 << 20), abs=0.1)
