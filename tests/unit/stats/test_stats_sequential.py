"""The words, the interval and the stopping rule of one comparison."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.report.wording import bare_range_text, range_text
from pgdyno.stats.boundary import critical_values
from pgdyno.stats.sequential import STRICT, Design, _word, is_final, judge, standard_error
from simulation import run_studies

DESIGN = Design()
SMALL = Design(max_pairs=12)
runs = st.floats(0.5, 2.0)
pairs_of_runs = st.lists(st.tuples(runs, runs), min_size=1, max_size=12)


def throughput(a, b, design=DESIGN):
    return judge(a, b, metric=Metric.THROUGHPUT, design=design)


def test_a_tripled_throughput_is_better_at_three_pairs():
    verdict = throughput([100, 104, 98], [310, 305, 312])
    assert verdict.word is Word.BETTER
    assert verdict.pairs == 3
    assert verdict.interval.lo > 2
    assert verdict.more_pairs is None
    assert is_final(verdict, DESIGN)


def test_a_third_of_the_throughput_is_worse():
    assert throughput([310, 305, 312], [100, 104, 98]).word is Word.WORSE


@pytest.mark.parametrize("metric", [metric for metric in Metric if metric is not Metric.THROUGHPUT])
def test_less_latency_or_cpu_is_better(metric):
    assert judge([310, 305, 312], [100, 104, 98], metric=metric, design=DESIGN).word is Word.BETTER


def test_small_noise_and_no_difference_is_equivalent():
    a = [100 + 0.1 * (i % 3) for i in range(20)]
    verdict = throughput(a, list(reversed(a)))
    assert verdict.word is Word.EQUIVALENT
    assert verdict.interval.hi < 1.02


def test_a_difference_below_the_smallest_effect_is_equivalent_though_it_is_real():
    a = [100 + 0.1 * (i % 3) for i in range(40)]
    verdict = throughput(a, [value * 1.01 for value in a])
    assert verdict.interval.lo > 1
    assert verdict.word is Word.EQUIVALENT


def test_noise_is_not_resolved_and_says_how_many_more_pairs():
    verdict = throughput([100, 110, 95, 104], [103, 99, 108, 101])
    assert verdict.word is Word.NOT_RESOLVED
    assert verdict.more_pairs is not None
    assert verdict.more_pairs > 10
    assert not is_final(verdict, DESIGN)


def test_more_pairs_shrink_as_the_effect_grows():
    a = [100, 106, 97, 103, 95]
    gains = [1.0, 1.1, 1.0, 1.1, 1.0], [1.1, 1.2, 1.0, 1.2, 1.1]
    small, large = (throughput(a, [v * f for v, f in zip(a, gain, strict=True)]) for gain in gains)
    assert small.word is large.word is Word.NOT_RESOLVED
    assert large.more_pairs < small.more_pairs


def test_identical_runs_do_not_claim():
    for pairs in range(1, 13):
        verdict = throughput([100.0] * pairs, [100.0] * pairs, SMALL)
        assert verdict.word in (Word.NOT_RESOLVED, Word.EQUIVALENT)
        assert verdict.interval.ratio == 1


def test_no_scatter_at_all_does_not_make_a_small_difference_certain():
    assert throughput([100.0] * 3, [105.0] * 3).word is Word.NOT_RESOLVED


def test_before_the_first_look_the_interval_is_unbounded():
    verdict = throughput([100.0, 100.0], [300.0, 300.0])
    assert (verdict.interval.lo, verdict.interval.hi) == (0, math.inf)
    assert verdict.interval.ratio == pytest.approx(3)
    assert verdict.word is Word.NOT_RESOLVED
    assert verdict.more_pairs == 1
    assert not is_final(verdict, DESIGN)
    assert "throughput 3x [no interval yet] of A, 2 interleaved pairs" in verdict.sentence()
    assert range_text(verdict.interval) == bare_range_text(verdict.interval) == "[no interval yet]"


def test_hopeless_comparisons_end_early_and_hopeful_ones_do_not():
    noise = np.exp(np.tile([0.1, -0.1], 12))
    hopeless, hopeful = throughput(np.ones(24), noise), throughput(np.ones(24), noise * 1.05)
    assert hopeless.word is hopeful.word is Word.NOT_RESOLVED
    assert is_final(hopeless, DESIGN)
    assert not is_final(hopeful, DESIGN)


def test_the_last_pair_is_final():
    wide = np.exp(np.tile([0.2, -0.2], 6))
    verdict = throughput(np.ones(12), wide, SMALL)
    assert verdict.word is Word.NOT_RESOLVED
    assert is_final(verdict, SMALL)


def test_more_pairs_than_the_design_allows_are_refused():
    with pytest.raises(UsageError, match="13 pairs are more than the 12"):
        throughput([1.0] * 13, [1.0] * 13, SMALL)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_judge_refuses_values_that_are_not_positive(bad):
    with pytest.raises(UsageError):
        throughput([1.0, 1.0, bad], [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    "field",
    [{"smallest_effect": -0.1}, {"smallest_effect": 2.0}, {"doubt": -1.0}, {"smallest_effect": 1.0}, {"doubt": 1.0}],
)
def test_designs_refuse_percentages(field):
    with pytest.raises(UsageError):
        Design(**field)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"min_pairs": 1}, "from 1 to 48 pairs"),
        ({"min_pairs": 3, "max_pairs": 2}, "from 3 to 2 pairs"),
        ({"max_pairs": 1001}, "from 3 to 1001 pairs"),
        ({"confidence": 95.0}, "confidence 95.0 is not in 0.8 to 0.99999"),
    ],
)
def test_designs_refuse_what_no_boundary_has(field, says):
    """One pair has no scatter; it was refused by the first verdict, when the pairs had been run."""
    with pytest.raises(UsageError, match=says):
        Design(**field)


@given(pairs_of_runs)
def test_swapping_the_arms_swaps_the_words(pairs):
    a, b = zip(*pairs, strict=True)
    forth, back = throughput(a, b, SMALL), throughput(b, a, SMALL)
    swapped = {Word.BETTER: Word.WORSE, Word.WORSE: Word.BETTER}
    assert back.word is swapped.get(forth.word, forth.word)
    assert forth.interval.lo * back.interval.hi == pytest.approx(1) or math.isinf(back.interval.hi)
    assert forth.more_pairs == back.more_pairs


@given(pairs_of_runs, st.floats(1e-3, 1e3))
def test_the_unit_of_the_metric_does_not_matter(pairs, unit):
    a, b = (np.array(arm) for arm in zip(*pairs, strict=True))
    assert throughput(a, b, SMALL).interval.hi == pytest.approx(throughput(a * unit, b * unit, SMALL).interval.hi)


@given(pairs_of_runs)
def test_the_word_can_be_read_off_the_interval(pairs):
    a, b = zip(*pairs, strict=True)
    verdict = throughput(a, b, SMALL)
    lo, hi, band = verdict.interval.lo, verdict.interval.hi, 1 + SMALL.smallest_effect
    if verdict.word is Word.EQUIVALENT:
        assert 1 / band <= lo * (1 + 1e-12)
        assert hi <= band * (1 + 1e-12)
    elif verdict.word is Word.NOT_RESOLVED:
        assert lo <= 1 <= hi
    else:
        assert lo > 1 or hi < 1
    assert (verdict.more_pairs is not None) == (verdict.word is Word.NOT_RESOLVED)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(runs, runs), min_size=12, max_size=12),
    st.sampled_from([SMALL, Design(max_pairs=12, confidence=0.9, doubt=0.01)]),
)
def test_whole_studies_end_as_judging_pair_by_pair_ends(pairs, design):
    a, b = (np.array(arm) for arm in zip(*pairs, strict=True))
    studies = run_studies(np.log(b / a)[None], design)
    for n in range(design.min_pairs, 13):
        verdict = throughput(a[:n], b[:n], design)
        if is_final(verdict, design):
            break
    assert n == studies.pairs[0]
    assert (verdict.word is Word.BETTER) == studies.higher[0]
    assert (verdict.word is Word.WORSE) == studies.lower[0]
    assert (verdict.word is Word.EQUIVALENT) == studies.equivalent[0]
    assert math.log(verdict.interval.hi) == pytest.approx(studies.mean[0] + studies.half[0])


def test_strict_differs_from_the_default_in_its_confidence_and_first_look_only():
    assert replace(STRICT, confidence=DESIGN.confidence, min_pairs=DESIGN.min_pairs) == DESIGN
    assert STRICT.confidence > DESIGN.confidence


def test_judging_is_cheap():
    a, b = np.exp(np.random.default_rng(1).standard_normal((2, 24)) * 0.05)
    throughput(a, b)
    begun = time.process_time()
    for _ in range(100):
        throughput(a, b)
    assert (time.process_time() - begun) / 100 < 0.001


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, "not resolved: B has"),
        (1, "not resolved (about 1 more pair): B has"),
        (9, "not resolved (about 9 more pairs): B has"),
        (999_998, "not resolved (more than 1,000 more pairs): B has"),
    ],
)
def test_the_sentence_counts_missing_pairs_where_they_can_be_counted(missing, said):
    verdict = Verdict(Word.NOT_RESOLVED, Interval(1.0, 0.5, 2.0, 0.95), 2, Metric.THROUGHPUT, 0.02, missing)
    assert verdict.sentence().startswith(said)


def test_without_an_effect_that_matters_or_a_difference_all_pairs_that_are_left_are_missing():
    verdict = throughput([100.0] * 4, [100.0] * 4, Design(smallest_effect=0.0, max_pairs=12))
    assert (verdict.word, verdict.more_pairs) == (Word.NOT_RESOLVED, 8)


@pytest.mark.parametrize("mean", [0.1, -0.1, 0.0, 0.012])
def test_pairs_are_missing_until_the_nearer_of_1_and_the_edge_of_equivalence_is_told(mean):
    """At 80 % power, if ratio and scatter stay as they are."""
    design, ratios = Design(max_pairs=12, doubt=0.0), mean + 0.2 * np.array([1, -1, 1, -1])
    verdict = throughput(np.ones(4), np.exp(ratios), design)
    reach = max(abs(mean), math.log(1.02) - abs(mean))
    needed = ((critical_values(3, 12, 0.95)[-1] + 0.8416) * 0.2 * math.sqrt(4 / 3) / reach) ** 2
    assert (verdict.word, verdict.more_pairs) == (Word.NOT_RESOLVED, math.ceil(needed) - 4)


def test_an_end_on_the_edge_is_equivalent_and_one_on_1_is_not_resolved():
    edge = DESIGN.equivalence_bound
    assert _word(edge, 0.0, Metric.THROUGHPUT, DESIGN) is Word.EQUIVALENT
    assert _word(np.nextafter(edge, 1), 0.0, Metric.THROUGHPUT, DESIGN) is Word.BETTER
    assert _word(0.5, 0.5, Metric.THROUGHPUT, DESIGN) is Word.NOT_RESOLVED
    assert _word(-0.5, 0.49, Metric.LATENCY_P99, DESIGN) is Word.BETTER


def test_the_standard_error_is_of_the_mean_log_ratio_with_its_doubt():
    ratios = 0.1 + 0.2 * np.array([1, -1, 1, -1])
    verdict = throughput(np.ones(4), np.exp(ratios), SMALL)
    assert standard_error(verdict, SMALL) == pytest.approx(math.hypot(0.2 * math.sqrt(4 / 3), 0.1 / 3) / 2)
    assert standard_error(throughput([1.0], [1.0], SMALL), SMALL) == math.inf


def test_runs_that_differ_by_no_more_than_rounding_are_given_up():
    design = Design(smallest_effect=0.0, doubt=0.0, max_pairs=12)
    verdict = throughput(np.ones(8), np.where(np.arange(8) == 3, np.nextafter(1, 0), 1.0), design)
    assert verdict.word is Word.NOT_RESOLVED
    assert is_final(verdict, design)
