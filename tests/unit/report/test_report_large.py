"""Studies of ten thousand trials: pages that can be mailed, exports that hold everything, figures that say the same."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.figure import Table
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.payload import MOST_NOTED, figure_payload
from pgdyno.report.drawing.tables import MOST_PRINTED, MOST_ROWS, report_tables
from pgdyno.report.drawing.text import render
from pgdyno.report.figures import TrialPoint, history
from pgdyno.report.neighbours import trial_points
from pgdyno.report.sections import Charts, Report, Section, TableBlock, Tone
from study_example import make_study
from tables_read_back import read_json

SETTINGS = "effective_io_concurrency = 200, jit = off, random_page_cost = 1.1, shared_buffers = 4GB, wal_buffers = 64MB"


def points(count: int) -> list[TrialPoint]:
    rng = random.Random(4)
    roles = [Role.BASELINE if at % 5 == 0 else Role.SEARCH for at in range(count)]
    return [
        TrialPoint(at + 1, role, TrialState.COMPLETE, 1 + rng.random(), f"{SETTINGS} {at}")
        for at, role in enumerate(roles)
    ]


def large(count: int) -> Report:
    figure = history(points(count))
    table = Table(("trial", "settings"), tuple((str(at), SETTINGS) for at in range(count)), ("trial",))
    blocks = (Charts((figure,)), TableBlock(table, f"All {count} trials.", folded=True))
    return Report(
        "s", "tune", "A search", "", Tone.NEUTRAL, "A load", "", (), (Section("all", "All", "Which?", blocks),)
    )


def test_a_page_of_ten_thousand_trials_can_be_mailed_and_says_what_it_leaves_out() -> None:
    report = large(10_000)
    page, text = html.render(report), markdown.render(report)
    assert len(page) < 3_000_000
    assert len(text) < 300_000
    for told in (page, text):
        assert "The first 500 of 10,000 rows; --format csv and json have them all." in told.replace("\\", "")
    assert page.count("<tr>") == 2 * (MOST_ROWS + 1)
    assert [len(one.table.rows) for one in report_tables(report)] == [10_000, 10_000]


def test_a_page_of_few_trials_leaves_nothing_out() -> None:
    page = html.render(large(MOST_ROWS))
    assert "have them all" not in page
    assert page.count("<tr>") == 2 * (MOST_ROWS + 1)


def test_the_terminal_shows_the_first_rows_and_says_so() -> None:
    from io import StringIO

    from rich.console import Console

    table = Table(("trial",), tuple((str(at),) for at in range(1000)))
    section = Section("all", "All", "Which?", (TableBlock(table, "All."),))
    stream = StringIO()
    Console(file=stream, width=100).print(
        render(Report("s", "tune", "A search", "", Tone.NEUTRAL, "", "", (), (section,)))
    )
    assert "The first 200 of 1,000 rows" in stream.getvalue()
    assert len(stream.getvalue().splitlines()) < 220


def test_sheets_are_not_filled_with_numbers_that_nobody_reads() -> None:
    said = "rows, which are not printed: open the HTML page."
    assert said not in html.render(large(MOST_PRINTED))
    page = html.render(large(MOST_PRINTED + 1))
    assert page.count(said) == 2
    assert page.count(' long"') == 2


def test_a_large_history_keeps_its_points_and_shortens_what_they_say() -> None:
    small, big = (figure_payload(history(points(count)))["series"] for count in (MOST_NOTED // 2, MOST_NOTED * 2))
    for series, count in ((small, MOST_NOTED // 2), (big, MOST_NOTED * 2)):
        assert sum(len(one["x"]) for one in series if one["style"] == "points") == count
    assert SETTINGS in small[1]["labels"][0]
    assert big[1]["labels"][0] == "trial 2 (search)"


def test_the_best_so_far_keeps_every_step_it_takes() -> None:
    figure = history(points(300))
    (whole,) = [one for one in figure.series if one.style == "step"]
    (drawn,) = [one for one in figure_payload(figure)["series"] if one["style"] == "step"]
    assert len(drawn["x"]) < len(whole.x) / 3
    heights = dict(zip(drawn["x"], drawn["y"], strict=True))
    at = 0.0
    for x, y in zip(whole.x, whole.y, strict=True):
        at = heights.get(x, at)
        assert at == pytest.approx(y, rel=1e-4)
    assert drawn["x"][-1] == whole.x[-1]


def made(index: int, role: Role, tps: float | None) -> Trial:
    outcome = Outcome(TrialState.COMPLETE if tps else TrialState.FAILED, throughput=tps)
    configuration = BASELINE if role is Role.BASELINE else Configuration.of({"jit": "off"})
    return Trial(index, make_study().id, TrialSpec(configuration, role, "x", 0, index), outcome.state, outcome)


@given(st.lists(st.tuples(st.booleans(), st.none() | st.floats(1, 1e5)), max_size=30))
def test_a_trial_is_compared_with_the_nearest_baselines_beside_it(drawn: list[tuple[bool, float | None]]) -> None:
    trials = [made(at, Role.BASELINE if base else Role.SEARCH, tps) for at, (base, tps) in enumerate(drawn)]
    for at, (point, (_, tps)) in enumerate(zip(trial_points(trials, Metric.THROUGHPUT), drawn, strict=True)):
        before = [level for base, level in drawn[:at] if base and level]
        after = [level for base, level in drawn[at + 1 :] if base and level]
        known = [*before[-1:], *after[:1]]
        if tps is None or not known:
            assert point.ratio is None
        else:
            assert point.ratio == pytest.approx(tps / math.prod(known) ** (1 / len(known)))


def test_the_tables_of_a_large_report_come_back_from_json() -> None:
    from pgdyno.report.drawing.payload import report_json

    report = large(3_000)
    assert read_json(report_json(report)) == report_tables(report)
