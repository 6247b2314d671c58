"""Measure a sweep or a factorial, and tell it as one JSON object."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.model.configuration import BASELINE
from pgdyno.model.verdict import Metric
from pgdyno.studies.judging import representative, summarise
from pgdyno.studies.result import arm_json, count_states, interval_json, refused_json, verdict_json
from pgdyno.studies.staircase_result import start_json, sweep_json
from pgdyno.studies.sweep import FACTORIAL, FactorialFound, run_factorial, run_sweep
from pgdyno.studies.sweep_options import SweepOptions
from pgdyno.trial.laboratory import Laboratory

FIRST_BLOCK = 1


def measure(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> dict[str, object]:
    """Run what the options ask for and return the result."""
    told = _factorial(laboratory, options, announce) if options.factors else _sweep(laboratory, options, announce)
    study = laboratory.study
    trials = laboratory.store.trials(study.id)
    return {
        "study": study.id,
        "metric": options.metric.value,
        "start": start_json(laboratory.facts, BASELINE),
        **told,
        "refused": refused_json(trials),
        "trials": count_states(trials),
        "environment": study.environment,
        "elapsed_s": laboratory.spent_s,
    }


def _sweep(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> dict[str, object]:
    levels = options.configurations(laboratory.facts)
    found = run_sweep(laboratory, options.knob, levels, options, first_block=FIRST_BLOCK, announce=announce)
    first, chosen = found.levels[0], found.chosen
    sides = {"baseline": first, "winner": chosen}
    return {
        "title": f"sweep of {options.knob}{_by(options)}: {found.plateau.sentence(found.levels)}",
        "word": "not resolved" if found.plateau.is_flat else "plateau",
        "sweep": sweep_json(found, laboratory.facts),
        **{
            side: arm_json(
                summarise(level, levels[level], found.blocks.trials(level)),
                representative(found.blocks.trials(level)),
                laboratory.facts,
            )
            for side, level in sides.items()
        },
    }


def _factorial(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> dict[str, object]:
    arms = options.configurations(laboratory.facts)
    a, b = (f"{knob} = {value}" for knob, value in options.factors)
    found = run_factorial(
        laboratory,
        (a, b),
        arms,
        metric=options.metric,
        design=options.design(),
        seed=options.seed,
        announce=announce,
    )
    said = found.sentence()
    return {
        "title": f"factorial{_by(options)}: {said}",
        "word": next((word for word in ("not resolved", "independently", "strengthen", "weaken") if word in said), ""),
        "factorial": {
            "factors": [list(factor) for factor in options.factors],
            "interaction": interval_json(found.interaction.interval),
            "blocks": found.interaction.pairs,
            "arms": [_arm(laboratory, found, arm) for arm in FACTORIAL],
        },
    }


def _by(options: SweepOptions) -> str:
    return "" if options.metric is Metric.THROUGHPUT else f" by {options.metric.label}"


def _arm(laboratory: Laboratory, found: FactorialFound, arm: str) -> dict[str, object]:
    runs = found.blocks.trials(arm)
    verdict = found.effects.get(arm)
    return {
        **arm_json(summarise(arm, found.blocks.arms[arm], runs), representative(runs), laboratory.facts),
        "verdict": None if verdict is None else verdict_json(verdict),
    }
