"""What gain costs what memory: the configurations of a tune of which none has both more gain and less memory.

Gains of what ran in the proof are measured in its pairs. All others are the model's, of the search's single runs: they
say where to look, and prove nothing. Memory is what a configuration can demand at worst (`knobs.memory`), which depends
on the settings alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno.knobs.memory import demand
from pgdyno.knobs.space import point_to_configuration
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.tune import ParetoPoint
from pgdyno.model.trial import Trial, TrialState
from pgdyno.model.verdict import Interval, Metric, Verdict
from pgdyno.optimizer.rank import leads
from pgdyno.stats.distributions import ndtri
from pgdyno.stats.paired import interval
from pgdyno.studies.pairs.blocks import BASE, FOUND
from pgdyno.studies.pairs.judging import median_of
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory

MEASURED, MODEL = "measured", "model"


def gain_against_memory(laboratory: Laboratory, tuned: Tuned, options: TuneOptions) -> tuple[ParetoPoint, ...]:
    """Return the points that no other one beats in both, least memory first, with baseline and taken one among them.

    Empty where nothing but the baseline was measured.
    """
    taken = tuned.winner if tuned.is_offered else BASELINE
    known = {**_by_model(tuned, options), **_by_proof(tuned)}
    if not known:
        return ()
    known[BASELINE] = (Interval(1.0, 1.0, 1.0, options.confidence), MEASURED, len(tuned.search.baselines))
    facts, connections = laboratory.facts, laboratory.study.plan.connections
    cpu = _server_cpu(tuned)
    points = [
        ParetoPoint(
            settings=dict(settings),
            memory_bytes=round(demand(settings, facts, connections=connections).total),
            ratio=ratio,
            basis=basis,
            runs=runs,
            taken=settings == taken,
            cpu=cpu.get(settings),
        )
        for settings, (ratio, basis, runs) in known.items()
    ]
    return front(points, options.metric)


def front(points: Sequence[ParetoPoint], metric: Metric) -> tuple[ParetoPoint, ...]:
    """Return the points that none beats in both gain and memory, by memory; baseline and taken one stay in any case."""
    sign = 1 if metric.higher_is_better else -1
    gains = [(point.memory_bytes, -sign * math.log(point.ratio.ratio), len(point.settings)) for point in points]
    kept, best = list[ParetoPoint](), math.inf
    for (_, loss, _), point in sorted(zip(gains, points, strict=True), key=lambda one: one[0]):
        if loss < best or point.taken or not point.settings:
            kept.append(point)
        best = min(best, loss)
    return tuple(kept)


_Known = dict[Configuration, tuple[Interval, str, int]]


def _by_model(tuned: Tuned, options: TuneOptions) -> _Known:
    search, higher = tuned.search, options.metric.higher_is_better
    runs = _counts(tuned)
    reach = float(ndtri(0.5 + options.confidence / 2))
    found: _Known = {}
    for point, lead, sd in leads(search.space.dimensions, search.history()):
        settings = point_to_configuration(search.space, point)
        if settings:
            ratio = interval(lead if higher else -lead, reach * sd, options.confidence)
            found[settings] = (ratio, MODEL, runs.get(settings, 1))
    return found


def _counts(tuned: Tuned) -> Mapping[Configuration, int]:
    counts: dict[Configuration, int] = {}
    for trial in (*tuned.search.trials, *tuned.search.fresh):
        if trial.state is TrialState.COMPLETE:
            counts[trial.spec.configuration] = counts.get(trial.spec.configuration, 0) + 1
    return counts


def _server_cpu(tuned: Tuned) -> Mapping[Configuration, float]:
    """Return the CPU a transaction over the baseline's: of the search's runs, and of the proof's where it has them."""
    by_settings: dict[Configuration, list[Trial]] = {}
    for trial in (*tuned.search.trials, *tuned.search.fresh):
        if trial.state is TrialState.COMPLETE:
            by_settings.setdefault(trial.spec.configuration, []).append(trial)
    found = _over(by_settings, median_of(tuned.search.baselines, Metric.SERVER_CPU))
    if tuned.proof is not None:
        blocks = tuned.proof.blocks
        arms = {blocks.arms[arm]: blocks.trials(arm) for arm in (tuned.proof.answer, FOUND) if arm in blocks.arms}
        found |= _over(arms, median_of(blocks.trials(BASE), Metric.SERVER_CPU))
    return found | {BASELINE: 1.0}


def _over(runs: Mapping[Configuration, Sequence[Trial]], before: float | None) -> dict[Configuration, float]:
    """Return each median over that of the baseline, where both are known."""
    medians = {settings: median_of(trials, Metric.SERVER_CPU) for settings, trials in runs.items()}
    return {settings: one / before for settings, one in medians.items() if one is not None and before}


def _by_proof(tuned: Tuned) -> _Known:
    """Return what ran in the last proof against the baseline: the answer, and all that was found."""
    proof = tuned.proof
    if proof is None:
        return {}
    arms: dict[str, Verdict | None] = {proof.answer: proof.headline.verdict, FOUND: proof.together}
    return {
        proof.blocks.arms[arm]: (verdict.interval, MEASURED, verdict.pairs)
        for arm, verdict in arms.items()
        if verdict is not None and arm in proof.blocks.arms and arm != BASE and math.isfinite(verdict.interval.hi)
    }
