"""The noise study: equal runs until the time is over, and what they say about this machine and this load."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.noise import (
    MEASURED,
    TOO_NOISY,
    BestHour,
    EffectInTime,
    HourFigures,
    MetricNoise,
    NoiseAdvice,
    NoiseDesign,
    NoiseResult,
    PairsInTime,
    WindowFigures,
    WindowLength,
)
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.stats.detect import (
    SecondsSeries,
    WindowNoise,
    at_most,
    detectable,
    neighbour_correlation,
    noise_by_window,
    pairs_for,
)
from pgdyno.stats.detect import run_figures as window_figures
from pgdyno.stats.noise import odd_run
from pgdyno.stats.sequential import Design, judge
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.blocks import LOST_BLOCKS, hint_after, tries
from pgdyno.studies.pairs.result import parts_of, run_figures
from pgdyno.trial.laboratory import Laboratory
from pgdyno.units import digits_text, plural

METRICS = (Metric.THROUGHPUT, Metric.SERVER_CPU)
FEWEST_RUNS = 4
PAIRS = (4, 6, 12, 24, 48)
HOUR_S = 3600.0
LEAST_MEASURE_S = 2.0
"""The shortest --measure that is accepted."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a run costs beside its window: warm-up, reset, restart and collection, in seconds.

    A run lasts as long as the bound on warm-up and --measure together, and its window begins when the load is steady:
    `early_s` of the bound, which the load did not need, belong to the window.
    """

    beside_s: float
    early_s: float = 0.0

    def measure_s(self, window_s: float) -> float:
        """Return the --measure that gives such a window with the warm-up that was asked for."""
        return max(LEAST_MEASURE_S, window_s - self.early_s)

    def pair_s(self, window_s: float) -> float:
        """Return the time of a pair of runs with this window, or with the shortest that the warm-up allows."""
        return 2 * (self.beside_s + self.early_s + self.measure_s(window_s))


def run_noise(laboratory: Laboratory, *, budget_s: float, announce: Callable[[str], None]) -> list[Trial]:
    """Measure the server as it is again and again until the time is over, FEWEST_RUNS times at least.

    Raises EnvironmentUnsuitable when runs in a row could not be used: where others disturbed the first one and each of
    its repetitions they stay, and there is nothing yet to lose.
    """
    runs: list[Trial] = []
    lost = made = 0
    for block in range(1, 10_000):
        spec = TrialSpec(BASELINE, Role.ARM, "A", block, 0)
        tried = tries(laboratory.run, spec, company=laboratory.company)
        made, trial = made + len(tried), tried[-1]
        lost = 0 if trial.state is TrialState.COMPLETE else lost + 1
        if lost >= (LOST_BLOCKS if runs or trial.state is not TrialState.DISTURBED else 1):
            raise EnvironmentUnsuitable(
                f"{plural(made, 'run')} in a row could not be used",
                detail=trial.reason or None,
                hint=hint_after({trial.state}),
            )
        if lost == 0:
            runs.append(trial)
            made = 0
        if len(runs) >= FEWEST_RUNS and laboratory.spent_s * (block + 1) / block > budget_s:
            break
        left = max(0.0, budget_s - laboratory.spent_s) / 60
        announce(f"{len(runs)} equal runs, {left:.0f} minutes left")
    return runs


def noise_result(
    laboratory: Laboratory, runs: Sequence[Trial], *, design: Design, effect: float, seed: int
) -> NoiseResult:
    """Return the result: for each metric the noise, the table and what to use; one odd run is left out and named.

    `runs` are the complete ones of `laboratory`, in the order in which they were made, and `design` is how pairs of
    them would be judged. `effect` is the smallest effect that counts, 0.05 for 5 %; `seed` draws which of two runs is B
    in the A/A verdict.
    """
    study, store = laboratory.study, laboratory.store
    figures = [figure for trial in runs if (figure := trial.figure(Metric.THROUGHPUT)) is not None]
    odd = odd_run(figures)
    used = [trial for place, trial in enumerate(runs) if place != odd]
    early = [max(0.0, _window_s(trial) - study.plan.measure_s) for trial in used]
    timing = Timing(float(np.median([_beside_s(trial) for trial in used])), float(np.median(early)))
    metrics = tuple(_metric(store, used, metric, timing, design, effect, seed) for metric in METRICS)
    return NoiseResult(
        **parts_of(laboratory),
        title=_title(metrics[0].hour),
        word=MEASURED if metrics[0].hour else TOO_NOISY,
        metrics=metrics,
        design=NoiseDesign(confidence=design.confidence, power=0.8, smallest_effect=effect),
        beside_s=timing.beside_s,
        early_s=timing.early_s,
        warmup_s=study.plan.warmup_s,
        odd=None if odd is None else run_figures(runs[odd]),
        runs=tuple(run_figures(trial) for trial in used),
    )


def _metric(
    store: Store, runs: Sequence[Trial], metric: Metric, timing: Timing, design: Design, effect: float, seed: int
) -> MetricNoise:
    every = [series_of(store, trial, metric) for trial in runs]
    series = _long_enough([one for one in every if one is not None])
    if len(series) < 3:
        return MetricNoise(metric=metric, reason=_too_few(metric))
    figures = window_figures(series)
    noises = noise_by_window(series)
    windows = tuple(_window(noise, len(series), timing, design) for noise in noises)
    return MetricNoise(
        metric=metric,
        cv=float(figures.std(ddof=1) / figures.mean()),
        neighbours=neighbour_correlation(figures),
        windows=windows,
        hour=_best_hour(windows),
        advice=_cheapest(noises, len(series), timing, design, effect),
        aa=_aa(runs, metric, design, seed),
    )


def _long_enough(series: Sequence[SecondsSeries]) -> list[SecondsSeries]:
    """Leave out runs that settled so late that they would shorten all the others to less than half."""
    least = np.median([one.above.size for one in series]) / 2 if series else 0
    return [one for one in series if one.above.size >= least]


def _window(noise: WindowNoise, runs: int, timing: Timing, design: Design) -> WindowFigures:
    pair_s = timing.pair_s(noise.window_s)
    hour = int(HOUR_S // pair_s)
    worst = at_most(noise.pair_sd, runs)
    return WindowFigures(
        length=_length(noise, timing),
        pair_sd=noise.pair_sd,
        pair_s=pair_s,
        cells=tuple(
            EffectInTime(pairs=pairs, minutes=pairs * pair_s / 60, detectable=detectable(noise.pair_sd, pairs, design))
            for pairs in PAIRS
        ),
        hour=HourFigures(
            pairs=hour,
            detectable=detectable(noise.pair_sd, hour, design),
            at_most=detectable(worst, hour, design),
        ),
    )


def _length(noise: WindowNoise, timing: Timing) -> WindowLength:
    return WindowLength(window_s=noise.window_s, measure_s=timing.measure_s(noise.window_s), measured=noise.measured)


def _best_hour(windows: Sequence[WindowFigures]) -> BestHour | None:
    """Return the window that shows the smallest effect in an hour, None when none shows any."""
    found = [(one.hour.detectable, one) for one in windows if one.hour.detectable is not None]
    if not found:
        return None
    _, best = min(found, key=lambda one: one[0])
    return BestHour(length=best.length, hour=best.hour)


def _cheapest(
    noises: Sequence[WindowNoise], runs: int, timing: Timing, design: Design, effect: float
) -> NoiseAdvice | None:
    """Return window and pairs that show the effect of interest in the shortest time, None when nothing does.

    `at_most` are the pairs that the largest noise would need which so few runs leave possible, with 90 % confidence.
    """
    found = []
    for noise in noises:
        pairs = pairs_for(noise.pair_sd, effect, design)
        if pairs is not None:
            minutes = pairs * timing.pair_s(noise.window_s) / 60
            found.append((minutes, noise, pairs))
    if not found:
        return None
    minutes, noise, pairs = min(found, key=lambda one: one[0])
    most = pairs_for(at_most(noise.pair_sd, runs), effect, design)
    sure = None if most is None else PairsInTime(pairs=most, minutes=most * timing.pair_s(noise.window_s) / 60)
    return NoiseAdvice(
        at_most=sure,
        effect=effect,
        length=_length(noise, timing),
        need=PairsInTime(pairs=pairs, minutes=minutes),
    )


def _too_few(metric: Metric) -> str:
    if metric is Metric.SERVER_CPU:
        return "the server's CPU could not be read, or the measured windows are too short: lengthen --measure"
    return "the measured windows are too short: lengthen --measure"


def _aa(runs: Sequence[Trial], metric: Metric, design: Design, seed: int) -> Verdict | None:
    """Judge the runs against themselves: neighbours are pairs, and a coin says which of the two is B."""
    chance = random.Random(seed)  # noqa: S311 - no secret: a draw that the same seed repeats
    a: list[float] = []
    b: list[float] = []
    for left, right in zip(runs[::2], runs[1::2], strict=False):
        pair = [left.figure(metric), right.figure(metric)]
        chance.shuffle(pair)
        first, second = pair
        if first is not None and second is not None and len(a) < design.max_pairs:
            a.append(first)
            b.append(second)
    return judge(a, b, metric=metric, design=design) if len(a) >= 2 else None


def series_of(store: Store, trial: Trial, metric: Metric) -> SecondsSeries | None:
    """Return a run's measured window second by second, None where it was not measured so.

    Throughput counts the transactions of each whole second; server CPU sets its seconds in relation to them.
    """
    outcome = trial.outcome
    if outcome is None or outcome.steady_from is None:
        return None
    first, last = int(np.ceil(outcome.steady_from)), int(np.floor(outcome.ended_at))
    counts = np.zeros(max(0, last - first))
    for row in store.histograms(trial.id):
        if first <= row.second < last:
            counts[row.second - first] += row.count
    if counts.size < 2 or counts.sum() == 0:
        return None
    if metric is Metric.THROUGHPUT:
        return SecondsSeries(counts, np.ones_like(counts))
    cpu = _cpu_by_second(store, trial.id, first, last)
    return None if cpu is None else SecondsSeries(1000 * cpu, counts)


def _cpu_by_second(
    store: Store, run_id: int, first: int, last: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    assert "server_cpu_s" in TABLES["cpu"].column_names(), "the sample tables are the contract"
    columns = store.samples(run_id, "cpu")
    cpu = np.zeros(last - first)
    for t, interval, seconds in zip(columns["t"], columns["interval_s"], columns["server_cpu_s"], strict=True):
        if not isinstance(t, int | float) or not isinstance(interval, int | float) or interval <= 0:
            continue
        if not isinstance(seconds, int | float):
            return None
        begin = t - interval
        for second in range(max(first, int(np.floor(begin))), min(last, int(np.ceil(t)))):
            cpu[second - first] += seconds * (min(t, second + 1) - max(begin, second)) / interval
    return cpu


def _beside_s(trial: Trial) -> float:
    assert trial.outcome is not None, "complete trials have one"
    return max(0.0, trial.outcome.elapsed_s - _window_s(trial))


def _window_s(trial: Trial) -> float:
    assert trial.outcome is not None, "complete trials have one"
    return trial.outcome.ended_at - (trial.outcome.steady_from or trial.outcome.ended_at)


def _title(best: BestHour | None) -> str:
    if best is None or best.hour.detectable is None:
        return "The runs differ too much to show any effect below a doubling in an hour"
    effect = digits_text(100 * best.hour.detectable, 2)
    window = best.length.window_s
    return f"An hour shows effects from {effect} % on: {plural(best.hour.pairs, 'pair')} with windows of {window:g} s"
