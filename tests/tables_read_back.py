"""Tables of a report read back from its JSON and CSV, to see that nothing was lost in writing."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from pgdyno.model.figure import Table
from pgdyno.report.drawing.tables import INDEX, NamedTable


def read_json(text: str) -> tuple[NamedTable, ...]:
    """Read the tables back from the JSON of a report."""
    return tuple(
        NamedTable(
            one["name"],
            one["section"],
            one["caption"],
            Table(tuple(one["columns"]), tuple(tuple(row) for row in one["rows"]), tuple(one["numeric"])),
        )
        for one in json.loads(text)["tables"]
    )


def read_csv(folder: Path) -> tuple[NamedTable, ...]:
    """Read a folder that `write_csv` made."""
    found = []
    for one in json.loads((folder / INDEX).read_text(encoding="utf-8"))["tables"]:
        with (folder / one["file"]).open(encoding="utf-8", newline="") as file:
            columns, *rows = csv.reader(file)
        table = Table(tuple(columns), tuple(tuple(row) for row in rows), tuple(one["numeric"]))
        found.append(NamedTable(one["file"].removesuffix(".csv"), one["section"], one["caption"], table))
    return tuple(found)
