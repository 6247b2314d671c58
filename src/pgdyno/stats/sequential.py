"""The one rule that answers "is B better than A?", valid at every look.

After each pair the interval of the ratio is the mean log ratio plus and minus c_n times its standard error, where the
c_n come from `boundary`: the intervals of all looks together cover the truth with the stated confidence (a repeated
confidence interval), so one may stop at any pair, for any reason, and the interval still holds. The word is read off
the printed interval and off nothing else:

    equivalent      the interval lies within [1/(1+s), 1+s], s the smallest effect of interest
    better, worse   else, the interval excludes 1
    not resolved    else

Equivalent goes first: a difference that is real and certainly smaller than anyone cares for is called equivalent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.model.verdict import STRICT_CONFIDENCE, STRICT_MIN_PAIRS, Interval, Metric, Verdict, Word
from pgdyno.stats.arrays import Floats
from pgdyno.stats.boundary import critical_values, require_possible
from pgdyno.stats.distributions import ndtr
from pgdyno.stats.paired import interval, log_ratios

HOPELESS = 0.01
"""Give up when the chance to resolve by `max_pairs`, given what was seen, is below this."""
EARLIEST_GIVE_UP = 8
"""The scatter of fewer pairs is too uncertain to give up on."""
_POWER_Z = 0.8416
"""The normal quantile of 80 %, the power that `more_pairs` aims at."""


@dataclass(frozen=True, slots=True)
class Design:
    """How a comparison is judged; fixed before its first pair, because the critical values depend on all of it.

    `smallest_effect` is a ratio distance (0.02 = 2 %). Looks are taken at `min_pairs`, ..., `max_pairs` pairs.
    `doubt` is a scatter of log ratios that no sample of few pairs can rule out, such as two modes of one
    configuration: doubt / (n - 1) is added in quadrature to the standard deviation, so it can only widen.
    """

    smallest_effect: float = 0.02
    confidence: float = 0.95
    min_pairs: int = 3
    max_pairs: int = 48
    doubt: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.smallest_effect < 1 and 0 <= self.doubt < 1):
            raise UsageError(
                f"smallest effect {self.smallest_effect} or doubt {self.doubt} is not in 0 to 1",
                hint="Write 2 % as 0.02.",
            )
        require_possible(self.min_pairs, self.max_pairs, self.confidence)

    @property
    def equivalence_bound(self) -> float:
        """Return ln(1 + s): the band of equivalence is symmetric on the scale of log ratios."""
        return math.log1p(self.smallest_effect)

    def critical(self, pairs: int) -> float:
        """Return c_n, infinite before the first look. Raises UsageError past `max_pairs`."""
        if pairs > self.max_pairs:
            raise UsageError(
                f"{pairs} pairs are more than the {self.max_pairs} that the design allows",
                hint="Begin a new comparison with a larger number of pairs; the error rate of this one is used up.",
            )
        values = critical_values(self.min_pairs, self.max_pairs, self.confidence)
        return values[pairs - self.min_pairs] if pairs >= self.min_pairs else math.inf


STRICT = Design(confidence=STRICT_CONFIDENCE, min_pairs=STRICT_MIN_PAIRS)
"""For comparisons that are run every night."""


def judge(a: Sequence[float] | Floats, b: Sequence[float] | Floats, *, metric: Metric, design: Design) -> Verdict:
    """Answer "is B better than A?" from interleaved pairs; may be asked after every pair.

    `a` and `b` hold one value of `metric` a run, pair by pair; `design` was fixed before the first pair. Below its
    `min_pairs` the interval is [0, inf]. Raises UsageError on values that are not finite and positive, and on more than
    `max_pairs` pairs.
    """
    values = log_ratios(a, b)
    pairs, mean = values.size, float(values.mean())
    critical = design.critical(pairs)
    if math.isinf(critical):
        unbounded = interval(mean, math.inf, design.confidence)
        missing = design.min_pairs - pairs
        return Verdict(Word.NOT_RESOLVED, unbounded, pairs, metric, design.smallest_effect, missing)
    scatter = math.hypot(float(values.std(ddof=1)), design.doubt / (pairs - 1))
    half = critical * scatter / math.sqrt(pairs)
    word = _word(mean, half, metric, design)
    more = _more_pairs(mean, scatter, pairs, design) if word is Word.NOT_RESOLVED else None
    return Verdict(word, interval(mean, half, design.confidence), pairs, metric, design.smallest_effect, more)


def is_final(verdict: Verdict, design: Design) -> bool:
    """Return True when no further pair is worth running under this design.

    That is: resolved, or at `max_pairs`, or with a chance below HOPELESS to be resolved by then. Giving up can only
    lose a claim, never make one, so it leaves the error rate alone.
    """
    if verdict.word is not Word.NOT_RESOLVED or verdict.pairs >= design.max_pairs:
        return True
    return verdict.pairs >= max(EARLIEST_GIVE_UP, design.min_pairs) and _chance(verdict, design) < HOPELESS


def _word(mean: float, half: float, metric: Metric, design: Design) -> Word:
    if abs(mean) + half <= design.equivalence_bound:
        return Word.EQUIVALENT
    if abs(mean) <= half:
        return Word.NOT_RESOLVED
    return Word.BETTER if (mean > 0) == metric.higher_is_better else Word.WORSE


def _more_pairs(mean: float, scatter: float, pairs: int, design: Design) -> int:
    """Estimate the pairs that are missing if the ratio and the scatter stay as they are, at 80 % power.

    Whichever is nearer: to exclude 1, or to fit into the band of equivalence.
    """
    reach = max(abs(mean), design.equivalence_bound - abs(mean))
    if reach <= 0:
        return max(1, design.max_pairs - pairs)
    needed = ((design.critical(design.max_pairs) + _POWER_Z) * scatter / reach) ** 2
    return max(1, math.ceil(min(needed, 1e6)) - pairs)


def _chance(verdict: Verdict, design: Design) -> float:
    """Return the predictive probability to be resolved at `max_pairs`.

    The final mean is normal about the present one, with the variance sd^2 (1/n - 1/N) of a mean of n seen and N - n
    unseen pairs when nothing was known of the effect before.
    """
    pairs, last = verdict.pairs, design.max_pairs
    mean = math.log(verdict.interval.ratio)
    scatter = _half_width(verdict.interval) / design.critical(pairs) * math.sqrt(pairs)
    half = design.critical(last) * scatter / math.sqrt(last)
    spread = scatter * math.sqrt(1 / pairs - 1 / last)
    if spread == 0:
        return 0.0
    room = max(design.equivalence_bound - half, 0.0)
    differs = ndtr((mean - half) / spread) + ndtr((-mean - half) / spread)
    fits = ndtr((room - mean) / spread) - ndtr((-room - mean) / spread)
    return float(differs + fits)


def standard_error(verdict: Verdict, design: Design) -> float:
    """Return the standard error of a verdict's log ratio, with its doubt; infinite before the first look."""
    if math.isinf(verdict.interval.hi):
        return math.inf
    return _half_width(verdict.interval) / design.critical(verdict.pairs)


def _half_width(found: Interval) -> float:
    return math.log(found.hi / found.ratio)
