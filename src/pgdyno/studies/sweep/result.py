"""Measure a sweep or a factorial, and return its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.parts import Side
from pgdyno.model.results.sweep import UNRESOLVED, FactorialArm, FactorialFigures, SweepResult
from pgdyno.model.verdict import Metric
from pgdyno.studies.pairs.result import company_of, parts_of, refusals, side_of
from pgdyno.studies.staircase.result import start_of, sweep_figures
from pgdyno.studies.sweep.run import FACTORIAL, FactorialFound, SweepOptions, run_factorial, run_sweep, unmeasured_text
from pgdyno.trial.laboratory import Laboratory

FIRST_BLOCK = 1


def measure(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> SweepResult:
    """Run what the options ask for and return the result."""
    told = _factorial(laboratory, options, announce) if options.factors else _sweep(laboratory, options, announce)
    trials = laboratory.store.trials(laboratory.study.id)
    common = parts_of(laboratory)
    return replace(told, **common, metric=options.metric, refused=refusals(trials), beside_others=company_of(trials))


def _sweep(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> SweepResult:
    levels = options.configurations(laboratory.facts)
    found = run_sweep(laboratory, options.knob, levels, options, first_block=FIRST_BLOCK, announce=announce)

    def side(level: str) -> Side:
        return side_of(level, levels[level], found.blocks.trials(level), laboratory.facts)

    said = f"sweep of {options.knob}{_by(options)}: {found.plateau.sentence(found.levels)}"
    return SweepResult(
        study=laboratory.study.id,
        start=start_of(laboratory.facts, BASELINE),
        title="; ".join(filter(None, (said, unmeasured_text(found.blocks)))),
        word=UNRESOLVED if found.plateau.is_flat else "plateau",
        sweep=sweep_figures(found, laboratory.facts),
        baseline=side(found.levels[0]),
        winner=side(found.chosen),
    )


def _factorial(laboratory: Laboratory, options: SweepOptions, announce: Callable[[str], None]) -> SweepResult:
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
    return SweepResult(
        study=laboratory.study.id,
        start=start_of(laboratory.facts, BASELINE),
        title=f"factorial{_by(options)}: {said}",
        word=next((word for word in (UNRESOLVED, "independently", "strengthen", "weaken") if word in said), ""),
        factorial=FactorialFigures(
            factors=options.factors,
            interaction=found.interaction.interval,
            blocks=found.interaction.pairs,
            arms=tuple(_arm(laboratory, found, arm) for arm in FACTORIAL),
        ),
    )


def _by(options: SweepOptions) -> str:
    return "" if options.metric is Metric.THROUGHPUT else f" by {options.metric.label}"


def _arm(laboratory: Laboratory, found: FactorialFound, arm: str) -> FactorialArm:
    side = side_of(arm, found.blocks.arms[arm], found.blocks.trials(arm), laboratory.facts)
    return FactorialArm(side=side, verdict=found.effects.get(arm))
