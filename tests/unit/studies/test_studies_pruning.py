"""Pruning against measured costs that are known, because they are simulated."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.configuration import Configuration
from pgdyno.studies.pruning import count_responsible, prune

NAMES = [f"knob_{i:02d}" for i in range(24)]


def winner_of(names):
    return Configuration.of(dict.fromkeys(names, "1"))


class Bench:
    """Answers as a measurement without noise would: a reduction costs when it loses a knob that matters."""

    def __init__(self, matter):
        self.matter = set(matter)
        self.asked = []

    def costs_nothing(self, kept, reduced):
        assert reduced, "the last setting is a matter of the proof"
        assert set(reduced) < set(kept)
        self.asked.append((kept, reduced))
        return not (set(kept) - set(reduced)) & self.matter


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.data())
def test_exactly_what_matters_stays(names, data):
    matter = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    order = data.draw(st.permutations(sorted(names)))
    bench = Bench(matter)
    assert set(prune(winner_of(names), order, bench.costs_nothing)) == matter


def test_one_knob_of_twenty_four_takes_few_comparisons():
    bench = Bench({NAMES[-1]})
    kept = prune(winner_of(NAMES), NAMES, bench.costs_nothing)
    assert set(kept) == {NAMES[-1]}
    assert len(bench.asked) == 2


def test_a_wrong_order_costs_comparisons_and_not_the_answer():
    bench = Bench({NAMES[0]})
    kept = prune(winner_of(NAMES), NAMES, bench.costs_nothing)
    assert set(kept) == {NAMES[0]}
    assert len(bench.asked) <= 3 * math.log2(len(NAMES)) + 3


def test_of_two_settings_that_stand_in_for_each_other_one_stays():
    def costs_nothing(kept, reduced):
        return bool({"a", "b"} & set(reduced))

    kept = prune(winner_of(["a", "b", "c"]), ["c", "a", "b"], costs_nothing)
    assert len({"a", "b"} & set(kept)) == 1


def test_a_single_setting_is_left_to_the_proof():
    bench = Bench(set())
    assert set(prune(winner_of(["a"]), ["a"], bench.costs_nothing)) == {"a"}
    assert bench.asked == []


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 30), st.data())
def test_however_many_are_kept_at_first_exactly_what_matters_stays(names, first_kept, data):
    matter = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    bench = Bench(matter)
    assert set(prune(winner_of(names), sorted(names), bench.costs_nothing, first_kept=first_kept)) == matter


def test_as_many_are_kept_at_first_as_explain_four_fifths_of_the_gain():
    assert count_responsible({"a": 0.0, "b": 0.1, "c": 1.5}) == 2
    along = {"io_method": 1.26, "io_workers": 0.9, "shared_buffers": 0.45, "rest": 0.16, "more": 0.11, "cost": 0.09}
    assert count_responsible(along) == 3
    assert count_responsible(dict.fromkeys(NAMES, 0.01)) == 20
    assert count_responsible({"a": -0.1, "b": 0.0}) == count_responsible({}) == 2
