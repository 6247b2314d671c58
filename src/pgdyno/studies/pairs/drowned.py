"""Whether the throughput of a study is drowned by others on its machine, and what then decides instead. Pure.

CPU time that the server itself used for a transaction hardly hears how long it waited for a CPU: beside a busy core it
scatters 3 to 10 times less from run to run than throughput. It is chosen by the runs of the noise floor, before any
pair is judged, so that there is one metric, one interval and one error rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.model.study import Comparison
from pgdyno.model.trial import BESIDE_OTHERS, Trial, TrialState
from pgdyno.model.verdict import Interval, Metric, Word
from pgdyno.stats.noise import noise_floor

TIGHTER = 2.0
"""Server CPU per transaction decides where it scatters this much less; the estimate rests on a handful of runs."""
DROWNED_SD = 0.05
"""Below this scatter from run to run throughput is worth its few pairs, and it is what people asked for."""


def drowned(runs: Sequence[Trial], metric: Metric) -> str | None:
    """Return why server CPU per transaction decides instead of throughput, None where throughput does.

    `runs` are those of the noise floor. At least half of them ran beside others, and server CPU is known of each.
    """
    beside = beside_others(runs)
    if metric is not Metric.THROUGHPUT or 2 * beside < len(runs) or not beside:
        return None
    scatter, cpu = _scatter(runs, Metric.THROUGHPUT), _scatter(runs, Metric.SERVER_CPU)
    if scatter is None or cpu is None or scatter < DROWNED_SD or scatter < TIGHTER * cpu:
        return None
    return (
        f"others used this machine in {beside} of {len(runs)} runs of the baseline: throughput scattered by "
        f"{100 * scatter:.0f} % from run to run, server CPU per transaction by {100 * cpu:.1f} %; that decides, and "
        "says how much work a transaction is, not how long it waits"
    )


def beside_others(trials: Sequence[Trial]) -> int:
    """Return how many of these runs were used although others used the CPUs beyond the bound."""
    return sum(
        trial.state is TrialState.COMPLETE and bool(trial.outcome and trial.outcome.counters.get(BESIDE_OTHERS))
        for trial in trials
    )


def tighter_elsewhere(comparison: Comparison, trials: Sequence[Trial]) -> str:
    """Return words for a comparison whose throughput others drown, where server CPU would tell more; else empty.

    An A/B answers by the metric that it was asked for: another one that is chosen by its pairs would be a second look.
    """
    asked, beside = comparison.verdict, beside_others(trials)
    cpu = next((one for one in comparison.others if one.metric is Metric.SERVER_CPU), None)
    if asked.metric is not Metric.THROUGHPUT or cpu is None or 2 * beside < len(trials) or not beside:
        return ""
    widths = [_log_width(one.interval) for one in (asked, cpu)]
    if not all(map(math.isfinite, widths)) or widths[0] < TIGHTER * widths[1]:
        return ""
    times = "far" if not widths[1] else f"{widths[0] / widths[1]:.1f} times"
    return (
        f"throughput decides, and others used this machine in {beside} of {len(trials)} runs: the interval of server "
        f"CPU per transaction is {times} tighter; --metric {Metric.SERVER_CPU} judges by it, which says how much work "
        "a transaction is, not how long it waits"
    )


def _log_width(interval: Interval) -> float:
    return math.log(interval.hi / interval.lo) if interval.lo > 0 and math.isfinite(interval.hi) else math.inf


def contradicts(comparison: Comparison) -> bool:
    """Return whether throughput is worse, whatever else is better: then nothing is offered."""
    return any(one.metric is Metric.THROUGHPUT and one.word is Word.WORSE for one in comparison.others)


def _scatter(runs: Sequence[Trial], metric: Metric) -> float | None:
    known = [figure for trial in runs if (figure := trial.figure(metric))]
    return noise_floor(known).pair_sd if len(known) == len(runs) and len(known) > 2 else None
