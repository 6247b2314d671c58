"""Rows of a long run: what stays in memory does not grow, and nothing is lost or changed on the way."""

from __future__ import annotations

import errno
from itertools import count
from pathlib import Path

import pytest

from pgdyno.model.samples import SampleRow
from pgdyno.probes.window import steal_pct
from pgdyno.store import sampled_rows
from pgdyno.store import spool as spool_module
from pgdyno.store.recordings import write_samples
from pgdyno.store.sampled_rows import KeptRows, SampledRows, rows_of
from pgdyno.store.spool import Spool

VALUES = (0.1 + 0.2, 2**63, None, "WAL — write\0", True, float("inf"))


def tick(number: int) -> list[SampleRow]:
    """Return 4 rows of 3 tables."""
    t = 1e9 + number
    return [
        SampleRow("cpu", t, (number, *VALUES)),
        SampleRow("waits", t, ("Lock", "tuple", number)),
        SampleRow("waits", t, ("IO", "WALSync", number)),
        SampleRow("observer", t, (number,)),
    ]


def kept(ticks: int, folder: Path) -> tuple[KeptRows, list[SampleRow]]:
    """Return what was kept of so many ticks, and the rows that were given to it."""
    made, given = KeptRows(folder), []
    for number in range(ticks):
        made.add(tick(number))
        given += tick(number)
    return made, given


def by_table(rows: list[SampleRow]) -> list[SampleRow]:
    """Return the rows in an order that packing does not change."""
    return sorted(rows, key=lambda row: row.table)


def test_what_is_in_memory_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spool_module, "IN_MEMORY", 10_000)
    short, long = (kept(ticks, tmp_path)[0] for ticks in (600, 6000))
    assert len(short._state[1]) <= sampled_rows.AT_ONCE + 4
    assert len(long._state[1]) <= sampled_rows.AT_ONCE + 4
    assert not long.rows().spool._memory
    assert [*tmp_path.iterdir()] == []  # the file has no name


@pytest.mark.parametrize("in_memory", [0, 1 << 30])
def test_rows_come_back_as_they_were_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_memory: int) -> None:
    monkeypatch.setattr(spool_module, "IN_MEMORY", in_memory)
    made, given = kept(1801, tmp_path)
    rows = made.rows()
    assert by_table([*rows]) == by_table(given)
    assert len(rows) == len(given)
    assert given[5] in rows
    assert SampleRow("cpu", 1.0, ()) not in rows
    for table in ("cpu", "waits", "observer", "wal"):
        assert [*rows_of(rows, table)] == [*rows_of(given, table)] == [row for row in given if row.table == table]
    assert [type(value) for value in next(rows.of("cpu")).values] == [type(value) for value in (0, *VALUES)]


def test_the_latest_tick_is_made_anew_also_right_after_packing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sampled_rows, "AT_ONCE", 8)
    for ticks in range(1, 8):
        made, given = kept(ticks, tmp_path)
        made.add([SampleRow("observer", 2e9, (1,))], anew=True)
        assert by_table([*made.rows()]) == by_table([*given[:-4], SampleRow("observer", 2e9, (1,))])


def test_what_was_given_out_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sampled_rows, "AT_ONCE", 8)
    monkeypatch.setattr(spool_module, "IN_MEMORY", 2000)
    made, seen = KeptRows(tmp_path), []
    for number in range(40):
        made.add(tick(number))
        seen.append(made.rows())
    assert [len(rows) for rows in seen] == [len([*rows]) for rows in seen] == [4 * number for number in range(1, 41)]


def test_rows_that_the_disk_does_not_take_stay_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = count()
    append = Spool.append

    def full(spool: Spool, data: bytes) -> None:
        if next(taken) == 2:
            raise OSError(errno.ENOSPC, "no space left on device")
        append(spool, data)

    monkeypatch.setattr(Spool, "append", full)
    made, given = kept(3000, tmp_path)
    assert by_table([*made.rows()]) == by_table(given)
    assert len(made._state[1]) == len(given) - 2 * sampled_rows.AT_ONCE
    assert next(taken) == 3  # it is not asked again


def test_a_window_reads_only_the_table_that_it_asks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = KeptRows(tmp_path)
    for number in range(1500):
        made.add([SampleRow("waits", number, ("Lock", "tuple", 1)), SampleRow("observer", number, (0, 0.0, 1.0, 1.0))])
    read: list[int] = []
    monkeypatch.setattr(Spool, "read", lambda _, offset, size: read.append(offset))
    rows = made.rows()
    assert isinstance(rows, SampledRows)
    assert len(rows.packs) == 1
    assert steal_pct(rows, 0.0, 1500.0) is None
    assert read == []


def test_rows_are_stored_some_hundred_at_a_time(tmp_path: Path) -> None:
    statements: list[list[dict[str, object]]] = []

    class Connection:
        def execute(self, _: object, values: list[dict[str, object]]) -> None:
            statements.append(values)

    rows = [SampleRow("waits", second, ("Lock", "tuple", second)) for second in range(1203)]
    rows += [SampleRow("pressure", second, (0.5,) * 6) for second in range(500)]
    made = KeptRows(tmp_path)
    made.add(rows)
    assert write_samples(Connection(), 7, made.rows()) == 1703  # type: ignore[arg-type]  # only execute is called
    assert sorted(map(len, statements)) == [203, 500, 500, 500]
    stored = [(row["t"], row["sessions"]) for values in statements for row in values if "sessions" in row]
    assert stored == [(second, second) for second in range(1203)]
