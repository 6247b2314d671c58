"""Verdicts of classes: false alarms of equal platforms, what is found, and what equivalence takes."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.errors import UsageError
from pgdyno.model.replay_comparison import QuantileRatio
from pgdyno.model.verdict import Interval, Word
from pgdyno.stats import class_verdicts
from pgdyno.stats.block_bootstrap import drawn, make_blocks, quantile_ratios, share_interval
from pgdyno.stats.class_verdicts import (
    ALSO_IN_AGAIN,
    EffectLimits,
    Timed,
    _exceeds,
    _is_beyond,
    _ratio,
    _word,
    fewest,
    judge_classes,
)

SESSIONS = 60


def judged(a, b, of_class=None, again=(), session=None, limits=None):
    n = len(a)
    session = np.arange(n) % SESSIONS if session is None else session
    blocks = make_blocks(session, np.arange(n))
    of_class = np.zeros(n, np.int64) if of_class is None else of_class
    micros = [np.round(np.asarray(side, np.float64) * 1000).astype(np.int64) for side in (a, b, again)]
    return judge_classes(Timed(of_class, *micros, blocks), str, drawn(blocks.count, 1), limits or EffectLimits())


def simulated(random, classes, executions, slower=()):
    """Return durations in ms of a load on two platforms: each class has a level and a slow tail, each run its noise."""
    of_class = np.repeat(np.arange(classes), executions)
    level = random.uniform(5, 100, classes)[of_class]

    def run():
        tail = np.where(random.random(level.size) < 0.01, 5, 1)
        return level * random.lognormal(0, 0.4, level.size) * tail

    return run(), run() * np.where(np.isin(of_class, slower), 1.3, 1), of_class


def test_equal_platforms_make_few_false_alarms_and_30_per_cent_are_found():
    random = np.random.default_rng(20)
    alarms = equal = found = slow = 0
    for run in range(20):
        slower = range(1) if run >= 10 else ()
        table = judged(*simulated(random, 6, 300, slower))
        for one in table.classes:
            is_slow = int(one.name) in slower
            slow, equal = slow + is_slow, equal + (not is_slow)
            found += is_slow and one.word is Word.WORSE
            alarms += not is_slow and one.word in (Word.WORSE, Word.BETTER)
    assert alarms <= 0.05 * equal
    assert found >= 0.95 * slow


def test_a_change_below_either_limit_is_none():
    random = np.random.default_rng(3)
    long, short = random.normal(100, 5, 3000), random.normal(0.5, 0.02, 3000)
    assert judged(long, 1.03 * long).classes[0].word is Word.EQUIVALENT  # 3 %
    assert judged(short, 1.5 * short).classes[0].word is Word.EQUIVALENT  # 0.25 ms
    assert judged(short, 1.5 * short, limits=EffectLimits(least_ms=0.1)).classes[0].word is Word.WORSE
    assert judged(long, 1.2 * long).classes[0].word is Word.WORSE
    eight, limits = np.full(3000, 8.0), EffectLimits(ratio=1.01, least_ms=0.5)
    for changed, word in ((8.5, Word.WORSE), (7.5, Word.BETTER)):
        assert judged(eight, np.full(3000, changed), limits=limits).classes[0].word is not word, "not beyond it"
        beyond = changed + (changed - 8) / 100
        assert judged(eight, np.full(3000, beyond), limits=limits).classes[0].word is word
    assert judged(long, long / 1.2).classes[0].word is Word.BETTER
    tight = judged(short, 1.5 * short, limits=EffectLimits(least_ms=0.1)).classes[0]
    assert tight.word is Word.WORSE
    assert tight.p_slower < 1e-6


def test_a_few_outliers_do_not_make_a_shift_below_the_limits_matter():
    random = np.random.default_rng(4)
    a, b = random.normal(100, 1, 1000), random.normal(102, 1, 1000)
    a[random.choice(1000, 9, replace=False)] = 200
    b[random.choice(1000, 12, replace=False)] = 200
    one = judged(a, b).classes[0]
    assert one.p_slower < 1e-6
    assert one.quantiles[3].b_ms > 1.5 * one.quantiles[3].a_ms  # p99 is beyond both limits, by three executions
    assert one.word is Word.EQUIVALENT


def test_a_class_whose_slowest_executions_became_slower_is_not_equivalent_for_its_median():
    random = np.random.default_rng(10)
    a, b = random.normal(100, 1, 3000), random.normal(100, 1, 3000)
    assert judged(a, b).classes[0].word is Word.EQUIVALENT
    b[random.choice(3000, 60, replace=False)] = 300
    one = judged(a, b).classes[0]
    assert one.quantiles[0].b_ms == pytest.approx(one.quantiles[0].a_ms, rel=0.01)
    assert one.quantiles[3].interval.lo > 2
    assert one.word is not Word.EQUIVALENT


def test_noise_alone_is_neither_a_finding_nor_equivalence():
    random = np.random.default_rng(5)
    one = judged(random.lognormal(3, 1, 60), random.lognormal(3, 1, 60)).classes[0]
    assert one.word is Word.NOT_RESOLVED
    assert "nor equivalence" in one.reason


def test_what_the_run_on_equal_platforms_shows_too_is_not_of_the_platform():
    random = np.random.default_rng(6)
    a = random.normal(100, 5, 600)
    one = judged(a, 1.3 * a, again=1.3 * a).classes[0]
    assert (one.word, one.reason) == (Word.NOT_RESOLVED, ALSO_IN_AGAIN)
    assert judged(a, 1.3 * a, again=a * random.normal(1, 0.02, 600)).classes[0].word is Word.WORSE


@pytest.mark.parametrize(("b", "again", "word"), [
    (7, 1.3, Word.WORSE), (1.5, 1.3, Word.WORSE), (1.35, 1.3, Word.NOT_RESOLVED), (1 / 7, 0.7, Word.BETTER),
    (0.68, 0.7, Word.NOT_RESOLVED), (1.3, 7, Word.NOT_RESOLVED), (7, 0.5, Word.WORSE),
])  # fmt: skip
def test_a_change_that_is_larger_than_that_of_equal_platforms_is_named(b: float, again: float, word: Word) -> None:
    """A busy machine that made the A/A run a little slower does not explain a class that takes 7 times as long."""
    random = np.random.default_rng(5)
    a = random.normal(100, 5, 600)
    one = judged(a, b * a * random.normal(1, 0.02, 600), again=again * a * random.normal(1, 0.02, 600)).classes[0]
    assert one.word is word


@pytest.mark.parametrize(("share", "needed"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000)])
def test_a_quantile_needs_ten_executions_beyond_it(share, needed):
    assert fewest(share) == needed
    values = np.random.default_rng(7).normal(100, 5, needed)
    known = {one.share: one.interval for one in judged(values, values + 1).classes[0].quantiles}
    assert known[share] is not None
    if needed > 20:
        known = {one.share: one.a_ms for one in judged(values[1:], values[1:] + 1).classes[0].quantiles}
        assert known[share] is None


def test_classes_with_too_few_executions_are_counted():
    values = np.full(30, 10.0)
    table = judged(values, values, np.repeat([0, 1, 2], [19, 5, 6]))
    assert (table.classes, table.too_few) == ((), 3)


def test_slices_of_time_stand_for_few_sessions():
    values = np.random.default_rng(8).normal(100, 5, 300)
    session = np.arange(300) // 200
    assert make_blocks(session, np.arange(300)).made_of == "slices of time"
    assert judged(values, values, session=session).classes[0].quantiles[0].interval is not None
    at_once = make_blocks(session, np.zeros(300, np.int64))
    timed = Timed(np.zeros(300, np.int64), values, values, np.zeros(0), at_once)
    one = judge_classes(timed, str, drawn(at_once.count, 1), EffectLimits()).classes[0]
    assert (one.word, one.quantiles[0].interval) == (Word.NOT_RESOLVED, None)
    assert "too few sessions or moments" in one.reason


def test_sessions_widen_the_interval_of_a_share():
    random = np.random.default_rng(9)
    good = np.repeat(random.random(50) < 0.5, 40).astype(np.int8)
    dependent = make_blocks(np.repeat(np.arange(50), 40), np.arange(2000))
    single = make_blocks(np.arange(2000), np.arange(2000))
    widths = []
    for blocks, rows in ((dependent, good), (single, random.permutation(good))):
        mean, low, high = share_interval(rows, blocks, drawn(blocks.count, 1))
        assert low < mean < high
        widths.append(high - low)
    assert widths[0] > 3 * widths[1]


def test_limits_that_are_none_are_refused():
    for wrong in ({"ratio": 0.9}, {"ratio": 1.0}, {"least_ms": -0.1}, {"level": 0.0}, {"level": 1.0}):
        with pytest.raises(UsageError, match="not possible"):
            EffectLimits(**wrong)
    assert EffectLimits(least_ms=0.0).least_ms == 0


def test_a_class_has_changed_beyond_five_percent_and_a_millisecond_where_nothing_else_is_asked_for():
    assert (EffectLimits().ratio, EffectLimits().least_ms, EffectLimits().level) == (1.05, 1.0, 0.05)


@pytest.mark.parametrize(("classes", "most", "listed", "more"), [(5, 3, 3, 2), (3, 3, 3, 0), (2, 3, 2, 0)])
def test_classes_beyond_the_longest_list_are_counted(monkeypatch, classes, most, listed, more):
    monkeypatch.setattr(class_verdicts, "MOST_LISTED", most)
    values = np.tile(np.linspace(9, 11, 20), classes)
    table = judged(values, values, np.repeat(np.arange(classes), 20))
    assert (len(table.classes), table.too_few, table.left_out) == (listed, 0, more)


def test_every_class_that_has_changed_is_listed(monkeypatch):
    monkeypatch.setattr(class_verdicts, "MOST_LISTED", 1)
    values = np.random.default_rng(11).normal(100, 1, 600)
    table = judged(values, values * np.repeat([2, 2, 1], 200), np.repeat(np.arange(3), 200))
    assert [one.word for one in table.classes] == [Word.WORSE] * 2
    assert table.left_out == 1


@pytest.mark.parametrize(("usable", "is_known"), [(10, True), (5, True), (4, False), (0, False)])
def test_an_interval_needs_half_of_the_resamples(usable, is_known):
    counts = np.ones((12, 1))  # twelve blocks with one value each
    weights = np.zeros((10, 12), np.float32)
    weights[:usable] = 1  # the others drew no block that holds the class
    (found,) = quantile_ratios(np.array([8.0]), counts, 2 * counts, weights, [0.5])
    assert found == ((1.0, 1.0) if is_known else None)


def test_an_interval_has_its_ratio_within():
    random = np.random.default_rng(9)
    (one,) = judged(random.normal(100, 5, 900), random.normal(110, 5, 900)).classes
    known = [told.interval for told in one.quantiles if told.interval is not None]
    assert known
    assert all(interval.lo < interval.ratio < interval.hi for interval in known)


def test_worse_ones_are_first_and_what_lost_most_time_within_each_word():
    """Classes of 30 executions that take 10 ms under A; what they lost is told in seconds."""
    factors = np.array([1, 2, 3, 0.5, 0.2, 1.01])
    table = judged(np.full(180, 10.0), np.repeat(10 * factors, 30), np.repeat(np.arange(6), 30))
    assert [(one.name, one.seconds_lost) for one in table.classes] == [
        ("2", 0.6), ("1", 0.3), ("3", -0.15), ("4", -0.24), ("5", 0.003), ("0", 0.0)
    ]  # fmt: skip
    assert [one.word for one in table.classes] == [Word.WORSE] * 2 + [Word.BETTER] * 2 + [Word.EQUIVALENT] * 2
    first = table.classes[0]
    assert (first.executions, first.quantiles[0].a_ms, first.quantiles[0].b_ms) == (30, 10.0, 30.0)


@pytest.mark.parametrize(("timed", "is_explained"), [(20, True), (19, False)])
def test_an_equal_run_explains_a_class_of_which_it_timed_twenty_executions(timed, is_explained):
    """One of them within less than a microsecond, which is a time, too."""
    again = np.where(np.arange(40) < timed, np.where(np.arange(40) == 3, 0.0, 13.0), -1.0)
    one = judged(np.full(40, 10.0), np.full(40, 13.0), again=again).classes[0]
    assert (one.reason == ALSO_IN_AGAIN) is is_explained


def quantile(a, b, lo=None, hi=None):
    return QuantileRatio(0.5, a, b, None if lo is None else Interval(b / a, lo, hi, 0.95))


BY_RATIO, BY_TIME = EffectLimits(1.25, 0.0), EffectLimits(1.001, 4.0)


@pytest.mark.parametrize(("limits", "lo", "hi", "word"), [
    (BY_RATIO, 0.8, 1.25, Word.EQUIVALENT), (BY_RATIO, 0.799, 1.2, Word.NOT_RESOLVED),
    (BY_RATIO, 0.9, 1.251, Word.NOT_RESOLVED), (BY_TIME, 0.5, 1.5, Word.EQUIVALENT),
    (BY_TIME, 0.499, 1.2, Word.NOT_RESOLVED), (BY_TIME, 0.9, 1.501, Word.NOT_RESOLVED),
])  # fmt: skip
def test_equivalent_is_a_median_within_the_ratio_or_the_time_that_nobody_cares_for(limits, lo, hi, word):
    """The median is 8 ms on both sides: 4 ms are half of it."""
    assert _word([quantile(8.0, 8.0, lo, hi)], 1.0, 1.0, limits) is word


@pytest.mark.parametrize(("changed", "slower", "faster", "word"), [
    (quantile(8.0, 16.0, 1.5, 2.5), 0.049, 1.0, Word.WORSE),
    (quantile(8.0, 16.0, 1.5, 2.5), 0.05, 0.0, Word.NOT_RESOLVED),
    (quantile(16.0, 8.0, 0.4, 0.6), 1.0, 0.049, Word.BETTER),
    (quantile(16.0, 8.0, 0.4, 0.6), 0.0, 0.05, Word.NOT_RESOLVED),
])  # fmt: skip
def test_one_quantile_beyond_the_limits_is_a_change_where_the_ranks_say_so(changed, slower, faster, word):
    """Of a class whose median stands still, and of one of which the median's interval is not known."""
    for median in (quantile(8.0, 8.0, 0.9, 1.1), quantile(8.0, 8.0)):
        assert _word([median, changed], slower, faster, BY_RATIO) is word


@pytest.mark.parametrize(("one", "least_ms", "slower", "faster"), [
    (quantile(8.0, 10.0), 1.0, False, False), (quantile(8.0, 10.01), 1.0, True, False),
    (quantile(8.0, 16.0), 8.0, False, False), (quantile(8.0, 16.0), 7.99, True, False),
    (quantile(8.0, 16.0, 1.0, 3.0), 1.0, False, False), (quantile(8.0, 16.0, 1.01, 3.0), 1.0, True, False),
    (quantile(10.0, 8.0), 1.0, False, False), (quantile(10.0, 7.99), 1.0, False, True),
    (quantile(16.0, 8.0), 8.0, False, False), (quantile(16.0, 8.0), 7.99, False, True),
    (quantile(16.0, 8.0, 0.3, 1.0), 1.0, False, False), (quantile(16.0, 8.0, 0.3, 0.99), 1.0, False, True),
    (quantile(0.5, 9.0), 1.0, True, False), (quantile(0.0, 9.0), 1.0, False, False),
    (quantile(None, 9.0), 1.0, False, False), (quantile(9.0, None), 1.0, False, False),
])  # fmt: skip
def test_a_quantile_exceeds_what_lies_beyond_both_limits_and_whose_interval_excludes_one(one, least_ms, slower, faster):
    limits = EffectLimits(1.25, least_ms)
    assert (_exceeds(one, limits, is_slower=True), _exceeds(one, limits, is_slower=False)) == (slower, faster)


@pytest.mark.parametrize(("mine", "theirs", "is_slower", "is_beyond"), [
    ((1.25, 9), (0.5, 1.0), True, False), ((1.251, 9), (0.5, 1.0), True, True),
    ((0.1, 0.8), (1.0, 2.0), False, False), ((0.1, 0.799), (1.0, 2.0), False, True),
])  # fmt: skip
def test_a_change_goes_beyond_that_of_equal_platforms_by_the_ratio_that_matters(mine, theirs, is_slower, is_beyond):
    mine, theirs, alike = (quantile(1.0, 1.0, *ends) for ends in (mine, theirs, (0.9, 1.1)))
    found = _is_beyond([quantile(1.0, 1.0), alike, alike, mine], [alike, quantile(1.0, 1.0), alike, theirs],
                       BY_RATIO, is_slower)  # fmt: skip
    assert found is is_beyond


@pytest.mark.parametrize(("a", "ends", "told"), [
    (2.0, (2.5, 3.0), (2.0, 3.0)), (2.0, (1.0, 1.5), (1.0, 2.0)), (1.0, (3.0, 5.0), (3.0, 5.0)),
    (0.0, (1.0, 2.0), None), (2.0, None, None),
])  # fmt: skip
def test_the_ratio_of_a_quantile_lies_within_its_interval_and_there_is_none_over_nothing(a, ends, told):
    found = _ratio(0.9, a, 4.0, ends)
    assert (found.share, found.a_ms, found.b_ms) == (0.9, a, 4.0)
    assert found.interval == (None if told is None else Interval(4.0 / a, *told, 0.95))
