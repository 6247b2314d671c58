"""A report as PDF by a real browser: it has pages, and every figure is on them."""

from __future__ import annotations

import contextlib
import re
import shutil
import zlib
from pathlib import Path

import pytest

import study_example as example
from pgdyno.report.drawing import pdf
from pgdyno.report.sections import Report
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report
from staircase_example import curves, page, staircase

pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(not any(shutil.which(name) for name in pdf.BROWSERS), reason="no Chromium or Chrome"),
]


LINE = re.compile(rb" l\n")
KEEP, FIRST_CURVE = b"0 .6196 .451 rg", b"0 .4471 .698 rg"


def printed(report: Report, path: Path) -> tuple[int, bytes]:
    """Print and return the number of pages and their drawing operators; charts are printed as lines, not as images."""
    pages = pdf.write_pdf(report, path)
    drawn = b""
    for stream in re.finditer(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL):
        with contextlib.suppress(zlib.error):
            drawn += zlib.decompress(stream[1])
    return pages, drawn


@pytest.mark.requirement("R-REP-01")
def test_a_study_is_printed_with_all_its_figures(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        report = build_report(store, example.add_bench(store))
    pages, drawn = printed(report, tmp_path / "report.pdf")
    assert pages >= 2
    assert len(LINE.findall(drawn)) > 20 * len(list(report.figures()))


@pytest.mark.requirement("R-REP-01", "R-REP-02")
def test_staircase_and_curves_are_printed(tmp_path: Path) -> None:
    pages, drawn = printed(page(staircase(), curves()), tmp_path / "report.pdf")
    assert pages >= 1
    assert KEEP in drawn
    assert FIRST_CURVE in drawn
    bare_pages, bare = printed(page(), tmp_path / "bare.pdf")
    assert bare_pages == 1
    assert not LINE.findall(bare), "what is counted as drawn is a figure"
