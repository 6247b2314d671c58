"""The result of a study as one JSON object: what `--json` prints, the store keeps and the report draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from pgdyno.knobs.catalogue import Catalogue, TakesEffect
from pgdyno.knobs.values import setting_text
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import COUNTERPARTS
from pgdyno.model.study import Arm, Comparison
from pgdyno.model.trial import Outcome, Trial, TrialState
from pgdyno.model.verdict import Interval, Metric, Verdict
from pgdyno.stats.noise import NoiseFloor
from pgdyno.studies.blocks import Blocks, metric_of
from pgdyno.studies.drowned import beside_others
from pgdyno.studies.judging import representative
from pgdyno.studies.proof import BASE, WINNER


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """Return a verdict with its interval."""
    return {
        "word": verdict.word.value,
        "ratio": verdict.interval.ratio,
        "ci": _bounds(verdict.interval),
        "confidence": verdict.interval.confidence,
        "pairs": verdict.pairs,
        "metric": verdict.metric.value,
        "smallest_effect": verdict.smallest_effect,
        "more_pairs": verdict.more_pairs,
    }


def interval_json(interval: Interval) -> dict[str, object]:
    """Return a ratio with its interval."""
    return {"ratio": interval.ratio, "ci": _bounds(interval), "confidence": interval.confidence}


def _bounds(interval: Interval) -> list[float | None]:
    """Return [lo, hi]; an upper bound that does not exist is null, because JSON has no infinity."""
    return [interval.lo, interval.hi if math.isfinite(interval.hi) else None]


def company_json(trials: Sequence[Trial]) -> dict[str, object]:
    """Return how many runs were used beside others, and of how many; nothing where none was."""
    used = sum(trial.state is TrialState.COMPLETE for trial in trials)
    beside = beside_others(trials)
    return {"beside_others": {"runs": beside, "of": used}} if beside else {}


def noise_json(noise: NoiseFloor, runs: Sequence[Trial], odd: Trial | None, ratio: float | None) -> dict[str, object]:
    """Return the noise floor; `detectable` is the effect that six pairs would show with 80 % power.

    It is null where the runs differ too much to tell, or are fewer than four. `odd` is the run that was left out, null
    where none was.
    """
    return {
        "cv": noise.cv,
        "pair_sd": noise.pair_sd,
        "pairs": 6,
        "detectable": noise.detectable(6),
        "runs": [trial.id for trial in runs],
        "odd": None if odd is None else {"run": odd.id, "ratio": ratio},
    }


def arm_json(arm: Arm, run: int | None, facts: Facts) -> dict[str, object]:
    """Return one side of a comparison, medians over its trials."""
    settings = dict(arm.configuration)
    return {
        "name": arm.name,
        "settings": settings,
        "from": {knob: current_text(facts, knob) for knob in settings},
        "throughput": arm.throughput,
        "latency_ms": {"p50": arm.latency_p50, "p95": arm.latency_p95, "p99": arm.latency_p99},
        "server_cpu_ms_per_tx": arm.server_cpu_ms_per_tx,
        "run": run,
    }


def comparison_json(comparison: Comparison, blocks: Blocks, facts: Facts) -> dict[str, object]:
    """Return verdict, arms and the pairs behind them, with A as `baseline` and B as `winner`."""
    a, b = comparison.a.name, comparison.b.name
    return {
        "verdict": verdict_json(comparison.verdict),
        "others": [verdict_json(verdict) for verdict in comparison.others],
        "baseline": arm_json(comparison.a, representative(blocks.trials(a)), facts),
        "winner": arm_json(comparison.b, representative(blocks.trials(b)), facts),
        "confirmation": {"pairs": pairs_json(blocks, a, b, comparison.verdict.metric)},
    }


def pairs_json(blocks: Blocks, a: str = BASE, b: str = WINNER, metric: Metric = Metric.THROUGHPUT) -> list[object]:
    """Return the paired figures block by block, with the trials they come from."""
    return [
        {
            "block": number,
            "a": _figure(block[a], metric),
            "b": _figure(block[b], metric),
            "a_run": block[a].id,
            "b_run": block[b].id,
        }
        for number, block in enumerate(blocks.complete, start=1)
    ]


def _figure(trial: Trial, metric: Metric) -> float | None:
    return metric_of(trial.outcome, metric) if trial.outcome else None


def run_json(trial: Trial) -> dict[str, object]:
    """Return one run, as `bench --json` prints it."""
    outcome = trial.outcome or Outcome(state=trial.state)
    latency = outcome.latency_ms
    return {
        "run": trial.id,
        "state": trial.state.value,
        "reason": outcome.reason,
        "tps": outcome.throughput,
        "latency_ms": None
        if latency is None
        else {
            "p50": latency.p50,
            "p95": latency.p95,
            "p99": latency.p99,
            "p999": latency.p999,
            "max": latency.max,
            "mean": latency.mean,
        },
        "transactions": outcome.transactions,
        "failed": outcome.failed,
        "retried": outcome.retried,
        "skipped": outcome.skipped,
        "driver_cpu_s": outcome.driver_cpu_s,
        "server_cpu_s": outcome.server_cpu_s,
        "server_cpu_ms_per_tx": outcome.server_cpu_ms_per_tx,
        "foreign_cpu_pct": outcome.foreign_cpu_pct,
        "steal_pct": outcome.steal_pct,
        "settings_fingerprint": outcome.settings_fingerprint,
        "counters": dict(outcome.counters),
        "warnings": list(outcome.warnings),
    }


def count_states(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many trials ended in each state."""
    return dict(Counter(trial.state.value for trial in trials))


def refused_json(trials: Sequence[Trial]) -> list[object]:
    """Return the trials that could not be measured, with the reason."""
    lost = (TrialState.REFUSED, TrialState.VOID, TrialState.FAILED)
    return [
        {"run": t.id, "state": t.state.value, "settings": dict(t.spec.configuration), "reason": _reason(t)}
        for t in trials
        if t.state in lost
    ]


def _reason(trial: Trial) -> str | None:
    return trial.outcome.reason if trial.outcome else None


def current_text(facts: Facts, knob: str) -> str:
    """Return the value that a knob had when the study began, as PostgreSQL's SHOW or the kernel writes it."""
    setting = facts.row(knob)
    if setting is None:
        return "unknown"
    try:
        return setting_text(setting, float(setting.setting))
    except ValueError:
        return setting.setting


def effects_json(
    effects: Mapping[str, Verdict], winner: Configuration, facts: Facts, catalogue: Catalogue
) -> list[object]:
    """Return each retained setting with its measured effect, the largest first."""
    rows = sorted(effects.items(), key=lambda item: -abs(item[1].interval.ratio - 1))
    return [
        {
            **_retained(knob, winner, facts, catalogue),
            **interval_json(verdict.interval),
            "word": verdict.word.value,
        }
        for knob, verdict in rows
    ]


def unmeasured_json(
    effects: Mapping[str, Verdict], winner: Configuration, facts: Facts, catalogue: Catalogue
) -> list[object]:
    """Return each retained setting whose own effect was not measured."""
    return [_retained(knob, winner, facts, catalogue) for knob in winner if knob not in effects]


def _retained(knob: str, winner: Configuration, facts: Facts, catalogue: Catalogue) -> dict[str, object]:
    return {
        "knob": knob,
        "from": current_text(facts, knob),
        "to": winner[knob],
        "why": catalogue[knob].why,
        "durability": catalogue[knob].durability.value,
        "context": _context(facts, catalogue, knob),
    }


def _context(facts: Facts, catalogue: Catalogue, knob: str) -> str:
    """Return what it takes to bring a knob into force, in the words of `pg_settings.context`."""
    row = facts.row(knob)
    restart = catalogue[knob].takes_effect is TakesEffect.RESTART
    return "postmaster" if restart or row is None else row.context


def dropped_json(dropped: Configuration, because: Mapping[str, str], facts: Facts) -> list[object]:
    """Return the settings that were found and did not stay, each with the reason."""
    return [
        {"knob": knob, "from": current_text(facts, knob), "to": value, "why": because.get(knob)}
        for knob, value in dropped.items()
    ]


def undo_text(winner: Configuration, facts: Facts) -> str:
    """Return the lines of a postgresql.conf that take the winner back to what was there before.

    Linux knobs are not in that file: a comment says what each of them was.
    """
    if winner == BASELINE:
        return ""
    lines = [f"# Linux: {_previous(knob, facts)} was in force\n" for knob in winner.linux()]
    for knob in winner.postgresql():
        setting = facts.settings[knob]
        if setting.source == "default":
            lines.append(f"# {knob}: remove the line; the default of {current_text(facts, knob)} comes back\n")
        else:
            lines.append(Configuration.of({knob: current_text(facts, knob)}).fragment())
    return "".join(lines)


def _previous(knob: str, facts: Facts) -> str:
    """Return what a Linux knob was; of two counterparts the one that counted."""
    other = COUNTERPARTS.get(knob)
    counted = other if other is not None and current_text(facts, knob) == "0" else knob
    return f"{counted} = {current_text(facts, counted)}"
