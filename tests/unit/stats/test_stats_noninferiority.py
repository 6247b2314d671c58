import math
from dataclasses import replace

import numpy as np
import pytest

from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.stats import noninferiority
from pgdyno.stats.noninferiority import _is_suspected, _largest_loss, costs_nothing
from pgdyno.stats.sequential import Design, is_final

DESIGN = Design(max_pairs=24)
FULL = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]


def removal(factor, full=FULL, metric=Metric.THROUGHPUT, jitter=0.0):
    signs = np.resize([1, -1], len(full))
    reduced = [value * factor * math.exp(jitter * sign) for value, sign in zip(full, signs, strict=True)]
    return costs_nothing(reduced, full, design=DESIGN, metric=metric)


def test_a_setting_that_pays_stays():
    kept = removal(0.7)
    assert not kept.droppable
    assert not kept.proven
    assert kept.final
    assert kept.verdict.word is Word.WORSE
    assert kept.sentence("shared_buffers").startswith("shared_buffers stays: without it the rest is worse")


def test_a_setting_that_harms_goes():
    assert removal(1.5).proven


def test_a_setting_that_costs_latency_when_removed_stays():
    assert not removal(1.5, metric=Metric.LATENCY_P99).droppable
    assert removal(0.7, metric=Metric.LATENCY_P99).proven


def test_no_effect_at_little_noise_is_proven_to_cost_nothing():
    gone = removal(1.0, full=FULL * 3)
    assert gone.proven
    assert gone.final
    assert gone.at_most <= 0.02
    assert gone.sentence("jit") == "jit dropped: going without costs less than 2 %"


def test_no_effect_under_noise_goes_without_proof_and_says_what_it_may_cost():
    gone = removal(1.0, jitter=0.1)
    assert gone.droppable
    assert not gone.proven
    assert gone.at_most > 0.05
    assert gone.sentence("jit").startswith(
        "jit dropped: no loss shown in 8 pairs, which cannot exclude a loss of up to"
    )


def test_before_the_first_look_any_loss_is_possible():
    gone = removal(1.0, full=FULL[:2])
    assert gone.at_most is None
    assert not gone.final


def test_non_inferior_is_proven_before_it_is_equivalent():
    """Somewhat better, but too noisy to say so: the loss is excluded all the same."""
    found = removal(1.035, full=FULL * 3, jitter=0.06)
    assert found.verdict.word is Word.NOT_RESOLVED
    assert found.proven
    assert found.final


def share(worth, cv, ask, studies=400):
    """Run whole prunings of a setting that is worth this ratio distance; return how often `ask` holds at the end."""
    rng = np.random.default_rng(6)
    hits = 0
    for _ in range(studies):
        full, reduced = np.exp(rng.standard_normal((2, DESIGN.max_pairs)) * cv)
        for pairs in range(DESIGN.min_pairs, DESIGN.max_pairs + 1):
            found = costs_nothing(reduced[:pairs] / (1 + worth), full[:pairs], design=DESIGN)
            if found.final:
                break
        assert found.final
        assert found.proven or is_final(found.verdict, DESIGN)
        hits += ask(found)
    return hits / studies


def test_a_setting_without_effect_is_rarely_kept():
    assert share(0.0, 0.04, lambda found: not found.droppable) <= 0.05


@pytest.mark.parametrize("cv", [0.01, 0.03])
def test_a_setting_worth_more_than_the_smallest_effect_is_rarely_proven_free(cv):
    assert share(0.025, cv, lambda found: found.proven) <= 0.05


def test_a_setting_worth_ten_percent_is_kept():
    assert share(0.1, 0.03, lambda found: not found.droppable) >= 0.98


def test_a_loss_that_is_likely_and_not_proven_keeps_the_setting():
    """Three pairs of a demo: 24 % were lost, and an interval that reached to a gain let eleven settings go."""
    design = Design(max_pairs=3)
    found = costs_nothing([184.0, 155.1, 179.4], [204.1, 248.3, 232.8], design=design)
    assert found.verdict.word is Word.NOT_RESOLVED
    assert found.final
    assert not found.droppable
    assert not found.shown
    assert "throughput is 24.3 % worse in 3 pairs, which is not proven" in found.sentence("jit")
    assert found.sentence("jit, work_mem").startswith("jit, work_mem stay: without them throughput is")


def test_a_loss_of_cpu_time_can_be_suspected():
    design = Design(max_pairs=3, doubt=0.3)
    found = costs_nothing([13.0, 14.5, 13.9], [10.0, 10.1, 9.7], design=design, metric=Metric.SERVER_CPU)
    assert not found.shown
    assert not found.droppable


def test_at_three_noisy_pairs_most_settings_without_effect_still_go():
    rng = np.random.default_rng(7)
    pairs = np.exp(rng.standard_normal((400, 2, 3)) * 0.08)
    kept = [not costs_nothing(reduced, full, design=Design(max_pairs=3)).droppable for reduced, full in pairs]
    assert sum(kept) / len(kept) <= 0.16


def test_the_largest_loss_is_the_unfavourable_end_of_either_kind_of_metric():
    for metric in (Metric.THROUGHPUT, Metric.LATENCY_P99):
        found = removal(1.0, jitter=0.1, metric=metric)
        end = found.verdict.interval
        assert found.at_most == pytest.approx((1 / end.lo if metric is Metric.THROUGHPUT else end.hi) - 1)
    assert removal(3.0).at_most == 0.0, "a gain at both ends leaves no loss"


def test_a_loss_that_cannot_be_excluded_is_told_in_percent():
    gone = replace(removal(1.0, jitter=0.1), at_most=0.534)
    assert gone.sentence("jit").endswith("which cannot exclude a loss of up to 53.4 %")
    assert replace(gone, at_most=None).sentence("jit").endswith("which cannot exclude any loss")


@pytest.mark.parametrize(("lo", "hi"), [(0.0, 2.0), (0.5, math.inf), (-0.5, 2.0)])
def test_an_interval_that_is_open_at_either_end_bounds_no_loss(lo, hi):
    assert _largest_loss(Interval(1.0, lo, hi, 0.95), Metric.THROUGHPUT) is None


def test_a_loss_of_just_the_smallest_effect_is_excluded():
    found = removal(1.035, full=FULL * 3, jitter=0.1)
    assert (found.verdict.word, found.proven) == (Word.NOT_RESOLVED, False)
    reduced = [value * 1.035 * math.exp(0.1 * sign) for value, sign in zip(FULL * 3, [1, -1] * 12, strict=True)]
    wider = costs_nothing(reduced, FULL * 3, design=replace(DESIGN, smallest_effect=found.at_most))
    assert (wider.verdict.word, wider.at_most, wider.proven) == (Word.NOT_RESOLVED, found.at_most, True)


@pytest.mark.parametrize(("error", "is_suspected"), [(0.5, False), (0.4999, True)])
def test_a_loss_is_suspected_beyond_one_and_a_half_standard_errors(error, is_suspected, monkeypatch):
    monkeypatch.setattr(noninferiority, "standard_error", lambda *_: error)
    ratio = math.exp(0.75)
    assert math.log(ratio) == 0.75
    verdict = Verdict(Word.NOT_RESOLVED, Interval(ratio, 0.5, 9.0, 0.95), 3, Metric.LATENCY_P99, 0.02, None)
    assert _is_suspected(verdict, DESIGN) is is_suspected
