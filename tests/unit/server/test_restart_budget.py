"""Restart budgets by count and time of day, and the expected outage: pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.control.restart_budget import DayWindow, RestartBudget, RestartLedger
from pgdyno.errors import UsageError
from pgdyno.model.facts import Unknown
from pgdyno.server.outage import Outage, OutageReading, estimate, measured

NIGHT = DayWindow(time(22), time(5))


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("none", RestartBudget(0)),
        ("0", RestartBudget(0)),
        ("3", RestartBudget(3)),
        ("22:00-05:00", RestartBudget(None, NIGHT)),
        ("3@22:00-05:00", RestartBudget(3, NIGHT)),
        (" 12 ", RestartBudget(12)),
    ],
)
def test_the_forms_that_are_read(text: str, budget: RestartBudget) -> None:
    assert RestartBudget.parse(text) == budget
    assert RestartBudget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    "text", ["", "many", "-1", "3@", "@3", "22:00", "22:00-", "25:00-03:00", "3 22:00-05:00", "05:00-05:00", "3@x"]
)
def test_other_forms_are_refused_with_the_right_ones(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        RestartBudget.parse(text)
    assert "3@22:00-05:00" in (caught.value.hint or "")


@given(st.times(), st.times(), st.times())
def test_a_window_and_the_rest_of_the_day_share_no_moment(begin: time, end: time, at: time) -> None:
    if begin != end:
        assert DayWindow(begin, end).holds(at) != DayWindow(end, begin).holds(at)


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_count_allows_exactly_that_many(limit: int, used: int) -> None:
    permission = RestartBudget(limit).ask(used, time(12))
    assert permission.allowed == (used < limit)
    assert permission.final == (not permission.allowed)


def test_a_ledger_counts_and_looks_at_the_clock() -> None:
    at = [datetime(2030, 1, 1, 21, 59)]
    ledger = RestartLedger(RestartBudget(2, NIGHT), now=lambda: at[0])
    refused = ledger.permission()
    assert (refused.allowed, refused.final) == (False, False)
    assert refused.reason == "restarts are allowed 22:00-05:00 only, and it is 21:59"
    at[0] = datetime(2030, 1, 1, 22, 0)
    assert ledger.permission().reason == "2 of 2 left, 22:00-05:00"
    ledger.spend()
    ledger.spend()
    assert ledger.permission().reason == "the budget of 2 restarts is used up"
    assert ledger.permission().final
    resumed = RestartLedger(RestartBudget(2), used=2, now=lambda: at[0])
    assert not resumed.permission().allowed


def reading(*, dirty: int | Unknown, buffers: int = 12_800, seconds: float = 10) -> OutageReading:
    return OutageReading(8192, 1 << 30, dirty, buffers, seconds * 0.9, seconds * 0.1)


def test_the_estimate_is_dirty_bytes_over_the_rate_of_its_checkpoints() -> None:
    outage = estimate(reading(dirty=50 << 20))  # 100 MB in 10 s so far
    assert outage.seconds == pytest.approx(5)
    assert str(outage).startswith("at most 5.0 s each (the shutdown's checkpoint: 50 MB dirty now, at the 10 MB/s")
    assert "start, which is unknown until the first restart" in str(outage)


def test_without_pg_buffercache_all_of_shared_buffers_bounds_it() -> None:
    outage = estimate(reading(dirty=Unknown("no pg_buffercache here")))
    assert outage.seconds == pytest.approx(102.4)
    assert "at most 2 min each" in str(outage)
    assert "no pg_buffercache here" in str(outage)


@pytest.mark.parametrize(
    ("checkpoints", "touched", "amount", "why"),
    [
        (10, 1 << 20, 10 << 20, "10 MB, as its checkpoints write on average"),
        (10, 40 << 20, 40 << 20, "40 MB, as the WAL since the last one can have touched"),
    ],
)
def test_without_pg_buffercache_a_usual_checkpoint_or_the_wal_since_then_tells_about_how_long(
    checkpoints: int, touched: int, amount: int, why: str
) -> None:
    """All of 6 GB of buffers took ten minutes, which no budget of a quarter of an hour had for two restarts."""
    blind = replace(reading(dirty=Unknown("no pg_buffercache here")), checkpoints=checkpoints, touched=touched)
    outage = estimate(blind)
    assert outage.seconds == pytest.approx(amount / (10 << 20))
    assert outage.kind == "about"
    assert why in str(outage)
    assert "how much is dirty now is unknown: no pg_buffercache here" in str(outage)


@pytest.mark.parametrize(
    ("checkpoints", "touched"), [(0, 1 << 20), (None, 1 << 20), (10, None), (10, 1 << 40), (1, 1 << 20)]
)
def test_where_neither_is_known_or_less_than_all_of_shared_buffers_those_bound_it(
    checkpoints: int | None, touched: int | None
) -> None:
    blind = replace(reading(dirty=Unknown("no right"), buffers=1 << 17), checkpoints=checkpoints, touched=touched)
    outage = estimate(blind)
    assert (outage.kind, outage.seconds) == ("at most", pytest.approx(10))
    assert "all of shared_buffers, 1 GB" in str(outage)


@pytest.mark.parametrize("values", [{"buffers": 999}, {"seconds": 0.0}])
def test_a_server_that_has_hardly_written_is_unknown(values: dict[str, float]) -> None:
    outage = estimate(reading(dirty=0, **values))  # type: ignore[arg-type]  # int or float by name
    assert isinstance(outage.seconds, Unknown)
    assert str(outage).startswith("unknown: its checkpoints have written")
    assert isinstance(outage.seconds, Unknown)


@given(st.integers(0, 1 << 40), st.integers(1_000, 1 << 30), st.floats(0.001, 1e6))
def test_more_dirty_pages_never_take_less(dirty: int, buffers: int, seconds: float) -> None:
    less = estimate(reading(dirty=dirty, buffers=buffers, seconds=seconds)).seconds
    more = estimate(reading(dirty=dirty + 8192, buffers=buffers, seconds=seconds)).seconds
    assert not isinstance(less, Unknown)
    assert not isinstance(more, Unknown)
    assert 0 <= less <= more


def test_what_was_measured_replaces_the_estimate() -> None:
    assert measured([2.0, 9.0, 3.0]) == Outage(3.0, "about", "median of 3 restarts of this server, the longest 9.0 s")
    assert str(measured([2.0])) == "about 2.0 s each (median of 1 restart of this server)"
