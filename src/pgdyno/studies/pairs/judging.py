"""From blocks to verdicts and arms: the bridge between trials and `stats`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.stats.sequential import Design, judge
from pgdyno.studies.pairs.blocks import Blocks
from pgdyno.units import plural

BEYOND = 5
"""A quantile is judged where each run has this many transactions beyond it: below, it is but the run's few slowest."""
THIN_SHARE = 0.25
"""Of the blocks, so many may be left out for a run with too few transactions; more, and the rest is a selection."""
QUANTILES = {Metric.LATENCY_P50: 0.50, Metric.LATENCY_P95: 0.95, Metric.LATENCY_P99: 0.99}
OTHERS = (Metric.LATENCY_P50, Metric.LATENCY_P95, Metric.LATENCY_P99, Metric.SERVER_CPU)


class Unjudged(EnvironmentUnsuitable):
    """A comparison was measured, and too few of its runs have the figure that decides."""


def verdict_of(blocks: Blocks, a: str, b: str, metric: Metric, design: Design) -> Verdict | None:
    """Return the verdict on B against A for one metric.

    `a` and `b` name arms of `blocks`, whose pairs of `metric` are judged by `design`. Blocks with a run of too few
    transactions for the quantile are left out. None when fewer than two blocks have both figures, or when more than
    THIN_SHARE of the blocks would be left out: then it is the load that is too thin.
    """
    kept = without_thin(blocks, (a, b), metric)
    left, right = ([], []) if kept is None else kept.pairs(a, b, metric)
    if len(left) < 2:
        return None
    return judge(left, right, metric=metric, design=design)


def without_thin(blocks: Blocks, arms: Sequence[str], metric: Metric) -> Blocks | None:
    """Return the blocks in which no run of these arms is too thin for the metric; None where too many would go."""
    thin = _thin_blocks(blocks, arms, metric)
    if len(thin) > THIN_SHARE * len(blocks.complete):
        return None
    return Blocks(blocks.arms, [block for number, block in enumerate(blocks.complete) if number not in thin])


def is_too_thin(blocks: Blocks, arms: Sequence[str], metric: Metric, fewest: int) -> bool:
    """Tell whether each block so far, `fewest` or more, has a run of too few transactions: more would be no better.

    The runs are those of `arms`, by name, in all complete `blocks`. Only a `metric` that is a quantile can have too few
    transactions.
    """
    return len(_thin_blocks(blocks, arms, metric)) == len(blocks.complete) >= fewest


def _thin_blocks(blocks: Blocks, arms: Sequence[str], metric: Metric) -> dict[int, Trial]:
    """Return the blocks with a run that has too few transactions for the metric, and the first such run of each."""
    found: dict[int, Trial] = {}
    for number, block in enumerate(blocks.complete):
        run = next((block[arm] for arm in arms if arm in block and _is_thin(block[arm], metric)), None)
        if run is not None:
            found[number] = run
    return found


def _is_thin(trial: Trial, metric: Metric) -> bool:
    count = _transactions(trial)
    return metric in QUANTILES and count is not None and count * (1 - QUANTILES[metric]) < BEYOND


def _transactions(trial: Trial) -> float | None:
    return None if trial.outcome is None else trial.outcome.counters.get("window_transactions")


def left_out_note(blocks: Blocks, arms: Sequence[str], metric: Metric) -> str:
    """Name the runs whose blocks were left out of the verdict; empty where none was."""
    thin = _thin_blocks(blocks, arms, metric).values()
    if not thin:
        return ""
    return f"left out, each with the rest of its block, as too few for {metric.label}: {_counted(thin)}"


def thin_error(blocks: Blocks, arms: Sequence[str], metric: Metric) -> Unjudged:
    """Return the error of a comparison whose runs are too thin."""
    return _too_few(metric, _thin_blocks(blocks, arms, metric).values())


def require_enough(trials: Sequence[Trial], metric: Metric) -> None:
    """Raise Unjudged where each of these runs has too few transactions for the metric: so will those that follow."""
    if trials and all(_is_thin(trial, metric) for trial in trials):
        raise _too_few(metric, trials)


def _too_few(metric: Metric, trials: Iterable[Trial]) -> Unjudged:
    needed = round(BEYOND / (1 - QUANTILES[metric]))
    return Unjudged(
        f"{metric.label} cannot be judged: its runs have too few transactions, it takes {needed:,} in each",
        detail=_counted(trials) or None,
        hint="Lengthen --measure, or choose another --metric.",
    )


def _counted(trials: Iterable[Trial]) -> str:
    return ", ".join(f"run {trial.id} ({plural(int(_transactions(trial) or 0), 'transaction')})" for trial in trials)


def compare_arms(blocks: Blocks, a: str, b: str, metric: Metric, design: Design) -> Comparison:
    """Return B against A on the study's metric, with the verdicts on all the others beside it.

    `a` and `b` name arms of `blocks`; `metric` is the study's, and every verdict is by `design`. Raises Unjudged where
    too few runs have the metric, or too few transactions for it.
    """
    verdict = verdict_of(blocks, a, b, metric, design)
    if verdict is None and not _thin_blocks(blocks, (a, b), metric):
        runs = [trial for arm in (a, b) for trial in blocks.trials(arm)]
        lacking = [str(trial.id) for trial in runs if trial.figure(metric) is None]
        raise Unjudged(
            f"{metric.label} cannot be judged: it is unknown in {len(lacking)} of {len(runs)} runs",
            detail=f"runs {', '.join(lacking)}" if lacking else None,
            hint="`pgdyno store show RUN` has what is known of a run; choose another --metric.",
        )
    if verdict is None:
        raise thin_error(blocks, (a, b), metric)
    every = [m for m in (Metric.THROUGHPUT, *OTHERS) if m is not metric]
    others = tuple(v for m in every if (v := verdict_of(blocks, a, b, m, design)) is not None)
    return Comparison(a, b, verdict, others, left_out_note(blocks, (a, b), metric))


def median_of(trials: Iterable[Trial], metric: Metric) -> float | None:
    """Return the median of a metric over trials; None when no trial has it."""
    figures = sorted(figure for trial in trials if (figure := trial.figure(metric)) is not None)
    if not figures:
        return None
    middle = len(figures) // 2
    return figures[middle] if len(figures) % 2 else (figures[middle - 1] + figures[middle]) / 2


def representative(trials: Sequence[Trial]) -> int:
    """Return the id of the trial whose throughput is nearest to the median: the one to show in a flight recorder."""
    middle = median_of(trials, Metric.THROUGHPUT) or 0.0
    return min(trials, key=lambda t: abs(((t.outcome.throughput if t.outcome else None) or 0.0) - middle)).id
