"""What one run recorded: samples, histograms, events and records, written in bulk and read by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from typing import TypeAlias, TypeVar

from sqlalchemy import Select, Table, insert, select
from sqlalchemy.engine import Connection

from pgdyno.errors import UsageError
from pgdyno.model.record import CheckRecord, ClientRecord, InstanceRecord, PlanRecord, Record, TextRecord
from pgdyno.model.samples import Event, HistogramRow, SampleRow, SampleValue
from pgdyno.store.schema import EVENT, HISTOGRAM, RECORDS, SAMPLES
from pgdyno.units import plural

Recorded: TypeAlias = Record | Event | HistogramRow
R = TypeVar("R", InstanceRecord, ClientRecord, CheckRecord, PlanRecord, TextRecord, Event, HistogramRow)

_ROWS_AT_ONCE = 500
_TABLES = RECORDS | {Event: EVENT, HistogramRow: HISTOGRAM}
_KEY_FIELDS: Mapping[type[Recorded], int] = {HistogramRow: 3}
"""How many of the first fields order the rows of a kind, where it is not the first alone."""


def write_samples(connection: Connection, run_id: int, rows: Iterable[SampleRow]) -> int:
    """Insert the rows and return how many they were."""
    return _insert(connection, run_id, (_sample_row(row) for row in rows))


def read_samples(connection: Connection, run_id: int, table: str) -> dict[str, list[SampleValue]]:
    """Return the columns of one sample table, `t` first, in the order of time; empty lists when there are no rows."""
    columns = ("t", *_sample_columns(table))
    source = SAMPLES[table]
    query = select(*(source.c[name] for name in columns)).where(source.c.run_id == run_id).order_by(source.c.t)
    rows = connection.execute(query).all()
    return {name: [row[index] for row in rows] for index, name in enumerate(columns)}


def read_study_samples(
    connection: Connection, runs: Select[tuple[object, ...]], table: str
) -> Iterator[tuple[int, dict[str, list[SampleValue]]]]:
    """Yield the columns of one sample table for each run that a query chooses and that has rows there, by run.

    One statement for all: a study may have thousands of runs. Rows are fetched as they are asked for.
    """
    columns = ("t", *_sample_columns(table))
    source = SAMPLES[table]
    query = select(source.c.run_id, *(source.c[name] for name in columns)).where(source.c.run_id.in_(runs))
    ordered = query.order_by(source.c.run_id, source.c.t).execution_options(yield_per=1000)
    for run_id, rows in groupby(connection.execute(ordered), key=lambda row: row[0]):
        cells = list(rows)
        yield run_id, {name: [row[index] for row in cells] for index, name in enumerate(columns, start=1)}


def write_records(connection: Connection, run_id: int, records: Iterable[Recorded]) -> int:
    """Insert the records and return how many they were."""
    rows = ((_TABLES[type(one)], {field.name: getattr(one, field.name) for field in fields(one)}) for one in records)
    return _insert(connection, run_id, rows)


def read_records(connection: Connection, run_id: int, kind: type[R]) -> list[R]:
    """Return the records of one kind of a run: events in the order of time, others in the order of their key."""
    table, names = _TABLES[kind], [field.name for field in fields(kind)]
    query = select(*(table.c[name] for name in names)).where(table.c.run_id == run_id)
    key = names[: _KEY_FIELDS.get(kind, 1)]
    return [kind(*row) for row in connection.execute(query.order_by(*(table.c[name] for name in key)))]


def read_study_records(connection: Connection, runs: Select[tuple[object, ...]]) -> dict[int, tuple[Record, ...]]:
    """Return the records of the runs that a query chooses, by run; one statement a kind."""
    found: dict[int, list[Record]] = defaultdict(list)
    for kind, table in RECORDS.items():
        query = select(table).where(table.c.run_id.in_(runs)).order_by(*table.primary_key)
        for run_id, *values in connection.execute(query):
            found[run_id].append(kind(*values))
    return {run_id: tuple(records) for run_id, records in found.items()}


def _insert(connection: Connection, run_id: int, rows: Iterable[tuple[Table, dict[str, object]]]) -> int:
    """Insert the rows, some hundred of a table a statement and in memory, and return how many they were."""
    written = 0
    waiting: dict[Table, list[dict[str, object]]] = defaultdict(list)
    for table, values in rows:
        waiting[table].append({"run_id": run_id, **values})
        written += 1
        if len(waiting[table]) == _ROWS_AT_ONCE:
            connection.execute(insert(table), waiting.pop(table))
    for table, left in waiting.items():
        connection.execute(insert(table), left)
    return written


def _sample_row(row: SampleRow) -> tuple[Table, dict[str, object]]:
    names = _sample_columns(row.table)
    if len(row.values) != len(names):
        raise UsageError(f'a row of "{row.table}" has {len(row.values)} values for {plural(len(names), "column")}')
    return SAMPLES[row.table], {"t": row.t, **dict(zip(names, row.values, strict=True))}


def _sample_columns(table: str) -> list[str]:
    if table not in SAMPLES:
        raise UsageError(f'there is no sample table "{table}"', hint=f"The tables are {', '.join(SAMPLES)}.")
    return list(SAMPLES[table].columns.keys())[2:]
