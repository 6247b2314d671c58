"""Reports of the studies that `study_example` writes, and their text."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

from pgdyno.report.drawing.text import print_report
from pgdyno.report.sections import Report
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report


def built(folder: Path, add: Callable[[Store], str]) -> Report:
    with Store.open(folder / "store.db") as store:
        return build_report(store, add(store))


def text_of(report: Report) -> str:
    stream = StringIO()
    print_report(report, stream)
    return stream.getvalue()
