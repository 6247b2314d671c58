"""May a setting be dropped? Yes, unless its removal costs something or looks as if it did.

The burden of proof lies with the setting, because every setting that stays has to be explained and maintained. Two
different answers let it go, and the words keep them apart:

    proven         the interval of reduced over full excludes a loss of the smallest effect of interest or more
    not shown      the comparison ended without a sign of a loss; `at_most` says what loss it cannot exclude

and two keep it: a loss that is shown, and one that is `suspected`, more than the smallest effect and `SUSPECTED`
standard errors. Without the second, three noisy pairs let anything go: a loss of 24 % with an interval that reaches to
a gain was called free.

Errors: a setting without effect is kept as shown with probability at most (1 - confidence) / 2, and as suspected in
about one question of seven at three pairs, of eleven at eight (Student's t beyond 1.5 on one side, without `doubt`,
which makes it rarer). A setting that is worth more than the smallest effect is called
*proven* to cost nothing with at most the first of these probabilities. A setting of small worth may go as *not shown*,
the more often the fewer the pairs: that is what `at_most` is for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.stats.arrays import Floats
from pgdyno.stats.sequential import Design, is_final, judge, standard_error
from pgdyno.units import plural

SUSPECTED = 1.5
"""Standard errors of loss from which a setting stays though nothing is proven."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What dropping a setting costs.

    `droppable` holds for a comparison that ends here; `shown` says that a loss is beyond doubt. `verdict` judges
    reduced against full. `at_most` is the largest loss that the interval leaves possible, as a ratio distance (0.03 =
    the reduced configuration may be up to 3 % worse); None when it is unbounded.
    """

    droppable: bool
    shown: bool
    proven: bool
    final: bool
    at_most: float | None
    verdict: Verdict

    def sentence(self, setting: str) -> str:
        """Return the outcome as one clause for people; `setting` may be several, with commas between."""
        stays, it = ("stay", "them") if "," in setting else ("stays", "it")
        if not self.droppable and not self.shown:
            lost = abs(self.verdict.interval.ratio - 1)
            return (
                f"{setting} {stays}: without {it} {self.verdict.metric.label} is {100 * lost:.1f} % worse in "
                f"{plural(self.verdict.pairs, 'pair')}, which is not proven and too likely to be let go"
            )
        if not self.droppable:
            return f"{setting} {stays}: without {it} {self.verdict.sentence('the rest', 'the whole')}"
        if self.proven:
            return f"{setting} dropped: going without costs less than {100 * self.verdict.smallest_effect:g} %"
        bound = "any loss" if self.at_most is None else f"a loss of up to {100 * self.at_most:.1f} %"
        return f"{setting} dropped: no loss shown in {plural(self.verdict.pairs, 'pair')}, which cannot exclude {bound}"


def costs_nothing(
    reduced: Sequence[float] | Floats,
    full: Sequence[float] | Floats,
    *,
    design: Design,
    metric: Metric = Metric.THROUGHPUT,
) -> Removal:
    """Judge whether a setting can go, from interleaved pairs of the configuration without it and with it.

    `reduced` are the figures without the setting and `full` those with it, pair by pair; `metric` is what they are of,
    and `design` has the smallest effect of interest and the confidence. Valid after every pair, as `judge` is; `final`
    says that no further pair is worth running. Raises UsageError as `judge` does.
    """
    verdict = judge(full, reduced, metric=metric, design=design)
    loss = _largest_loss(verdict.interval, metric)
    proven = verdict.word in (Word.BETTER, Word.EQUIVALENT) or (loss is not None and loss <= design.smallest_effect)
    suspected = not proven and _is_suspected(verdict, design)
    return Removal(
        droppable=verdict.word is not Word.WORSE and not suspected,
        shown=verdict.word is Word.WORSE,
        proven=proven,
        final=proven or is_final(verdict, design),
        at_most=loss,
        verdict=verdict,
    )


def _is_suspected(verdict: Verdict, design: Design) -> bool:
    """Return whether the estimate is a loss beyond the smallest effect and beyond what the scatter explains."""
    change = math.log(verdict.interval.ratio)
    loss = -change if verdict.metric.higher_is_better else change
    return loss > max(design.equivalence_bound, SUSPECTED * standard_error(verdict, design))


def _largest_loss(found: Interval, metric: Metric) -> float | None:
    """Return the loss at the unfavourable end, at least 0: full over reduced for throughput, else reduced over full."""
    if found.lo <= 0 or found.hi == float("inf"):
        return None
    return max((1 / found.lo if metric.higher_is_better else found.hi) - 1, 0.0)
