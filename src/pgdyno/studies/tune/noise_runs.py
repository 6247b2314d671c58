"""The noise floor of a study: its first baseline runs, with one that stands apart asked again and left out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric
from pgdyno.report.wording import told_once
from pgdyno.stats.noise import NoiseFloor, noise_floor, odd_run
from pgdyno.studies.pairs.blocks import hint_after
from pgdyno.studies.pairs.judging import require_enough
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.search import Search

FEWEST = 3
"""So many runs must there be for a noise floor."""
NOISE_SHARE = 0.25
"""Of a time budget, runs beyond the fewest take no more than this."""


@dataclass(frozen=True, slots=True)
class NoiseRuns:
    """The noise floor and the baseline runs that it comes from. `odd` stood apart from them and is left out."""

    floor: NoiseFloor
    runs: tuple[Trial, ...]
    odd: Trial | None
    odd_ratio: float | None
    """The odd run's figure over the median of the others."""


def measure_noise(search: Search, options: TuneOptions, announce: Callable[[str], None]) -> NoiseRuns:
    """Run the baseline alone, and once more when one run stands apart: was it the odd one, or is that the noise?

    A run that still stands apart then is no scatter of the machine: data that were not in memory yet, somebody's
    backup. It is left out of the noise floor and of what the search learns, and the result names it. Raises
    EnvironmentUnsuitable when fewer than three runs could be measured, Unjudged when each has too few transactions.
    """
    watch = search.laboratory.stopwatch
    search.laboratory.expect(options.noise_runs, at_most=watch is not None)
    for slot in range(options.noise_runs):
        if slot >= FEWEST and watch is not None and not watch.has_room(1, until_s=watch.share_s(NOISE_SHARE)):
            search.left_out.append(f"{options.noise_runs - slot} of {options.noise_runs} runs for the noise floor")
            break
        search.measure_baseline(0, slot)
    figures = _figures(search, options)
    has_room = watch is None or watch.has_room(1, until_s=watch.share_s(NOISE_SHARE))
    if (place := odd_run(figures)) is not None and has_room:
        announce(f"noise floor: run {place + 1} of {len(figures)} is an outlier; one more run")
        search.measure_baseline(0, options.noise_runs)
        figures = _figures(search, options)
    if len(figures) < FEWEST:
        raise EnvironmentUnsuitable(
            f"the baseline could be measured in only {len(figures)} of {options.noise_runs} runs",
            detail="; ".join(told_once(_reasons(search))) or None,
            hint=hint_after({t.state for t in search.laboratory.store.trials(search.laboratory.study.id)}),
        )
    require_enough(search.baselines, options.metric)
    place = odd_run(figures)
    if place is None:
        return NoiseRuns(noise_floor(figures), tuple(search.baselines), None, None)
    ratio = figures.pop(place) / statistics.median(figures)
    odd = search.baselines.pop(place)
    return NoiseRuns(noise_floor(figures), tuple(search.baselines), odd, ratio)


def _figures(search: Search, options: TuneOptions) -> list[float]:
    """Return the figure of each baseline run; a run that has none is no baseline to anything."""
    measured = [(trial, trial.figure(options.metric)) for trial in search.baselines]
    search.baselines = [trial for trial, figure in measured if figure]
    return [figure for _, figure in measured if figure]


def floor_of(runs: Sequence[Trial], metric: Metric) -> NoiseFloor:
    """Return the noise floor of these runs in another metric, which is known of each."""
    return noise_floor([figure for trial in runs if (figure := trial.figure(metric))])


def _reasons(search: Search) -> list[str]:
    trials = search.laboratory.store.trials(search.laboratory.study.id)
    return [trial.reason for trial in trials if trial.reason]
