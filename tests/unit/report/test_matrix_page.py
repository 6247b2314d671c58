"""The page of a matrix: exactly the published columns, everything computed from the rows."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from matrix_example import made_row, seed_rows
from pgdyno.model.matrix import MatrixRow, SkippedCell
from pgdyno.model.matrix_json import row_to_json, skipped_to_json
from pgdyno.model.study import StudyKind
from pgdyno.report import html, markdown
from pgdyno.report.compose import StudyRecord, compose
from pgdyno.report.matrix_words import COLUMNS, matrix_table
from pgdyno.report.sections import Report
from pgdyno.report.text import print_report
from study_example import make_study

CONFIGURATIONS = {"Default": "default", "No Tune": "default", "Tune": "tuned"}
SMT8 = seed_rows("power_smt8", configuration=CONFIGURATIONS)


def page(rows: list[MatrixRow], skipped: tuple[SkippedCell, ...] = ()) -> Report:
    result = {
        "rows": [row_to_json(row) for row in rows],
        "skipped": [skipped_to_json(one) for one in skipped],
        "driver": "The load generators ran on the server's host.",
        "method": {"each run": "30 s"},
        "network": {"admin": "VLAN 10"},
    }
    return compose(StudyRecord(replace(make_study(StudyKind.MATRIX), result=result), ()))


def text(report: Report) -> str:
    return " ".join(markdown.render(report).replace("\\", "").split())


@pytest.mark.requirement("R-BEN-11")
def test_the_table_has_exactly_the_published_columns() -> None:
    published = "Test, PODs, C/J, TPS, LAT, CPU %, SMT, Row Exclusive, Access Share, Exclusive Lock"
    table = matrix_table(SMT8)
    assert ", ".join(table.columns) == published == ", ".join(COLUMNS)
    assert table.rows[4] == ("tuned", "32", "7", "61963.9", "3.61", "79.49", "8", "915", "254", "361")
    x86 = matrix_table(seed_rows("x86_ht", configuration=CONFIGURATIONS), systems=True)
    assert x86.columns == ("System", "Core", "vCPU", *COLUMNS)
    assert x86.rows[0][1:6] == ("16", "32", "default", "16", "7")


@pytest.mark.requirement("R-BEN-14", "R-BEN-18", "R-BEN-21")
def test_the_page_names_best_cell_knee_locks_and_changes_from_the_rows() -> None:
    said = text(page(SMT8))
    assert "Best cell: tuned, SMT 8, 32 load generators with 7 clients each, 61963.9" in said
    for words in ("+7.39", "+12.17", "+10.55", "no claim", "RowExclusiveLock 4.81 times", "112 connections already"):
        assert words in said, words
    assert "One run each: no difference between cells is claimed." in said
    assert "The load generators ran on the server's host." in said
    changed = text(page([replace(SMT8[0], tps=60000.0), *SMT8[1:]]))
    assert "+1.07" in changed
    assert "+7.39" not in changed


@pytest.mark.requirement("R-BEN-16")
def test_figures_of_class_x_are_labelled_and_never_the_best() -> None:
    rows = seed_rows("fsync", configuration={"fsync Off": "fsync-off", "fsync On": "default"})
    report = page([replace(row, durability="X" if row.cell.configuration != "default" else "") for row in rows])
    said = text(report)
    assert "Best cell: default" in said
    assert "fsync-off [X]" in said
    assert "+15.05" in said
    assert "can lose committed data" in said


def test_rows_that_are_not_whole_say_so_and_skipped_cells_have_their_reason() -> None:
    partial = replace(made_row(8, 90.0), state="partial", reason="1 of 2 load generators ended early: killed")
    skipped = SkippedCell(replace(partial.cell, smt="4"), "SMT is not switchable here: one thread a core")
    report = page([made_row(4, 80.0), partial], (skipped,))
    said = text(report)
    assert "default (partial)" in said
    assert "1 of 2 load generators ended early: killed" in said
    assert "SMT is not switchable here: one thread a core" in said
    assert "1 of 2 rows did not come out whole" in said
    assert "VLAN 10" in said


@pytest.mark.requirement("R-BEN-12")
def test_a_row_that_contradicts_itself_is_flagged() -> None:
    wrong = replace(made_row(4, 80.0), latency_ms=60.0)
    assert "contradiction" in text(page([wrong]))
    assert "contradiction" not in text(page([made_row(4, 80.0)]))


def test_every_renderer_draws_it_and_a_study_without_rows() -> None:
    report = page(SMT8)
    assert html.render(report).count("<table") >= 4
    out = StringIO()
    print_report(report, out)
    assert "61963.9" in out.getvalue()
    assert [figure.id for figure in report.figures()][:2] == ["matrix-throughput", "matrix-latency"]
    assert "No rows: the matrix is running" in text(page([]))
