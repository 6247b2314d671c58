"""The guards' decision: limits, indicators that do not flicker, breaches that must last, failures that are told."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.guard import Absent, Failed, GuardLimit, GuardPlan, GuardReading
from pgdyno.model.guard_table import GB, GUARDS
from pgdyno.model.live import Colour
from pgdyno.model.shapes import shaped
from pgdyno.trial.guard_settings import guard_plan, limit_text, parse_limit
from pgdyno.trial.guards import GuardStatus, is_beyond, judge, limit_of, quantity_text

PLAN = GuardPlan()
names = st.sampled_from(sorted(GUARDS))
amounts = st.floats(0, 1e13)


def stand(name: str, values: list[float], *, plan: GuardPlan = PLAN, step_s: float = 0.5) -> list[GuardStatus]:
    """Judge one guard tick by tick."""
    found: list[GuardStatus] = []
    before: dict[str, GuardStatus] = {}
    for number, value in enumerate(values):
        before = judge([GuardReading(name, number * step_s, value, whole=1e9)], plan, before)
        found.append(before[name])
    return found


@given(names, st.lists(amounts, min_size=1, max_size=40))
def test_red_exactly_when_beyond_the_limit_for_long_enough(name: str, values: list[float]) -> None:
    guard = GUARDS[name]
    limit = limit_of(guard, PLAN, 1e9)
    assert limit is not None
    beyond_since: float | None = None
    for number, (value, status) in enumerate(zip(values, stand(name, values), strict=True)):
        t = number * 0.5
        beyond_since = (t if beyond_since is None else beyond_since) if is_beyond(guard, value, limit) else None
        is_red = beyond_since is not None and t - beyond_since >= guard.hold_s
        assert (status.breach is not None) == (status.indicator.colour is Colour.RED) == is_red
        if status.breach is not None:
            assert status.breach.began_at == beyond_since
            assert str(status.breach).startswith(f"guard {name}: ")


@given(names)
def test_nothing_readable_is_ever_green_by_mistake(name: str) -> None:
    (status,) = stand(name, [math.nan])
    assert status.indicator.colour is not Colour.GREEN
    failed = judge([GuardReading(name, 0.0, Failed("no"))], PLAN)[name]
    assert failed.indicator.colour is Colour.AMBER
    assert failed.breach is None  # guard readings counts how long it lasts
    absent = judge([GuardReading(name, 0.0, Absent("none here"))], PLAN)[name]
    assert (absent.indicator.colour, absent.indicator.text) == (Colour.OFF, "none here")


@given(names.filter(lambda name: GUARDS[name].default > 0), st.lists(st.floats(0.71, 0.79), min_size=2, max_size=20))
def test_between_the_two_thresholds_an_indicator_keeps_its_colour(name: str, shares: list[float]) -> None:
    guard = GUARDS[name]
    limit = limit_of(guard, PLAN, 1e9) or 0.0
    # The band of a floor, 1.5 to 1.75 times the limit, holds the same shares when turned over.
    band = [limit * (1.5 + 0.25 * (0.8 - share) / 0.1) if guard.is_floor else limit * share for share in shares]
    near = limit * (1.2 if guard.is_floor else 0.9)
    safe = limit * (5.0 if guard.is_floor else 0.1)
    assert {s.indicator.colour for s in stand(name, [safe, *band])} == {Colour.GREEN}
    assert {s.indicator.colour for s in stand(name, [near, *band])} == {Colour.AMBER}


def test_a_breach_that_must_last_starts_anew_after_a_good_reading() -> None:
    low, good = 1.0, 50.0
    held = stand("throughput", [low] * 10 + [good] + [low] * 11)
    assert [status.breach is not None for status in held] == [False] * 21 + [True]
    before = {"throughput": stand("throughput", [low])[0]}
    failing = judge([GuardReading("throughput", 20.0, Failed("gone"))], PLAN, before)
    assert failing["throughput"].beyond_since == 0.0


@given(st.floats(1e8, 1e14))
def test_the_default_of_a_volume_stays_between_its_bounds(size: float) -> None:
    assert limit_of(GUARDS["disk"], PLAN, size) == pytest.approx(min(max(size / 20, GB), 10 * GB))
    assert limit_of(GUARDS["disk"], guard_plan(["disk=1%"]), size) == pytest.approx(size / 100)


@given(names, st.floats(0.001, 99))
def test_a_limit_that_was_set_is_the_one_that_is_judged(name: str, value: float) -> None:
    guard = GUARDS[name]
    whole = max(1, round(value))
    texts = {"B": f"{whole}kB", "B/s": f"{whole}kB/s", "s": f"{whole}s", "%": f"{value}%", "x": f"{value}x"}
    amounts = {"B": whole * 1024.0, "B/s": whole * 1024.0, "%": value, "x": value}
    plan = guard_plan([f"{name}={texts.get(guard.unit, str(whole))}"])
    assert limit_of(guard, plan, 1e9) == pytest.approx(amounts.get(guard.unit, float(whole)))
    assert shaped(GuardPlan, plan.to_json(), "the guards") == plan


@pytest.mark.parametrize(
    "word",
    ["disk", "disk=", "nothing=1", "disk=off", "memory=off", "memory=0", "memory=101%", "errors=-1%", "errors=nan",
     "deadlocks=1.5", "swap-in=fast", "p99=infx", "disk=2parsecs", "replication-lag=5MB"],
)  # fmt: skip
def test_what_no_limit_can_be_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        guard_plan([word])
    assert caught.value.hint


def test_a_guard_that_is_off_says_so() -> None:
    plan = guard_plan(["errors=off"])
    assert plan.limits["errors"] == GuardLimit(None)
    status = judge([GuardReading("errors", 0.0, 100.0)], plan)["errors"]
    assert (status.indicator.colour, status.indicator.text) == (Colour.OFF, "switched off by --guard")
    assert limit_text(GUARDS["errors"], plan.limits["errors"]) == "off"
    assert parse_limit(GUARDS["memory"], "3%") == GuardLimit(3.0, is_share=True)


@given(names)
def test_a_default_is_told_in_the_unit_of_its_guard(name: str) -> None:
    guard = GUARDS[name]
    assert ("%" in limit_text(guard)) == (guard.unit == "%" or guard.default_is_share)
    assert limit_text(guard, GuardLimit(7.0, is_share=True)) == "7 %"


@given(st.text(max_size=12))
def test_any_text_is_a_limit_or_a_usage_error(text: str) -> None:
    for guard in GUARDS.values():
        try:
            limit = parse_limit(guard, text)
        except UsageError:
            continue
        assert limit.value is None or (math.isfinite(limit.value) and limit.value >= 0)


@given(names, st.lists(st.sampled_from([0.0, 1.0, 5.5e7, 7.4e7, 8.1e7, 1e12]), min_size=2, max_size=20))
def test_a_reading_that_is_the_one_before_stands_as_it_did(name: str, values: list[float]) -> None:
    for number, (one, other) in enumerate(pairwise(stand(name, values))):
        is_same = values[number] == values[number + 1] and one.beyond_since is None
        assert (other is one) == is_same
        if is_same:
            anew = judge([GuardReading(name, 9.0, values[number], whole=1e9, about="x")], PLAN, {name: one})[name]
            assert anew.indicator.colour is one.indicator.colour, "judging it again would have said the same"


def test_a_reading_with_other_words_is_judged_again() -> None:
    first = judge([GuardReading("oom", 0.0, 0.0)], PLAN)
    assert judge([GuardReading("oom", 0.5, 0.0)], PLAN, first)["oom"] is first["oom"]
    warned = judge([GuardReading("oom", 0.5, 0.0, warns=True, about="1 elsewhere")], PLAN, first)["oom"]
    assert warned.indicator.colour is Colour.AMBER
    assert "1 elsewhere" in warned.indicator.text


@pytest.mark.parametrize(
    ("name", "values", "colours"),
    [
        ("deadlocks=10", [8.0, 8.1, 7.1, 7.0, 8.0], "green amber amber green green"),
        ("deadlocks=1", [0.8, 0.9, 0.75, 0.7], "green amber amber green"),
        ("deadlocks=10", [10.0, 10.1], "amber red"),
        ("deadlocks=0", [0.0, 0.1], "green red"),
        ("memory=1kB", [1024.0, 1023.0], "amber red"),
        ("throughput=10", [15.0, 14.9, 17.4, 17.5, 15.0], "green amber amber green green"),
        ("throughput=10", [10.0, 9.9, 10.0, 9.9], "amber amber amber amber"),
    ],
)
def test_an_indicator_turns_beyond_four_fifths_and_back_at_seven_tenths(
    name: str, values: list[float], colours: str
) -> None:
    """Of a floor beyond one and a half, and back at one and three quarters; the bounds are on the good side."""
    statuses = stand(name.partition("=")[0], values, plan=guard_plan([name]))
    assert " ".join(status.indicator.colour.value for status in statuses) == colours


def test_a_share_is_of_its_whole_and_of_nothing_where_that_is_unknown() -> None:
    memory, disk, own = GUARDS["memory"], GUARDS["disk"], guard_plan(["memory=3%", "disk=2%"])
    assert [limit_of(memory, plan, 2000.0) for plan in (PLAN, own)] == [100.0, 60.0]
    assert [limit_of(memory, plan, None) for plan in (PLAN, own)] == [0.0, 0.0]
    assert [limit_of(disk, PLAN, size) for size in (None, 10 * GB, 100 * GB, 999 * GB)] == [GB, GB, 5 * GB, 10 * GB]
    assert limit_of(disk, own, None) == 0.0


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("B", 2048.0, "2 kB"), ("B/s", 2048.0, "2 kB/s"), ("s", 2.5, "2.5 s"), ("%", 5.26, "5.3 %"),
        ("x", 2.5, "2.5 times"), ("count", 3.0, "3"), ("B", math.inf, "unknown"), ("s", math.nan, "unknown"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_in_its_unit(unit: str, value: float, text: str) -> None:
    assert quantity_text(unit, value) == text
