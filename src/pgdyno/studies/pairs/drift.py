"""The baseline's level over time, and each trial's score relative to it. Pure.

Search trials are single shots spread over an hour, and the machine does not stand still meanwhile. Each is therefore
scored against the level of the re-measured baselines as it was then (`stats.level`).
A staircase re-measures its baseline between steps, and says when it has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.model.verdict import Interval
from pgdyno.stats.distributions import stdtrit
from pgdyno.stats.level import find_level
from pgdyno.stats.paired import interval

Timed = Sequence[tuple[float, float]]
"""Figures (> 0) with their times in seconds."""


def relative_scores(trials: Timed, baselines: Timed) -> tuple[list[float], list[float]]:
    """Return ln(figure / baseline level at that time) for each trial, and the like for each baseline.

    A baseline's own is against what the others say of its level, as a trial's is: what the scores of repeats differ by
    is the noise that trials have. Baselines are in order of time; needs one at least.
    """
    level = find_level([time for time, _ in baselines], np.log([figure for _, figure in baselines]))
    scores = np.log([figure for _, figure in trials]) - level.at([time for time, _ in trials])
    return [float(score) for score in scores], [float(score) for score in level.apart]


def level_now(baselines: Timed) -> float:
    """Return ln of the baseline's level when it ran last; needs one run at least, in order of time."""
    times = [time for time, _ in baselines]
    return float(find_level(times, np.log([figure for _, figure in baselines])).at(times[-1:])[0])


DRIFT_CONFIDENCE = 0.99
"""Confidence that all warnings of one study share: a warning costs nothing but attention, a missed drift a study."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How the baseline stood in each round, against the first: ratios with intervals that hold together.

    `drifted` are the rounds whose interval excludes 1 and whose shift is the smallest effect of interest or more.
    """

    ratios: tuple[Interval, ...]
    drifted: tuple[int, ...]

    def sentence(self) -> str:
        """Return what people have to know; empty when the baseline held still."""
        if not self.drifted:
            return ""
        worst = max((self.ratios[place] for place in self.drifted), key=lambda one: abs(np.log(one.ratio)))
        return (
            f"the baseline drifted: re-measured after {len(self.drifted)} of {len(self.ratios)} steps it stood apart "
            f"from its first round, at most at {worst} of it; each step is judged against runs beside it and holds, "
            "figures of different steps in transactions per second do not compare"
        )


def find_drift(rounds: Sequence[Sequence[float]], *, smallest_effect: float = 0.02) -> Drift:
    """Compare each later round of baseline runs with the first one.

    Student's interval of the difference of mean logs, with one variance pooled over all rounds and the error rate
    shared over them (Bonferroni). Rounds without two degrees of freedom in all warn of nothing: the ratios then have
    unbounded intervals. All figures must be positive; `rounds` may be empty.
    """
    logs = [np.log(np.asarray(each, dtype=np.float64)) for each in rounds if len(each)]
    if len(logs) < 2:
        return Drift((), ())
    freedom = sum(each.size - 1 for each in logs)
    confidence = 1 - (1 - DRIFT_CONFIDENCE) / (len(logs) - 1)
    spread = float(np.sqrt(sum(float(((each - each.mean()) ** 2).sum()) for each in logs) / max(freedom, 1)))
    factor = float(-stdtrit(freedom, (1 - confidence) / 2)) if freedom >= 2 else float("inf")
    ratios = []
    for each in logs[1:]:
        error = spread * float(np.sqrt(1 / each.size + 1 / logs[0].size))
        half = factor * error if error or np.isfinite(factor) else float("inf")
        ratios.append(interval(float(each.mean() - logs[0].mean()), half, confidence))
    least = float(np.log1p(smallest_effect))
    found = (
        place
        for place, one in enumerate(ratios)
        if (one.lo > 1 or one.hi < 1) and abs(float(np.log(one.ratio))) >= least
    )
    return Drift(tuple(ratios), tuple(found))
