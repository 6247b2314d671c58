"""Tracks: what a live study's course and the lines of a search are drawn with, in every renderer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.live import LiveMoment
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.payload import figure_payload
from pgdyno.report.drawing.text_tracks import tracks
from pgdyno.report.sections import Charts, Report, Section, TableBlock, Tone
from pgdyno.studies.live.course.figures import timeline

MOMENTS = (
    LiveMoment(lane="A", at=1000.0, seconds=50.0),
    LiveMoment(lane="checkpoint", at=1025.0, seconds=0.0, words="began"),
    LiveMoment(lane="B", at=1050.0, seconds=50.0),
    LiveMoment(lane="guard", at=1099.0, seconds=0.0, words="temp: <b>too much</b>"),
)


def page(figure):
    return Report(
        study="s", kind="live", title="t", word="w", tone=Tone.GOOD, lead="", stamp="", tiles=(),
        sections=(Section("course", "Course", "?", (Charts((figure,)),)),),
    )  # fmt: skip


def test_a_timeline_has_a_lane_for_what_happened_and_none_for_what_did_not():
    figure = timeline(MOMENTS)
    assert [mark.label for mark in figure.marks] == ["A", "B", "checkpoint", "guard"]
    assert figure.title == "2 changes of the arm in force, 1 checkpoint, 0 vacuums, guards tripped 1 time"
    assert (figure.y.unit, figure.series[1].y, figure.series[1].hi) == ("s", (50.0,), (100.0,))
    assert figure.table.rows[1] == ("1970-01-01 00:17:05 UTC", "checkpoint", "", "began")
    assert timeline(()) is None


def test_in_characters_spans_moments_and_lanes_are_where_they_were():
    *lanes, axis = tracks(timeline(MOMENTS), 60)
    drawn = {line.split()[0]: line[11:] for line in lanes}
    assert set(drawn["A"].strip()) == {"█"}
    assert drawn["A"].rstrip() == drawn["A"].rstrip().ljust(24, "█"), "from the left to the middle"
    assert drawn["B"].index("█") >= 24
    assert drawn["checkpoint"].strip() == "│"
    assert drawn["checkpoint"].index("│") in range(11, 14), "at a quarter"
    assert axis.split() == ["0", "100", "s"]


@pytest.mark.parametrize("draw", [markdown.render, html.render])
def test_every_form_has_the_figure_with_its_name_and_its_numbers(draw):
    drawn = draw(page(timeline(MOMENTS)))
    for words in ("2 changes of the arm in force", "1970-01-01 00:17:05 UTC", "checkpoint"):
        assert words in drawn
    assert "<b>too" not in drawn


def test_lines_from_row_to_row_show_the_best_in_front():
    figure = Figure(
        FigureKind.TRACKS, "lines", "t", "?", Axis("knob"), Axis("place", "%", lo=0.0, hi=100.0),
        series=(
            Series("trial 9", (0.0, 1.0), (50.0, None), group="best"),
            Series("trial 1", (0.0, 1.0), (50.0, 100.0)),
        ),
        marks=(Mark("x", 0.0, "work_mem\n64kB to 1GB", "row"), Mark("x", 1.0, "jit\noff to on", "row")),
    )  # fmt: skip
    first, second, _ = tracks(figure, 60)
    assert first.split() == ["work_mem", "●"], "the best one hides another at the same place"
    assert second.endswith("·")
    assert figure_payload(figure)["series"][0]["y"] == [50.0, None]


def test_a_column_without_a_name_has_no_heading_that_is_read_and_tables_are_no_landmarks():
    table = Table(("setting", ""), (("jit", "taken"),))
    report = replace(page(timeline(MOMENTS)), sections=(Section("s", "S", "?", (TableBlock(table, "c"),) * 2),))
    drawn = html.render(report)
    assert '<th scope="col"></th>' not in drawn
    assert 'role="region" aria-label="table"' not in drawn, "landmarks of one name cannot be told apart"
