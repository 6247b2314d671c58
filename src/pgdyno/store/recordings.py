"""What one run recorded: samples, histograms, events and records, written in bulk and read by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby, islice
from typing import TypeVar

from sqlalchemy import Select, insert, select
from sqlalchemy.engine import Connection

from pgdyno.errors import UsageError
from pgdyno.model.record import CheckRecord, ClientRecord, InstanceRecord, PlanRecord, Record, TextRecord
from pgdyno.model.samples import Event, HistogramRow, SampleRow, SampleValue
from pgdyno.store.schema import EVENT, HISTOGRAM, RECORDS, SAMPLES
from pgdyno.units import plural

R = TypeVar("R", InstanceRecord, ClientRecord, CheckRecord, PlanRecord, TextRecord)

_ROWS_AT_ONCE = 500
_HISTOGRAM_FIELDS = ("second", "instance", "script", "count", "total_us", "failed", "retried", "skipped", "blob")


def write_samples(connection: Connection, run_id: int, rows: Iterable[SampleRow]) -> int:
    """Insert the rows, some hundred of a table a statement and in memory, and return how many they were."""
    written = 0
    waiting: dict[str, list[dict[str, SampleValue]]] = defaultdict(list)
    for row in rows:
        names = _sample_columns(row.table)
        if len(row.values) != len(names):
            raise UsageError(f'a row of "{row.table}" has {len(row.values)} values for {plural(len(names), "column")}')
        some = waiting[row.table]
        some.append({"run_id": run_id, "t": row.t, **dict(zip(names, row.values, strict=True))})
        if len(some) == _ROWS_AT_ONCE:
            written += len(some)
            connection.execute(insert(SAMPLES[row.table]), waiting.pop(row.table))
    for table, values in waiting.items():
        written += len(values)
        connection.execute(insert(SAMPLES[table]), values)
    return written


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


def write_histograms(connection: Connection, run_id: int, rows: Iterable[HistogramRow]) -> int:
    """Insert the rows, some hundred a statement and in memory, and return how many they were."""
    written, left = 0, iter(rows)
    while some := list(islice(left, _ROWS_AT_ONCE)):
        values: list[Mapping[str, object]] = [
            {"run_id": run_id, **{name: getattr(row, name) for name in _HISTOGRAM_FIELDS}} for row in some
        ]
        connection.execute(insert(HISTOGRAM), values)
        written += len(some)
    return written


def read_histograms(connection: Connection, run_id: int) -> list[HistogramRow]:
    """Return the rows of one run by second, instance and script."""
    query = (
        select(*(HISTOGRAM.c[name] for name in _HISTOGRAM_FIELDS))
        .where(HISTOGRAM.c.run_id == run_id)
        .order_by(HISTOGRAM.c.second, HISTOGRAM.c.instance, HISTOGRAM.c.script)
    )
    return [HistogramRow(*row) for row in connection.execute(query)]


def write_events(connection: Connection, run_id: int, events: Iterable[Event]) -> int:
    """Insert the events in one bulk statement and return how many they were."""
    values = [{"run_id": run_id, "t": event.t, "kind": event.kind, "text": event.text} for event in events]
    if values:
        connection.execute(insert(EVENT), values)
    return len(values)


def read_events(connection: Connection, run_id: int) -> list[Event]:
    """Return the events of one run in the order of time."""
    query = select(EVENT.c.t, EVENT.c.kind, EVENT.c.text).where(EVENT.c.run_id == run_id).order_by(EVENT.c.t)
    return [Event(*row) for row in connection.execute(query)]


def write_records(connection: Connection, run_id: int, records: Iterable[Record]) -> int:
    """Insert the records, one bulk statement for each table, and return how many they were."""
    grouped: dict[type[Record], list[dict[str, object]]] = defaultdict(list)
    for record in records:
        values = {field.name: getattr(record, field.name) for field in fields(record)}
        grouped[type(record)].append({"run_id": run_id, **values})
    for kind, rows in grouped.items():
        connection.execute(insert(RECORDS[kind]), rows)
    return sum(len(rows) for rows in grouped.values())


def read_records(connection: Connection, run_id: int, kind: type[R]) -> list[R]:
    """Return the records of one kind of a run, in the order of their key."""
    table, names = RECORDS[kind], [field.name for field in fields(kind)]
    query = select(*(table.c[name] for name in names)).where(table.c.run_id == run_id).order_by(table.c[names[0]])
    return [kind(*row) for row in connection.execute(query)]


def read_study_records(connection: Connection, runs: Select[tuple[object, ...]]) -> dict[int, tuple[Record, ...]]:
    """Return the records of the runs that a query chooses, by run; one statement a kind."""
    found: dict[int, list[Record]] = defaultdict(list)
    for kind, table in RECORDS.items():
        query = select(table).where(table.c.run_id.in_(runs)).order_by(*table.primary_key)
        for run_id, *values in connection.execute(query):
            found[run_id].append(kind(*values))
    return {run_id: tuple(records) for run_id, records in found.items()}


def _sample_columns(table: str) -> list[str]:
    if table not in SAMPLES:
        raise UsageError(f'there is no sample table "{table}"', hint=f"The tables are {', '.join(SAMPLES)}.")
    return list(SAMPLES[table].columns.keys())[2:]
