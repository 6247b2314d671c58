"""From the runs of a scalability study to its levels and its client curve. Pure.

A run qualifies when it is whole, steady, and the load that was asked for: others are counted by why they are none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pgdyno.model.matrix import LOCK_MODES
from pgdyno.model.results.scale import (
    PATH,
    RESPONSE,
    SUCCESS,
    ClientCurve,
    Constancy,
    CurveLoad,
    LevelCheck,
    LevelFigures,
)
from pgdyno.model.trial import Trial, TrialState
from pgdyno.stats.constancy import FEWEST_PAIRS, constancy
from pgdyno.stats.scalability import fit_amdahl, fit_usl
from pgdyno.studies.scale.plan import CONNECTIONS, LEVEL, PlannedLevel, ScalePlan
from pgdyno.units import plural

DRAWN = 6.0
"""Deviations of the number of transactions that a random schedule has room for."""
KEPT = 0.97
"""A run that reached less of its rate was not the load of its level: the server fell behind."""
BEHIND = "behind its rate"
NO_SUCCESS = 1e-4
"""The share that stands for none at all: a ratio to 0 has no logarithm, and such a run is a run all the same."""
_MEASURED = (TrialState.COMPLETE, TrialState.UNSTEADY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRun:
    """One run with what its trial alone does not tell; `within` is the share of answers in time, None for any time."""

    trial: Trial
    within: float | None = None
    cpu_pct: float | None = None
    locks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckWords:
    """What held the run back that stands for a level: in words, with its evidence."""

    words: str = ""
    evidence: tuple[str, ...] = ()


Judge = Callable[[Trial, float | None], BottleneckWords]
"""Says of a run what limited it; it is told how much of the level's CPUs the run used."""


def levels_of(plan: ScalePlan, runs: Sequence[ScaleRun], judge: Judge) -> tuple[LevelFigures, ...]:
    """Return every level of the plan, against the reference one."""
    by_level = {level.name: _latest(runs, LEVEL, level.name) for level in plan.levels}
    reference = by_level[f"{plan.reference:g}"]
    return tuple(_level(plan, level, by_level[level.name], reference, judge) for level in plan.levels)


def _latest(runs: Sequence[ScaleRun], factor: str, name: str) -> list[ScaleRun]:
    return [one for one in runs if one.trial.spec.factors.get(factor) == name]


def disqualified(plan: ScalePlan, run: ScaleRun) -> str:
    """Return why a run does not qualify, empty where it does."""
    outcome, rate = run.trial.outcome, _rate(plan, run.trial)
    if rate is not None and run.trial.state in _MEASURED and _is_behind(run.trial, rate):
        return BEHIND
    if run.trial.state is not TrialState.COMPLETE or outcome is None or outcome.throughput is None:
        return run.trial.state.value
    return ""


def _is_behind(trial: Trial, rate: float) -> bool:
    """Tell whether fewer transactions ended than a schedule drawn at random can leave out."""
    reached, outcome = _reached(trial), trial.outcome
    if reached is None or outcome is None:
        return False
    seconds = outcome.ended_at - outcome.began_at
    return reached * seconds < KEPT * rate * seconds - DRAWN * math.sqrt(rate * seconds)


def _rate(plan: ScalePlan, trial: Trial) -> float | None:
    name = trial.spec.factors.get(LEVEL)
    return None if name is None else plan.rate_of(plan.level_named(name))


def _reached(trial: Trial) -> float | None:
    """Return the transactions per second over the whole load: a run that is not steady has no throughput."""
    outcome = trial.outcome
    if outcome is None or outcome.ended_at <= outcome.began_at:
        return None
    return (outcome.transactions + outcome.failed) / (outcome.ended_at - outcome.began_at)


def success_of(run: ScaleRun) -> float | None:
    """Return the share of transactions that neither failed nor were skipped, and were answered in time."""
    outcome = run.trial.outcome
    asked = 0 if outcome is None else outcome.transactions + outcome.failed + outcome.skipped
    if outcome is None or asked == 0:
        return None
    return outcome.transactions / asked * (1.0 if run.within is None else run.within)


def _figures(plan: ScalePlan, run: ScaleRun) -> Mapping[str, float | None]:
    outcome = run.trial.outcome
    if outcome is None:
        return {}
    path_ms = outcome.server_cpu_ms_per_tx
    return {
        SUCCESS: success_of(run),
        RESPONSE: outcome.figure(plan.criterion.metric),
        PATH: None if path_ms is None else path_ms / 1000,
    }


def _level(
    plan: ScalePlan, level: PlannedLevel, runs: Sequence[ScaleRun], reference: Sequence[ScaleRun], judge: Judge
) -> LevelFigures:
    last = _last_of_place(runs)
    others = Counter(why for one in runs if (why := disqualified(plan, one)))
    used = [one for one in last if not disqualified(plan, one)]
    figures = [_figures(plan, one) for one in used]
    throughputs = [one.trial.outcome.throughput for one in used if one.trial.outcome and one.trial.outcome.throughput]
    path_s, throughput = _median(figures, PATH), median(throughputs) if throughputs else None
    busy = None if None in (path_s, throughput, level.cpus) else (path_s or 0) * (throughput or 0) / (level.cpus or 1)
    behind = [one for one in last if disqualified(plan, one) == BEHIND]
    shown = _middle(used, plan) or (behind[-1] if behind else None)
    held = BottleneckWords() if shown is None else judge(shown.trial, busy if used else _busy(shown.trial, level))
    is_reference = level.percent == plan.reference
    checks = () if is_reference else _checks(plan, used, _last_of_place(reference))
    standing, reason = _standing(plan, checks, used, behind, last, is_reference=is_reference)
    return LevelFigures(
        percent=level.percent,
        cpus=level.cpus,
        memory_bytes=level.memory_bytes,
        load=plan.load_text(level),
        runs=len(runs),
        qualified=tuple(one.trial.id for one in used),
        others=dict(others),
        throughput=throughput,
        response_ms=_median(figures, RESPONSE),
        success=_median(figures, SUCCESS),
        path_s=path_s,
        busy=busy,
        checks=checks,
        standing=standing,
        reason=reason,
        bottleneck=held.words,
        evidence=held.evidence,
        run=None if shown is None else shown.trial.id,
    )


def _busy(trial: Trial, level: PlannedLevel) -> float | None:
    """Return how much of a level's CPUs a run used that has no steady window."""
    outcome = trial.outcome
    if outcome is None or outcome.server_cpu_s is None or level.cpus is None:
        return None
    window_s = outcome.counters.get("window_s") or outcome.ended_at - outcome.began_at
    return outcome.server_cpu_s / window_s / level.cpus if window_s > 0 else None


def _last_of_place(runs: Sequence[ScaleRun]) -> list[ScaleRun]:
    """Return the last run of each repetition: one that was repeated does not speak for its place."""
    return list({one.trial.spec.block: one for one in runs}.values())


def _median(figures: Sequence[Mapping[str, float | None]], name: str) -> float | None:
    known = [value for one in figures if (value := one.get(name)) is not None]
    return median(known) if known else None


def _middle(used: Sequence[ScaleRun], plan: ScalePlan) -> ScaleRun | None:
    """Return the run whose response time is in the middle: it stands for its level."""
    ordered = sorted(used, key=lambda one: (_figures(plan, one)[RESPONSE] or 0.0, one.trial.id))
    return ordered[len(ordered) // 2] if ordered else None


def _checks(plan: ScalePlan, used: Sequence[ScaleRun], reference: Sequence[ScaleRun]) -> tuple[LevelCheck, ...]:
    beside = {one.trial.spec.block: one for one in reference if not disqualified(plan, one)}
    pairs = [(_figures(plan, beside[block]), _figures(plan, one)) for one in used
             if (block := one.trial.spec.block) in beside]  # fmt: skip
    wanted = ((SUCCESS, plan.criterion.success), (RESPONSE, plan.criterion.response), (PATH, plan.criterion.path))
    found = []
    for name, tolerance in wanted:
        none = NO_SUCCESS if name == SUCCESS else None  # of the others nothing was measured
        known = [(a, b) for one, other in pairs if (a := one.get(name)) and (b := _or(other.get(name), none))]
        word, ratio = constancy([a for a, _ in known], [b for _, b in known], tolerance)
        found.append(LevelCheck(criterion=name, tolerance=tolerance, word=word, ratio=ratio, pairs=len(known)))
    return tuple(found)


def _or(value: float | None, zero: float | None) -> float | None:
    return zero if value == 0 else value


def _standing(
    plan: ScalePlan,
    checks: Sequence[LevelCheck],
    used: Sequence[ScaleRun],
    behind: Sequence[ScaleRun],
    last: Sequence[ScaleRun],
    *,
    is_reference: bool,
) -> tuple[Constancy, str]:
    if len(behind) >= FEWEST_PAIRS and 2 * len(behind) > len(last):
        rate = _rate(plan, behind[-1].trial) or 1.0
        reached = median([100 * (_reached(one.trial) or 0.0) / rate for one in behind])
        return Constancy.NOT_CONSTANT, (
            f"the server fell behind in {len(behind)} of {plural(len(last), 'run')}: it reached {reached:.0f} % of the "
            "rate"
        )
    if is_reference:
        if len(used) < FEWEST_PAIRS:
            return Constancy.NOT_RESOLVED, f"only {plural(len(used), 'qualified run')}"
        return Constancy.CONSTANT, ""
    words = [one.word for one in checks]
    if Constancy.NOT_CONSTANT in words:
        return Constancy.NOT_CONSTANT, ""
    if set(words) == {Constancy.CONSTANT}:
        return Constancy.CONSTANT, ""
    few = next((one for one in checks if one.pairs < FEWEST_PAIRS), None)
    told = "" if few is None else f"{plural(few.pairs, 'pair')} of qualified runs; {FEWEST_PAIRS} are the least"
    return Constancy.NOT_RESOLVED, told


def curve_of(plan: ScalePlan, runs: Sequence[ScaleRun], judge: Judge) -> ClientCurve | None:
    """Return the client curve with its laws, None where none was planned."""
    if not plan.connections:
        return None
    loads = tuple(_load(plan, number, _latest(runs, CONNECTIONS, str(number)), judge) for number in plan.connections)
    numbers = [float(one.connections) for one in loads for _ in one.runs]
    figures = [figure for one in loads for figure in one.runs]
    usl, amdahl = fit_usl(numbers, figures), fit_amdahl(numbers, figures)
    return ClientCurve(
        loads=loads,
        usl=None if isinstance(usl, str) else usl,
        amdahl=None if isinstance(amdahl, str) else amdahl,
        no_law=usl if isinstance(usl, str) else "",
    )


def _load(plan: ScalePlan, number: int, runs: Sequence[ScaleRun], judge: Judge) -> CurveLoad:
    used = [one for one in _last_of_place(runs) if not disqualified(plan, one)]
    outcomes = [one.trial.outcome for one in used if one.trial.outcome is not None]
    throughputs = tuple(one.throughput for one in outcomes if one.throughput)
    latencies = [one.latency_ms.mean for one in outcomes if one.latency_ms]
    shares = [one.cpu_pct for one in used if one.cpu_pct is not None]
    ordered = sorted(used, key=lambda one: (one.trial.outcome.throughput or 0.0) if one.trial.outcome else 0.0)
    shown = ordered[len(ordered) // 2] if ordered else None
    return CurveLoad(
        connections=number,
        runs=throughputs,
        of=len(runs),
        throughput=median(throughputs) if throughputs else None,
        latency_ms=median(latencies) if latencies else None,
        cpu_pct=median(shares) if shares else None,
        locks={mode: median([one.locks.get(mode, 0.0) for one in used]) for mode in LOCK_MODES} if used else {},
        bottleneck="" if shown is None else judge(shown.trial, None).words,
        run=None if shown is None else shown.trial.id,
    )
