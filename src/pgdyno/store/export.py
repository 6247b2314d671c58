"""A study as files for other programs: one JSON file, or a folder of CSV files, one for each table."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from sqlalchemy import ColumnElement, Select, Table, Text, select
from sqlalchemy.engine import Connection

from pgdyno import outputs
from pgdyno.errors import StoreError
from pgdyno.outputs import new_folder, open_new
from pgdyno.store.catalogue import Store
from pgdyno.store.schema import RUN_TABLES, STUDY, TRIAL, TRIAL_FACTOR, TRIAL_SETTING

FORMAT = 1
"""The version of the JSON layout; it changes when a reader would have to."""

_TIME = {"histogram": "second"}
"""The column that orders a table without a key, where it is not `t`."""

Cell = None | bool | int | float | str | list[object] | dict[str, object]


def export_json(store: Store, study_id: str, path: Path) -> None:
    """Write one JSON object `{"format": 1, "tables": {name: [{column: value}]}}`, with every row of the study.

    Histograms are base64. Nothing is written under `path` until all of it is; raises UsageError when it exists and
    StoreError when it cannot be written.
    """

    def write(part: Path) -> None:
        with TextIOWrapper(open_new(part), encoding="utf-8") as file, store.read() as connection:
            _write_json(file, connection, study_id)

    write_whole(path, write)


def export_csv(store: Store, study_id: str, folder: Path) -> None:
    """Write a folder with `<table>.csv` for every table that has rows of the study; NULL is an empty field.

    JSON columns hold JSON text, histograms base64. Nothing is there under `folder` until all of it is; raises
    UsageError when it exists and StoreError when it cannot be written.
    """

    def write(part: Path) -> None:
        new_folder(part)
        with store.read() as connection:
            for name, query in table_queries(study_id):
                _write_csv(part / f"{name}.csv", connection, query)

    write_whole(folder, write)


def table_queries(study_id: str) -> Iterator[tuple[str, Select[tuple[object, ...]]]]:
    """Yield every table that may have rows of the study, parents first, with the query for its rows in their order."""
    trials = select(TRIAL.c.id).where(TRIAL.c.study_id == study_id)
    yield "study", select(STUDY).where(STUDY.c.id == study_id)
    yield "trial", select(TRIAL).where(TRIAL.c.study_id == study_id).order_by(TRIAL.c.id)
    for table in (TRIAL_SETTING, TRIAL_FACTOR):
        yield table.name, select(table).where(table.c.trial_id.in_(trials)).order_by(*table.primary_key)
    for name, table in RUN_TABLES.items():
        query = select(table).where(table.c.run_id.in_(trials))
        yield name, query.order_by(*(table.primary_key or _place(table)))


def _place(table: Table) -> list[ColumnElement[Any]]:
    """Return what orders a table without a key: run, time, and its words, which tell rows of one second apart."""
    words = [column for column in table.columns if isinstance(column.type, Text)]
    return [table.c.run_id, table.c[_TIME.get(table.name, "t")], *words]


def table_rows(connection: Connection, query: Select[tuple[object, ...]]) -> tuple[list[str], Iterator[list[Cell]]]:
    """Return the names of the columns, and the rows as they are read; bytes are base64."""
    result = connection.execution_options(stream_results=True, yield_per=1000).execute(query)
    return list(result.keys()), ([_cell(value) for value in row] for row in result)


def _cell(value: object) -> Cell:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    raise StoreError(f"a {type(value).__name__} from the store has no form in JSON or CSV")


def _write_json(file: IO[str], connection: Connection, study_id: str) -> None:
    file.write(f'{{"format": {FORMAT}, "tables": {{')
    for number, (name, query) in enumerate(table_queries(study_id)):
        columns, rows = table_rows(connection, query)
        file.write(f"{', ' if number else ''}\n{json.dumps(name)}: [")
        for index, row in enumerate(rows):
            file.write((",\n" if index else "\n") + json.dumps(dict(zip(columns, row, strict=True))))
        file.write("]")
    file.write("\n}}\n")


def _write_csv(path: Path, connection: Connection, query: Select[tuple[object, ...]]) -> None:
    columns, rows = table_rows(connection, query)
    first = next(rows, None)
    if first is None:
        return
    with TextIOWrapper(open_new(path), encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerow(_fields(first))
        writer.writerows(_fields(row) for row in rows)


def _fields(row: Sequence[Cell]) -> list[Cell]:
    return [json.dumps(value) if isinstance(value, list | dict) else value for value in row]


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a new file or folder as `outputs.write_whole` does. Raises StoreError where it cannot."""
    try:
        outputs.write_whole(path, write)
    except OSError as error:
        raise StoreError(
            f'"{path}" cannot be written',
            detail=error.strerror,
            hint="Name a place with room that this user may write with --output.",
        ) from error
