"""Sessions older than their log that execute what SQL had prepared: `trace show` and `replay --check` say so."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.report.trace_page import trace_page
from pgdyno.studies.replay import check as checks
from pgdyno.studies.replay.check import WillFail, check, lines_of
from pgdyno.trace.parquet import write_meta, write_rows
from pgdyno.trace.schema import TRACE, TRACE_VERSION, Lost, TraceMeta
from pgdyno.trace.summary import summarize

SENT = (
    (0, True, "EXECUTE p1", None),
    (0, True, "execute  P1 (2)", None),
    (0, True, 'EXECUTE "P1"', None),
    (0, True, "PREPARE p2 AS SELECT 1", None),
    (0, True, "EXECUTE p2", None),
    (0, True, "EXECUTE gone", "26000"),
    (1, False, "EXECUTE p1", None),
    (2, True, "SELECT 'EXECUTE p1'", None),
)
"""Session, whether it is older than the log, text, SQLSTATE."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = list[dict[str, object]]()
    for number in range(3):
        mine = [one for one in SENT if one[0] == number]
        people = {"session": number, "user": "app", "database": "shop", "tx": 0}
        rows.append({**people, "seq": 0, "kind": "connect", "due_us": 0, "implied": mine[0][1]})
        rows += [
            {**people, "seq": seq, "kind": "simple", "due_us": seq, "end_us": seq, "sql": sql, "sqlstate": state,
             "fingerprint": f"{number:08x}{seq:08x}"}
            for seq, (_, _, sql, state) in enumerate(mine, 1)
        ]  # fmt: skip
    path = tmp_path / "t.parquet"
    digest = write_rows(path, TRACE, ([row.get(column.name) for column in TRACE] for row in rows))
    lost = Lost(cut_sessions=2)
    write_meta(path, TraceMeta(TRACE_VERSION, "csvlog B", None, None, "", 1.0, 3, 8, 3, 1, lost=lost, digest=digest))
    return path


def test_show_counts_the_sessions_that_lack_what_they_execute(trace: Path) -> None:
    summary = summarize(trace)
    assert summary.joined_unprepared == 1
    told = " ".join(str(one.blocks) for one in trace_page(summary, "t").sections)
    assert "1 session executes what SQL had prepared before it: this fails." in told


def test_a_check_says_which_names_a_session_has_not_prepared(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server prepares an EXECUTE of any name; 20 of 41 failures of a run had not been foretold."""
    opened = SimpleNamespace(socket=nullcontext(), backlog=bytearray())
    opened.socket.settimeout = lambda _: None  # type: ignore[attr-defined]
    monkeypatch.setattr(checks, "open_session", lambda *_: opened)
    monkeypatch.setattr(checks, "_prepare", lambda *_: None)
    plan = checks.EnginePlan(tape=-1, records=-1, end_point=SimpleNamespace(), login=SimpleNamespace())  # type: ignore[arg-type]
    found = check(trace, plan)
    assert found.failing == (
        WillFail("app", "shop", "EXECUTE p1", "26000", '"p1" was prepared before the log', 2),
        WillFail("app", "shop", 'EXECUTE "P1"', "26000", '"P1" was prepared before the log', 1),
    )
    assert 'will fail 2 times, 26000: "p1" was prepared before the log: EXECUTE p1' in list(lines_of(found))
