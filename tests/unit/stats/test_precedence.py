"""What waits for what: rings, orders and critical paths of any graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.stats import precedence
from pgdyno.stats.precedence import critical_path, ordered, ring_of

DIAMOND = {"z": ("long", "short"), "long": ("a",), "short": ("a",), "a": ()}


@st.composite
def graphs(draw):
    """Names in any order, each of which waits for some of those that are smaller."""
    names = draw(st.permutations(range(draw(st.integers(1, 9)))))
    below = {name: [other for other in names if other < name] for name in names}
    return {str(name): tuple(str(one) for one in draw(st.sets(st.sampled_from(below[name] or [0]))) if one < name)
            for name in names}  # fmt: skip


@given(graphs())
def test_each_comes_once_and_after_all_that_it_waits_for(after):
    found = ordered(after)
    assert sorted(found) == sorted(after)
    assert all(found.index(other) < found.index(name) for name, waits in after.items() for other in waits)
    assert ring_of(after) == ()


def test_where_nothing_else_decides_the_order_is_that_in_which_they_are_given():
    assert ordered({"c": (), "a": (), "b": ()}) == ["c", "a", "b"]
    assert ordered({"late": ("b",), "c": (), "b": (), "a": ()}) == ["c", "b", "late", "a"]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_ring_is_told_without_those_that_only_wait_for_it(size):
    names = [f"r{number}" for number in range(size)]
    ring = {name: (names[number - 1], "free") for number, name in enumerate(names)}
    found = ring_of({"tail": ("r0",), **ring, "free": (), "end": ("tail",)})
    assert found[0] == found[-1]
    assert sorted(found[1:]) == sorted(names)
    assert all(one in ring[other] for one, other in pairwise(found)), "each waits for the one before it"


def test_the_path_is_what_takes_longest_and_the_others_have_slack():
    found = critical_path(DIAMOND, {"a": 10.0, "long": 50.0, "short": 20.0, "z": 5.0})
    assert (found.path, found.end_s) == (("a", "long", "z"), 65.0)
    assert {key: one.slack_s for key, one in found.jobs.items()} == {"a": 0, "long": 0, "short": 30, "z": 0}
    assert (found.jobs["z"].start_s, found.jobs["z"].end_s) == (60.0, 65.0)


def test_what_the_calendar_holds_back_begins_a_path_of_its_own():
    """It waited for the clock and for nobody: to shorten those before it gains nothing."""
    found = critical_path(DIAMOND, {"a": 10.0, "long": 50.0, "short": 20.0, "z": 5.0}, {"short": 100.0})
    assert (found.path, found.end_s) == (("short", "z"), 125.0)
    assert found.jobs["short"].start_s == 100.0
    assert found.jobs["long"].slack_s == 60.0
    assert found.jobs["a"].slack_s == 60.0


def test_what_has_no_duration_takes_no_time_and_is_passed_through():
    found = critical_path({"a": (), "gate": ("a",), "b": ("gate",)}, {"a": 3.0, "b": 4.0})
    assert (found.path, found.end_s) == (("a", "gate", "b"), 7.0)
    assert critical_path({}, {}).path == ()
    assert critical_path({"a": ()}, {}).path == ()


@given(graphs(), st.data())
def test_no_path_is_longer_than_the_end_and_none_without_slack_may_grow(after, data):
    seconds = {name: data.draw(st.integers(1, 50)) * 1.0 for name in after}
    found = critical_path(after, seconds)
    assert sum(seconds[name] for name in found.path) == found.end_s
    name = data.draw(st.sampled_from(sorted(after)))
    for more in (found.jobs[name].slack_s, found.jobs[name].slack_s + 1.0):
        longer = critical_path(after, {**seconds, name: seconds[name] + more})
        assert longer.end_s == found.end_s + (more - found.jobs[name].slack_s)


def test_half_a_second_of_the_calendar_begins_a_path_of_its_own_and_a_rounding_does_not():
    after = {"a": (), "b": ("a",)}
    seconds = {"a": 10.0, "b": 5.0}
    assert critical_path(after, seconds, {"b": 10.5}).path == ("b",)
    assert critical_path(after, seconds, {"b": 10.0 + 1e-9}).path == ("a", "b")
    assert critical_path({}, {}).end_s == 0.0


def test_of_two_rings_the_one_of_the_first_names_is_told():
    assert ring_of({"a": ("c", "b"), "b": ("a",), "c": ("a",)}) == ("a", "b", "a")


def test_what_takes_no_time_leaves_no_slack_before_it():
    found = critical_path({"a": (), "gate": ("a",)}, {"a": 3.0})
    assert {key: one.slack_s for key, one in found.jobs.items()} == {"a": 0.0, "gate": 0.0}


def test_what_begins_just_the_rounding_later_waited_for_it(monkeypatch):
    monkeypatch.setattr(precedence, "_SAME_S", 0.5)
    assert critical_path({"a": (), "b": ("a",)}, {"a": 10.0, "b": 5.0}, {"b": 10.5}).path == ("a", "b")
