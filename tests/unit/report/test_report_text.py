"""Character charts, Markdown and the words of numbers."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.results.tune import Effect
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.report.drawing import markdown, text_charts
from pgdyno.report.drawing.text import render
from pgdyno.report.figures import forest
from pgdyno.report.sections import Charts, Report, Section, TableBlock, Tone
from pgdyno.report.tiles import tile
from pgdyno.report.wording import change_text, number_text, range_text
from pgdyno.units import agreeing, plural


def effect(knob: str, before: str, after: str, interval: Interval) -> Effect:
    told = {"knob": knob, "before": before, "after": after, "why": "", "durability": "A", "context": "user"}
    return Effect(**told, interval=interval, word=Word.BETTER)


def test_a_sparkline_rises_from_low_to_high() -> None:
    assert text_charts.sparkline([0.0, 50.0, 100.0], Axis("y", lo=0.0, hi=100.0), 10) == "▁▅█"


def test_a_sparkline_shows_gaps() -> None:
    assert text_charts.sparkline([1.0, None, 1.0], Axis("y", lo=0.0, hi=1.0), 10) == "█·█"


@given(st.lists(st.none() | st.floats(-10, 1e6), max_size=300), st.integers(1, 80))
def test_a_sparkline_is_never_wider_than_asked(values: list[float | None], width: int) -> None:
    assert len(text_charts.sparkline(values, Axis("y", lo=0.0, hi=100.0), width)) == min(width, len(values))


def test_a_timeline_without_an_upper_bound_ends_at_its_greatest_value() -> None:
    figure = Figure(
        kind=FigureKind.TIMELINE, id="t", title="", question="", x=Axis("time", "s"), y=Axis("statements", lo=0),
        series=(Series("statements", (0.0, 1.0, 2.0), (0.0, 500.0, 1000.0)), Series("sessions", (0.0,), (None,))),
    )  # fmt: skip
    assert text_charts.timeline(figure, 40) == ["▁▅█", "·"]
    console = Console(file=StringIO(), width=80)
    section = Section("x", "", "", (Charts((figure,)),))
    console.print(render(Report("s", "trace", "A", "", Tone.NEUTRAL, "", "", (), (section,)), 80))
    assert "▁▅█" in console.file.getvalue()  # type: ignore[attr-defined]


def test_rows_show_the_interval_around_the_estimate() -> None:
    figure = forest([effect("jit", "on", "off", Interval(1.2, 1.1, 1.3, 0.95))], smallest_effect=0.02)
    line = text_charts.rows(figure, 100)[0]
    assert line.startswith("jit on → off")
    assert line.index("│") < line.index("├") < line.index("●") < line.index("┤")
    assert line.endswith("1.2x [1.1, 1.3]")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_rows_fit_and_show_every_interval_whole(width: int) -> None:
    interval = Interval(0.3184, 0.3121, 0.3252, 0.95)
    effects = [effect(knob, "4", "1", interval) for knob in ("jit", "max_parallel_workers_per_gather")]
    told = text_charts.rows(forest(effects, smallest_effect=0.02), width)[:2]
    assert len(told) == 2
    for line in told:
        assert len(line) <= width
        assert line.endswith("0.318x [0.312, 0.325]")


@pytest.mark.parametrize("width", [50, 80, 140])
def test_a_table_that_is_too_wide_breaks_words_and_never_a_number(width: int) -> None:
    columns = ("device", "requests per second", "kB/s", "what was done to it, and why")
    rows = tuple((f"edb_data_{at}", f"{220_167.6 + at:,.1f}", f"{2_006_027.2 + at:,.1f}", "x" * 40) for at in range(3))
    section = Section("all", "All", "Which?", (TableBlock(Table(columns, rows, columns[1:3]), "Devices."),))
    stream = StringIO()
    Console(file=stream, width=width).print(
        render(Report("s", "tune", "A", "", Tone.NEUTRAL, "", "", (), (section,)), width)
    )
    told = stream.getvalue()
    assert "…" not in told
    assert all(figure in told for row in rows for figure in row[1:3])
    assert told.count("x") == 3 * 40
    assert max(map(len, told.splitlines())) <= width


@pytest.mark.parametrize("width", range(40, 160, 7))
def test_no_name_of_a_setting_and_no_number_is_cut(width: int) -> None:
    columns = ("setting", "from", "to", "effect", "why")
    knobs = ("autovacuum_vacuum_insert_scale_factor", "max_parallel_maintenance_workers", "jit")
    rows = tuple((knob, "1234567890", "0.25", "1.031x [0.984, 1.082]", "it costs a lock for each") for knob in knobs)
    section = Section("all", "All", "", (TableBlock(Table(columns, rows, columns[1:4]), ""),))
    stream = StringIO()
    Console(file=stream, width=width).print(
        render(Report("s", "tune", "A", "", Tone.NEUTRAL, "", "", (), (section,)), width)
    )
    told = stream.getvalue()
    assert max(map(len, told.splitlines())) <= width
    for word in (*knobs, "1234567890", "0.25", "1.031x", "[0.984,", "1.082]"):
        assert word in told.split()


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.118, "+11.8 %"), (0.82, "−18 %"), (1.0, "+0 %"), (3.131, "3.13x"), (2.0, "2x")]
)
def test_changes_are_told_in_percent_below_a_doubling(ratio: float, text: str) -> None:
    assert change_text(ratio) == text


def test_an_interval_is_told_like_its_estimate() -> None:
    assert range_text(Interval(1.118, 1.096, 1.141, 0.95)) == "[+9.6, +14.1] %"
    assert range_text(Interval(3.1, 2.9, 3.3, 0.95)) == "[2.9, 3.3]"
    assert range_text(Interval(0.846, 0.038, 18.9, 0.95)) == "[−96.2, +1,790] %"
    assert range_text(Interval(1.4, 0.1, 1.4e15, 0.95)) == "[−90 %, over 1,000x]", "digits that only look exact"
    assert str(Interval(0.727, 2.58e-111, 2.04e110, 0.95)) == "0.727x [below 0.001, over 1,000]"
    assert str(Interval(1.2, 0.0, float("inf"), 0.95)) == "1.2x [no interval yet]"


def test_numbers_of_people() -> None:
    assert [number_text(value) for value in (1234567.8, 123.4, 1.2345, None)] == [
        "1,234,568",
        "123",
        "1.23",
        "not measured",
    ]
    assert plural(1, "pair") == "1 pair"
    assert plural(3, "pair") == "3 pairs"
    assert plural(12_345, "row") == "12,345 rows"
    assert (plural(1, "class"), plural(2, "class"), plural(0, "study")) == ("1 class", "2 classes", "0 studies")
    assert plural(2, "replay") == "2 replays"
    assert (plural("1", "session"), plural("1.2", "session")) == ("1 session", "1.2 sessions"), "written already"
    assert agreeing(1, "session", "waits", "wait") == "1 session waits"
    assert agreeing(1_200, "session", "waits", "wait") == "1,200 sessions wait"
    assert agreeing("1", "session", "is", "are") == "1 session is"


def test_a_tile_without_a_verdict_claims_nothing() -> None:
    made = tile(None, Metric.SERVER_CPU, 1.38, None)
    assert made.word == ""
    assert made.tone is Tone.UNSURE
    assert made.value == "1.38 → not measured"


@pytest.mark.parametrize(
    ("ratio", "word", "detail"), [(1.021, Word.BETTER, "1,000 → 1,021 tps"), (0.97, Word.WORSE, "1,000 → 970 tps")]
)
def test_the_arrow_of_a_tile_goes_the_way_of_its_verdict(ratio: float, word: Word, detail: str) -> None:
    """The verdict is of pairs: medians of all runs of either side may differ the other way."""
    verdict = Verdict(word, Interval(ratio, 0.99 * ratio, 1.01 * ratio, 0.95), 6, Metric.THROUGHPUT, 0.01)
    made = tile(verdict, Metric.THROUGHPUT, 1000.0, 995.0 if ratio > 1 else 1005.0)
    assert (made.detail, made.word) == (detail, word.value)
    assert tile(verdict, Metric.THROUGHPUT, None, 995.0).detail == ""


def test_markdown_escapes_what_would_be_markup() -> None:
    table = markdown.table(Table(("a|b", "n"), (("x_y*z | <b>", "1"),), ("n",)))
    assert table.splitlines() == ["| a\\|b | n |", "| --- | ---: |", "| x\\_y\\*z \\| \\<b\\> | 1 |"]


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert markdown.fence("a ``` b").startswith("````\n")
    assert markdown.fence("a") == "```\na\n```"
