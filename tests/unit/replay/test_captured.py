"""What a trace asks of a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine_tapes import mapped, read_record
from made_trace import made_trace
from pgdyno.errors import UsageError
from pgdyno.replay.captured import asked_of, write_tape
from pgdyno.trace.gates import Order, OrderedRow, gates
from pgdyno.trace.parquet import read_meta, read_rows, write_meta, write_rows
from pgdyno.trace.schema import TRACE
from pgdyno.trace.tape_maker import TraceRow, records_of
from pgdyno.trace.tape_writer import gate_bytes


def test_roles_and_databases_of_sessions_that_are_not_opened_are_not_asked_for(tmp_path: Path) -> None:
    opened = {"user": "app", "database": "shop"}
    ours = {"user": "dba", "database": "pgdyno_observer", "refused": "pgdyno's own session"}
    rows = [
        {"session": number, "seq": 0, "kind": "connect", "due_us": number, "implied": False, **who}
        for number, who in enumerate((ours, opened))
    ]
    write_rows(tmp_path / "a.parquet", TRACE, ([row.get(one.name) for one in TRACE] for row in rows))
    asked = asked_of(tmp_path / "a.parquet")
    assert (asked.users, asked.databases) == (("app",), ("shop",))


@pytest.mark.parametrize("lost", [{"session": -1}, {"seq": None}, {"kind": None}, {"due_us": None}])
def test_a_row_that_stands_nowhere_is_one_error(tmp_path: Path, lost: dict[str, object]) -> None:
    row = {"session": 1, "seq": 0, "kind": "connect", "due_us": 5, "implied": False} | lost
    write_rows(tmp_path / "a.parquet", TRACE, [[row.get(one.name) for one in TRACE]])
    with pytest.raises(UsageError, match=r'a\.parquet" has a row without session, place, kind or due moment'):
        asked_of(tmp_path / "a.parquet")


def test_what_no_tape_can_hold_is_one_error_and_no_work_is_left(tmp_path: Path) -> None:
    trace, names = made_trace(tmp_path / "a.parquet", seconds=1.0), [one.name for one in TRACE]
    at = names.index("sqlstate")
    rows = [(*row[:at], "no state" if row[names.index("sql")] else None, *row[at + 1 :]) for row in read_rows(trace)]
    write_rows(trace, TRACE, rows)
    with pytest.raises(UsageError, match=r"a\.parquet\" cannot be sent: 'no state' is no SQLSTATE"):
        write_tape(trace, tmp_path / "a.tape", Order.SESSION, lambda _: None)
    assert [one.name for one in tmp_path.iterdir() if "work" in one.name] == []


STORED = tuple(name for name in TraceRow._fields if name not in TraceRow._field_defaults)


@pytest.mark.parametrize("order", [Order.SESSION, Order.TABLE])
def test_a_tape_has_what_each_session_has_with_its_gates(tmp_path: Path, order: Order) -> None:
    trace = made_trace(tmp_path / "a.parquet", sessions=3, seconds=3.0)
    rows = [TraceRow(*row) for row in read_rows(trace, STORED)]
    sent = sorted((row for row in rows if row.sql is not None), key=lambda row: (row.end_us, row.session))
    waits = gates((OrderedRow(row.session, row.seq, row.seq, row.sql, None, False, True) for row in sent), {})
    asked = {(session, seq): found for session, seq, found in waits if order is Order.TABLE}
    rows = [
        row._replace(gates=gate_bytes(found)) if (found := asked.get((row.session, row.seq))) else row for row in rows
    ]
    taped = write_tape(trace, tmp_path / "a.tape", order, lambda _: None)
    tape = mapped(tmp_path / "a.tape")
    found = [read_record(tape, place) for place in range(len(tape.index))]
    wanted = list(records_of(sorted(rows, key=lambda row: (row.session, row.seq))))
    assert found == [replace(one, is_edge=False) for one in wanted]
    assert taped.statements == len(sent)
    assert taped.gated == len(asked)
    assert bool(asked) is (order is Order.TABLE)


def test_gates_by_tables_are_the_same_where_texts_have_no_fingerprint(tmp_path: Path) -> None:
    whole, without = made_trace(tmp_path / "a.parquet", seconds=3.0), tmp_path / "b.parquet"
    names = [one.name for one in TRACE]
    at, session = names.index("fingerprint"), names.index("session")
    rows = ((*row[:at], row[at] if row[session] % 2 else None, *row[at + 1 :]) for row in read_rows(whole))
    write_meta(without, replace(read_meta(whole), digest=write_rows(without, TRACE, rows)))
    taped = {
        name: write_tape(name, name.with_suffix(".tape"), Order.TABLE, lambda _: None) for name in (whole, without)
    }
    assert taped[whole].gated == taped[without].gated > 0
    assert whole.with_suffix(".tape").read_bytes() == without.with_suffix(".tape").read_bytes()


@pytest.mark.parametrize("order", [Order.SESSION, Order.TABLE])
def test_a_trace_that_is_not_in_its_order_is_refused(tmp_path: Path, order: Order) -> None:
    trace = made_trace(tmp_path / "a.parquet", sessions=2, seconds=3.0)
    rows, meta = list(read_rows(trace)), read_meta(trace)
    write_rows(tmp_path / "b.parquet", TRACE, reversed(rows))
    write_meta(tmp_path / "b.parquet", meta)
    with pytest.raises(UsageError, match="is not in its place in the trace"):
        write_tape(tmp_path / "b.parquet", tmp_path / "b.tape", order, lambda _: None)
    assert [one.name for one in tmp_path.iterdir() if "work" in one.name] == []


@pytest.mark.parametrize("limit", ["_FEW_TEXTS", "_SHORT_VALUES"])
def test_gates_by_rows_are_the_same_however_wide_their_sort_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    trace = made_trace(tmp_path / "a.parquet", sessions=5, seconds=4.0)
    tapes = list[bytes]()
    for size in (1 << 20, 0):
        monkeypatch.setattr(f"pgdyno.replay.captured.{limit}", size)
        taped = write_tape(trace, tmp_path / f"{size}.tape", Order.ROW, lambda _: None)
        assert taped.gated > 0
        tapes.append((tmp_path / f"{size}.tape").read_bytes())
    assert tapes[0] == tapes[1]
