"""Staircases and curves: every number inside the axes, in characters, Markdown and the JSON of the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series
from pgdyno.report.drawing import markdown, text_charts
from pgdyno.report.drawing.frames import drawn_table, framed
from pgdyno.report.drawing.payload import figure_payload, figures_json
from staircase_example import curves, page, staircase

NUMBERS = st.none() | st.floats(allow_nan=True, allow_infinity=True, width=32)
PLACES = st.floats(-1e6, 1e6)


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    kind = draw(st.sampled_from((FigureKind.STAIRCASE, FigureKind.LINES)))
    series = []
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 12))
        x = tuple(float(at) for at in range(count)) if kind is FigureKind.STAIRCASE else tuple(
            draw(st.lists(PLACES, min_size=count, max_size=count)))  # fmt: skip
        y, lo, hi = (tuple(draw(st.lists(NUMBERS, min_size=count, max_size=count))) for _ in range(3))
        ranged = draw(st.booleans())
        labels = tuple(draw(st.text(max_size=60)) for _ in range(count))
        series.append(Series(f"s{number}", x, y, lo if ranged else (), hi if ranged else (), "line", labels, "keep"))
    scale = draw(st.sampled_from(("linear", "log")))
    bounds = draw(st.sampled_from(((None, None), (0.0, 10.0), (None, 5.0)))) if scale == "linear" else (None, None)
    y_axis = Axis("height", draw(st.sampled_from(("%", "x", "transactions/s", ""))), scale, *bounds)
    x_axis = Axis("clients", scale=draw(st.sampled_from(("linear", "log"))))
    marks = (Mark("y", 1.0, "one"), *((Mark("x", 2.0, "two"),) if kind is FigureKind.LINES else ()))
    return Figure(kind, "f", "t", "q", x_axis, y_axis, tuple(series), (Band("y", 1.0, 2.0, "band"),), marks)


@given(figures())
def test_every_point_and_interval_lies_inside_the_axes(figure: Figure) -> None:
    payload: Any = json.loads(json.dumps(figure_payload(figure), allow_nan=False))
    y = payload["y"]
    assert y["lo"] < y["hi"]
    slack = 1e-4 * max(abs(y["lo"]), abs(y["hi"]))  # drawn numbers have five digits
    for one in payload["series"]:
        for value in (*one["y"], *one.get("lo", ()), *one.get("hi", ())):
            assert value is None or y["lo"] - slack <= value <= y["hi"] + slack
        if figure.x.scale == "linear":
            room = 1e-4 * max(abs(payload["x"]["lo"]), abs(payload["x"]["hi"]))
            assert all(payload["x"]["lo"] - room <= x <= payload["x"]["hi"] + room for x in one["x"])


@given(figures(), st.integers(60, 200))
def test_a_drawing_in_characters_is_never_wider_than_asked(figure: Figure, width: int) -> None:
    lines = list(text_charts.framed_chart(figure, width))
    assert lines
    for line in lines:
        assert len(line) <= width
        assert "\n" not in line


@given(figures())
def test_a_known_point_is_never_lost(figure: Figure) -> None:
    for before, after in zip(figure.series, framed(figure).series, strict=True):
        for value, kept in zip(before.y, after.y, strict=True):
            is_drawable = value is not None and math.isfinite(value) and (figure.y.scale == "linear" or value >= 1e-300)
            assert kept == (value if is_drawable else None)


@pytest.mark.requirement("R-REP-02")
def test_the_staircase_of_2017_is_drawn_with_its_intervals_and_kinds() -> None:
    lines = text_charts.framed_chart(staircase(), 110)
    assert [line.split()[0] for line in lines[:2]] == ["baseline", "max_wal_size"]
    assert lines[6].endswith("144.1 % [141.9, 146.2]")
    assert "total" in lines[7]
    ends = [line.rindex("┤") for line in lines[1:7]]
    assert ends == sorted(ends), "the stairs rise"
    assert not any("x" in line.split("%")[-1] for line in lines[:8])


def test_an_interval_that_is_drawn_to_the_edge_is_written_whole() -> None:
    wide = Series("s", (0.0,), (31610.0,), (918.2,), (1.094e6,), "bars", ("a",), "keep")
    figure = replace(staircase(), series=(wide,), y=Axis("y", "%", lo=0.0, hi=100_000.0))
    assert framed(figure).series[0].hi == (100_000.0,)
    first = text_charts.framed_chart(figure, 110)[0]
    assert first.endswith("31,610 % [918.2, 1,094,000]")


def test_kinds_of_steps_differ_without_colour() -> None:
    lines = text_charts.framed_chart(staircase((1.1, 0.9, 1.0), names=("b", "good", "bad", "nil")), 110)
    assert [next(c for c in line if c in "█░▒▓") for line in lines[:5]] == ["▒", "█", "░", "▒", "▓"]
    assert [line.split()[1] for line in lines[:4]] == ["baseline", "keep", "drop", "null"]


def test_curves_have_a_glyph_each_a_gap_and_the_unit_of_their_axis() -> None:
    lines = text_charts.framed_chart(curves(), 110)
    text = "\n".join(lines)
    assert lines[0].strip() == "throughput, transactions/s"
    assert text.count("●") == 4 + 1, "three points lie under those of the other curve; one stands in the key"
    assert text.count("○") == 6 + 1, "the cell that was not measured is no point"
    assert "knee" in text
    assert "best cell: 9,300 to 9,900" in text


def test_bars_stand_on_zero_unless_the_figure_says_otherwise() -> None:
    assert framed(staircase()).y.lo == 0.0
    assert framed(replace(staircase(), y=Axis("y", "%", lo=90.0))).y.lo == 90.0


def test_an_axis_that_is_too_short_for_a_point_grows() -> None:
    shown = framed(replace(staircase(), y=Axis("y", "%", lo=0.0, hi=110.0)))
    assert shown.y.hi is not None
    assert shown.y.hi >= 144.1


def test_an_endless_interval_ends_at_the_edge() -> None:
    one = Series("s", (0.0,), (1.2,), (-math.inf,), (math.inf,), labels=("a",), group="keep")
    shown = framed(replace(staircase(), series=(one,)))
    assert shown.series[0].lo == (shown.y.lo,)
    assert shown.series[0].hi == (shown.y.hi,)
    assert "Infinity" not in figures_json([replace(staircase(), series=(one,))])


def test_measured_places_are_the_ticks_of_curves() -> None:
    payload: Any = figure_payload(curves())
    assert payload["x"]["ticks"] == [1, 2, 4, 8, 16, 32, 64]


def test_markdown_holds_the_drawing_and_the_numbers() -> None:
    text = markdown.render(page(staircase(), curves()))
    assert "├" in text
    assert "| keep | migration cost | 144 | 142 | 146 |" in text
    assert "| tuned | 8 |  |  |  |" in text


def test_a_figure_without_a_table_gets_one_of_its_series() -> None:
    table = drawn_table(curves())
    assert table.columns[2] == "throughput, transactions/s"
    assert len(table.rows) == 14
