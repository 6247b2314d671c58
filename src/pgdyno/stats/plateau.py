"""A sweep: which levels of a factor may be the best, and from which level on going further gains nothing.

All levels ran once in every block. For each two levels the interval of their ratio is Student's on the log ratios of
the blocks, at a confidence shared over all pairs of levels (Bonferroni), so that all statements hold together however
the levels that they name were chosen. The number of blocks must have been fixed beforehand.

    optimum region   the levels that no other level is shown to beat
    plateau          begins at the first level that no later level is shown to beat; `at_most` is the gain of a later
                     level that the intervals leave possible, and when that is below the smallest effect of interest
                     the plateau is proven, else it is only that no further gain is shown
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.paired import log_ratios, t_interval

UNTOLD = 9.0
"""A gain that is left possible is not told in percent from a tenfold on."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """What a sweep says. Places count the levels from 0, in the order in which they were given.

    `over_first` holds each level's gain over the first level, above 1 for a better one whatever the metric;
    `at_most` is a ratio distance (0.03 = 3 %), 0 where the plateau begins at the last level.
    """

    best: int
    region: tuple[int, ...]
    start: int
    proven: bool
    at_most: float
    over_first: tuple[Interval, ...]
    falls: bool
    """A level after the best is shown to be worse than it."""
    smallest_effect: float

    @property
    def is_flat(self) -> bool:
        """Return True when no level is shown to beat any other."""
        return len(self.region) == len(self.over_first)

    def sentence(self, names: Sequence[str]) -> str:
        """Return the answer as one sentence for people; `names` are the levels'."""
        if self.is_flat:
            return f"no level is shown to differ from another; {_up_to(self._widest())} is not excluded"
        region = ", ".join(names[place] for place in self.region)
        said = f"the best lies among {region}" if len(self.region) > 1 else f"{region} is the best"
        if self.start == len(names) - 1:
            return f"{said}; it still gains up to the last level: the sweep ends before any plateau"
        if self.proven:
            gain = f"going further gains less than {100 * self.smallest_effect:g} %"
        else:
            gain = f"no further gain is shown, {_up_to(self.at_most)} is not excluded"
        fall = ", and a later level is worse again" if self.falls else ""
        return f"{said}; from {names[self.start]} on {gain}{fall}"

    def _widest(self) -> float:
        return max(max(one.hi, 1 / one.lo if one.lo > 0 else float("inf")) for one in self.over_first) - 1


def _up_to(ratio: float) -> str:
    return f"one of up to {100 * ratio:.3g} %" if ratio < UNTOLD else "even a tenfold one (more blocks would tell)"


def find_plateau(
    levels: Sequence[Sequence[float]],
    *,
    higher_is_better: bool = True,
    smallest_effect: float = 0.02,
    confidence: float = 0.95,
) -> Plateau:
    """Judge a sweep; `levels` holds for each level its figure in every block, at least two levels and two blocks.

    The blocks have the same order in all levels. `higher_is_better` says what a gain is; one below `smallest_effect`, a
    ratio distance (0.02 = 2 %), does not matter. `confidence`, in (0, 1), is that of all comparisons of levels
    together. Raises UsageError for fewer, and for figures that are not positive.
    """
    count = len(levels)
    if count < 2:
        raise UsageError(f"a sweep needs at least two levels, not {count}", hint="Name more values.")
    shared = 1 - (1 - confidence) / (count * (count - 1) / 2)
    gains = {
        (i, j): _gain(levels[i], levels[j], shared, higher_is_better=higher_is_better)
        for i in range(count)
        for j in range(count)
        if i != j
    }
    region = tuple(i for i in range(count) if not any(gains[i, j].lo > 1 for j in range(count) if j != i))
    over_first = (Interval(1.0, 1.0, 1.0, shared), *(gains[0, j] for j in range(1, count)))
    best = max(range(count), key=lambda place: over_first[place].ratio)
    start = next(i for i in range(count) if not any(gains[i, j].lo > 1 for j in range(i + 1, count)))
    at_most = max((gains[start, j].hi - 1 for j in range(start + 1, count)), default=0.0)
    return Plateau(
        best=best,
        region=region,
        start=start,
        proven=at_most <= smallest_effect,
        at_most=max(0.0, at_most),
        over_first=over_first,
        falls=any(gains[best, j].hi < 1 for j in range(best + 1, count)),
        smallest_effect=smallest_effect,
    )


def _gain(low: Sequence[float], high: Sequence[float], confidence: float, *, higher_is_better: bool) -> Interval:
    """Return the gain of the second level over the first."""
    ratios = log_ratios(low, high)
    return t_interval(ratios if higher_is_better else -ratios, confidence)
