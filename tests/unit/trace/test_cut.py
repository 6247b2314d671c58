"""What a cut in time leaves of transactions that go over its edge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_trace import made_trace
from pgdyno.errors import UsageError
from pgdyno.trace.cut import CutOptions, cut_trace
from pgdyno.trace.parquet import read_meta, write_meta, write_rows
from pgdyno.trace.schema import TRACE
from trace_rows import rows_of

STATEMENTS = ((0, "begin", 900_000), (0, "update item set n = 1", 1_100_000), (0, "rollback", 1_200_000),
              (1, "select 1", 1_500_000), (2, "begin", 1_900_000), (2, "commit", 2_100_000))  # fmt: skip
"""Ordinal of the transaction, text, and when it is due, of one session."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "t.parquet", [{"tx": tx, "sql": sql, "due_us": due} for tx, sql, due in STATEMENTS])


def written(path: Path, statements: list[dict]) -> Path:
    """Write a trace of one session of 2.5 s."""
    people = {"user": "u", "database": "d", "application": "a", "session": 0}
    edges = [{"kind": "connect", "due_us": 0}, {"kind": "disconnect", "due_us": 2_500_000}]
    sent = [{"kind": "simple", "end_us": one["due_us"], **one} for one in statements]
    rows = [
        {**people, "implied": False, **row, "seq": seq} for seq, row in enumerate((edges[0], *sent, edges[1]))
    ]  # fmt: skip
    meta = read_meta(made_trace(path.with_name("other.parquet"), sessions=1, seconds=3.0))
    digest = write_rows(path, TRACE, ([row.get(one.name) for one in TRACE] for row in rows))
    write_meta(path, replace(meta, digest=digest))
    return path


@pytest.mark.parametrize(
    ("from_s", "to_s", "left", "cut"),
    [
        (None, None, [sql for _, sql, _ in STATEMENTS], 0),
        (0.5, None, [sql for _, sql, _ in STATEMENTS], 0),
        (1.0, None, ["select 1", "begin", "commit"], 2),
        (1.0, 2.0, ["select 1", "begin"], 2),
        (1.3, None, ["select 1", "begin", "commit"], 0),
    ],
)
def test_a_transaction_that_began_before_is_left_out_and_counted(
    trace: Path, tmp_path: Path, from_s: float | None, to_s: float | None, left: list[str], cut: int
) -> None:
    meta = cut_trace(trace, tmp_path / "cut.parquet", CutOptions(from_s, to_s))
    rows = rows_of(tmp_path / "cut.parquet", ("seq", "kind", "sql"))
    assert [sql for _, kind, sql in rows if kind == "simple"] == left
    assert [seq for seq, *_ in rows] == list(range(len(left) + 2))
    assert (meta.statements, meta.lost.cut_statements) == (len(left), cut)


def test_a_window_of_rests_alone_holds_nothing(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is left"):
        cut_trace(trace, tmp_path / "cut.parquet", CutOptions(2.0))


@pytest.mark.parametrize(
    ("before", "carried"),
    [
        (["set search_path to a", "select 1", "set work_mem = 1"], ["set search_path to a", "set work_mem = 1"]),
        (["set a.x = 1", "set a.y = 1", "set a.x = 2"], ["set a.y = 1", "set a.x = 2"]),
        (["set role r", "set a.x = 1", "reset all"], ["set role r"]),
        (["set role r", "set session authorization s"], ["set session authorization s"]),
        (["set a.x = 1", "prepare p as select 1", "discard all"], []),
        (["prepare p as select 1", "prepare q as select 2", "deallocate p"], ["prepare q as select 2"]),
        (["prepare p as select 1", "deallocate all", "set a.x = 1; set a.y = 2"], ["set a.x = 1; set a.y = 2"]),
        (["/* pool */ SELECT set_config('a.x', '1', false)", "select set_config('a.y', '1', true)"],
         ["/* pool */ SELECT set_config('a.x', '1', false)"]),
        (["set local a.x = 1", "set transaction read only", "setval"], []),
    ],
)  # fmt: skip
def test_a_session_begins_with_the_state_that_its_earlier_statements_left(
    before: list[str], carried: list[str], tmp_path: Path
) -> None:
    sent = [{"tx": n, "sql": sql, "due_us": 100_000 * (n + 1)} for n, sql in enumerate(before)]
    path = written(tmp_path / "t.parquet", [*sent, {"tx": 9, "sql": "execute it", "due_us": 1_500_000}])
    meta = cut_trace(path, tmp_path / "cut.parquet", CutOptions(1.0))
    rows = rows_of(tmp_path / "cut.parquet", ("kind", "seq", "sql", "due_us", "end_us"))
    assert [(seq, sql) for kind, seq, sql, *_ in rows if kind == "simple"] == list(
        enumerate([*carried, "execute it"], 1)
    )
    assert {tuple(times) for _, _, sql, *times in rows if sql in carried} <= {(0, 0)}, "at the begin"
    assert (meta.statements, meta.lost.cut_sessions, meta.lost.cut_statements) == (len(carried) + 1, 1, 0)


def test_what_was_rolled_back_failed_or_is_never_sent_sets_nothing(tmp_path: Path) -> None:
    sent = [
        {"tx": 0, "sql": "begin"}, {"tx": 0, "sql": "set a.x = 1"}, {"tx": 0, "sql": "prepare p as select 1"},
        {"tx": 0, "sql": "rollback"}, {"tx": 1, "sql": "set a.y = 'bad'", "sqlstate": "22023"},
        {"tx": 2, "sql": "set a.z = 1", "refused": "why"}, {"tx": 3, "sql": "select 1"},
    ]  # fmt: skip
    timed = [{**one, "due_us": 100_000 * n} for n, one in enumerate(sent)]
    timed[-1]["due_us"] = 1_500_000
    cut_trace(written(tmp_path / "t.parquet", timed), tmp_path / "cut.parquet", CutOptions(1.0))
    rows = rows_of(tmp_path / "cut.parquet", ("kind", "sql"))
    assert [sql for kind, sql in rows if kind == "simple"] == ["prepare p as select 1", "select 1"]


def test_going_back_to_a_savepoint_takes_back_what_came_after_it_alone(tmp_path: Path) -> None:
    sent = [
        "begin",
        "set a.x = 1",
        "savepoint s",
        "set a.y = 1",
        "select 1/0",
        "rollback to s",
        "set a.z = 1",
        "commit",
    ]
    rows = [{"tx": 0, "sql": sql, "due_us": 10_000 * n} for n, sql in enumerate(sent)]
    rows[4]["sqlstate"] = "22012"
    failed = [{"tx": 1, "sql": "begin"}, {"tx": 1, "sql": "savepoint s"}, {"tx": 1, "sql": "rollback to savepoint s"},
              {"tx": 1, "sql": "set a.w = 1"}, {"tx": 1, "sql": "select 1/0", "sqlstate": "22012"},
              {"tx": 1, "sql": "commit"}]  # fmt: skip
    rows += [{**one, "due_us": 200_000 + 10_000 * n} for n, one in enumerate(failed)]
    rows.append({"tx": 2, "sql": "select 1", "due_us": 1_500_000})
    cut_trace(written(tmp_path / "t.parquet", rows), tmp_path / "cut.parquet", CutOptions(1.0))
    kept = rows_of(tmp_path / "cut.parquet", ("kind", "sql"))
    assert [sql for kind, sql in kept if kind == "simple"] == ["set a.x = 1", "set a.z = 1", "select 1"]


@pytest.mark.parametrize(
    ("inside", "left"),
    [
        ("savepoint a|set x.a = 1|savepoint b|set x.a = 2|rollback to b|commit", ["set x.a = 1"]),
        ("savepoint a|set x.a = 1|savepoint b|set x.a = 2|rollback to a|set x.b = 1|commit", ["set x.b = 1"]),
        ("set x.a = 1|savepoint s|set x.a = 2|savepoint s|set x.a = 3|rollback to s|commit", ["set x.a = 2"]),
        ("set x.a = 1|savepoint s|set x.a = 2|savepoint s|release s|rollback to s|commit", ["set x.a = 1"]),
        ("savepoint a|set x.a = 1|release a|select 1/0|rollback", []),
        ("savepoint a|set x.a = 1|release savepoint a|commit", ["set x.a = 1"]),
        ("set x.a = 1|savepoint a|set x.b = 1|release a|savepoint c|set x.b = 2|rollback to c|commit",
         ["set x.a = 1", "set x.b = 1"]),
        ("savepoint a|select 1/0|rollback to a|set x.a = 1|rollback to a|set x.b = 1|commit", ["set x.b = 1"]),
        ("set x.a = 1|savepoint a|select 1/0|commit", []),
        ("set x.a = 1|select 1/0", []),
        ("set x.a = 1|prepare transaction 't'", ["set x.a = 1"]),
        ("set x.a = 1|commit; begin|set x.b = 1|rollback", ["set x.a = 1"]),
        ("select case when true then 1 end|set x.a = 1|commit", ["set x.a = 1"]),
    ],
)  # fmt: skip
def test_a_session_keeps_what_its_savepoints_left(tmp_path: Path, inside: str, left: list[str]) -> None:
    sent = [{"tx": 0, "sql": sql, "due_us": 10_000 * n} for n, sql in enumerate(["begin", *inside.split("|")])]
    for one in sent:
        one |= {"sqlstate": "22012"} if "1/0" in one["sql"] else {}
    rows = [{"tx": 0, "sql": "set x.c = 0", "due_us": 0}, *[{**one, "tx": 1} for one in sent]]
    rows.append({"tx": 2, "sql": "select 1", "due_us": 1_500_000})
    meta = cut_trace(written(tmp_path / "t.parquet", rows), tmp_path / "cut.parquet", CutOptions(1.0))
    kept = [sql for kind, sql in rows_of(tmp_path / "cut.parquet", ("kind", "sql")) if kind == "simple"]
    assert kept == ["set x.c = 0", *left, "select 1"]
    assert (meta.statements, meta.lost.cut_statements) == (len(kept), 0)


@pytest.mark.parametrize(("end", "left"), [("commit", ["set x.a = 1", "set x.b = 1"]), ("rollback", [])])
def test_what_the_rest_of_a_transaction_sets_is_kept_and_the_rest_is_left_out(
    tmp_path: Path, end: str, left: list[str]
) -> None:
    sent = ["begin", "set x.a = 1", "set x.b = 1", "update item set n = 1", end]
    rows = [{"tx": 0, "sql": sql, "due_us": 900_000 + 60_000 * n} for n, sql in enumerate(sent)]
    rows.append({"tx": 1, "sql": "select 1", "due_us": 1_500_000})
    meta = cut_trace(written(tmp_path / "t.parquet", rows), tmp_path / "cut.parquet", CutOptions(1.0))
    kept = [sql for kind, sql in rows_of(tmp_path / "cut.parquet", ("kind", "sql")) if kind == "simple"]
    assert kept == [*left, "select 1"]
    assert meta.lost.cut_statements == (2 if left else 3), "of the three in the time"


def test_what_executes_a_statement_that_is_left_out_is_left_out_too(tmp_path: Path) -> None:
    """Nothing in its text says that it writes, and without what was prepared it would fail."""
    texts = (
        "PREPARE w (int) AS UPDATE item SET n = $1", "EXECUTE w (1)", 'PREPARE "R x" AS SELECT 1', 'EXECUTE "R x"',
        "execute W(2)", "DEALLOCATE PREPARE w", "PREPARE w AS SELECT 2", "EXECUTE w",
    )  # fmt: skip
    sent = [{"tx": number, "sql": text, "due_us": number * 1000} for number, text in enumerate(texts)]
    trace = written(tmp_path / "t.parquet", sent)
    cut_trace(trace, tmp_path / "cut.parquet", CutOptions(read_only=True))
    rows = rows_of(tmp_path / "cut.parquet", ("kind", "refused"))
    assert [refused is not None for kind, refused in rows if kind == "simple"] == [
        True, True, False, False, True, True, False, False,
    ]  # fmt: skip
    cut_trace(trace, tmp_path / "whole.parquet", CutOptions())
    assert all(refused is None for _, refused in rows_of(tmp_path / "whole.parquet", ("kind", "refused")))
