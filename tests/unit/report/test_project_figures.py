"""Figures and verdicts of a benchmark project by drawn numbers, and slips in its file. Pure."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.project import (
    FIGURES,
    RATIOS,
    ROW_METRICS,
    Criterion,
    CriterionStatus,
    Measured,
    ProjectRow,
    judge,
    row_metric,
)
from pgdyno.model.verdict import RUN_METRICS
from pgdyno.studies.project.build import (
    read_project,
)
from pgdyno.studies.project.file import TEMPLATE, parse_project
from pgdyno.studies.project.judged import bound_text, judged, overall

SEED = Path(__file__).parents[2] / "data" / "projects" / "customer_benchmark.toml"

POSITIVE = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=8))
def test_saved_and_grown_are_one_figure_seen_from_both_sides(sides: list[tuple[float, float]]) -> None:
    rows = [ProjectRow(str(at), before=before, after=after) for at, (before, after) in enumerate(sides)]
    saved, grown = row_metric(rows, "saved"), row_metric(rows, "grown")
    assert saved is not None
    assert grown is not None
    assert saved.value == -grown.value
    assert saved.value == pytest.approx(100 * (1 - sum(a for _, a in sides) / sum(b for b, _ in sides)), abs=1e-6)


@given(st.lists(POSITIVE, min_size=1, max_size=8), POSITIVE)
def test_equal_weights_make_the_plain_mean(after: list[float], weight: float) -> None:
    rows = [ProjectRow(str(at), before=100.0, after=value, count=weight) for at, value in enumerate(after)]
    plain, weighted = row_metric(rows, "mean_saved"), row_metric(rows, "weighted_saved")
    assert plain is not None
    assert weighted is not None
    assert plain.value == pytest.approx(weighted.value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("metric", ROW_METRICS)
def test_without_rows_there_is_no_figure(metric: str) -> None:
    assert row_metric((), metric) is None
    assert row_metric((ProjectRow("nothing"),), metric) is None


@given(st.floats(-10, 10), st.floats(0, 5), st.floats(-10, 10))
def test_a_verdict_needs_the_whole_range(middle: float, half: float, bound: float) -> None:
    measured = Measured(middle, middle - half, middle + half, "")
    standing = judge(Criterion("", "total", at_least=bound), measured)
    if middle - half >= bound:
        assert standing is CriterionStatus.MET
    elif middle + half < bound:
        assert standing is CriterionStatus.MISSED
    else:
        assert standing is CriterionStatus.NOT_RESOLVED


# ---- the file and the verb -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('metric = "share"', 'metric = "Share!"', "is not a metric"),
        ("at_least = 95\n", "", "there is no bound"),
        ("planned_days = 12", "planned_day = 12", 'unknown key "planned_day"'),
        ('"sizing"]', '"size"]', 'there is no goal "size"'),
        ("headroom_pct = 25", "headroom_pct = 100", "not from 0 to below 100"),
        ('name = "batch"', 'name = "performance"', "two scenarios are called performance"),
        ("version = 1", "version = 2", "version 2 is not 1"),
        ("version = 1", "version = true", "version True is not 1"),
        ("runs = 56", 'runs = "many"', '"runs" is text and not a whole number'),
        ("at_most = 40", "at_most = 40\nat_least = 41", "is above"),
        ("version = 1", "version =", "not TOML"),
        ('metric = "saved"', 'metric = "throughput"', "is not a metric of rows"),
    ],
)
def test_a_slip_in_the_file_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    text = SEED.read_text("utf-8")
    assert old in text
    changed = text.replace(old, new, 1)
    with pytest.raises(UsageError, match=message) as caught:
        parse_project(changed, source="project.toml")
    assert caught.value.hint
    at = re.match("project.toml: line ([0-9]+): ", caught.value.message)
    if at is not None and new and new in changed.splitlines():
        assert changed.splitlines()[int(at[1]) - 1] == new
    assert at is not None or "not TOML" in caught.value.message


def test_the_template_is_a_project() -> None:
    project = parse_project(TEMPLATE)
    assert [one.name for one in project.scenarios] == ["oltp", "batch"]
    assert overall(judged(project, read_project(project, None))) is CriterionStatus.OPEN


def test_a_bound_is_told_with_all_its_digits() -> None:
    assert bound_text(Criterion("t", "throughput", at_least=1_234_567.0, unit="per hour")) == (
        "at least 1,234,567 per hour"
    )
    assert bound_text(Criterion("t", "throughput", 99.99995, 100.0, "%")) == "at least 99.99995 % and at most 100 %"


def test_the_names_of_figures_in_people_s_files_are_what_they_were() -> None:
    assert tuple(FIGURES) == ("throughput", "p50_ms", "p95_ms", "p99_ms", "server_cpu_ms_per_tx")
    assert tuple(RATIOS) == ("throughput_ratio", "p50_ratio", "p95_ratio", "p99_ratio", "server_cpu_ratio")
    assert tuple(FIGURES.values()) == tuple(RATIOS.values()) == RUN_METRICS
