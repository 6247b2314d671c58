"""What a cut in time leaves of transactions that go over its edge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_trace import made_trace
from pgdyno.errors import UsageError
from pgdyno.trace.cut import CutOptions, cut_trace
from pgdyno.trace.parquet import read_meta, read_rows, write_meta, write_rows
from pgdyno.trace.schema import TRACE

STATEMENTS = ((0, "begin", 900_000), (0, "update item set n = 1", 1_100_000), (0, "rollback", 1_200_000),
              (1, "select 1", 1_500_000), (2, "begin", 1_900_000), (2, "commit", 2_100_000))  # fmt: skip
"""Ordinal of the transaction, text, and when it is due, of one session."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path, people = tmp_path / "t.parquet", {"user": "u", "database": "d", "application": "a", "session": 0}
    edges = [{"kind": "connect", "due_us": 0}, {"kind": "disconnect", "due_us": 2_500_000}]
    sent = [{"kind": "simple", "tx": tx, "sql": sql, "due_us": due, "end_us": due} for tx, sql, due in STATEMENTS]
    rows = [
        {**people, **row, "seq": seq, "implied": False} for seq, row in enumerate((edges[0], *sent, edges[1]))
    ]  # fmt: skip
    meta = read_meta(made_trace(tmp_path / "other.parquet", sessions=1, seconds=3.0))
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
    rows = list(read_rows(tmp_path / "cut.parquet", ("seq", "kind", "sql")))
    assert [sql for _, kind, sql in rows if kind == "simple"] == left
    assert [seq for seq, *_ in rows] == list(range(len(left) + 2))
    assert (meta.statements, meta.lost.cut_statements) == (len(left), cut)


def test_a_window_of_rests_alone_holds_nothing(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is left"):
        cut_trace(trace, tmp_path / "cut.parquet", CutOptions(2.0))
