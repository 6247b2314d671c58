"""A/B: two configurations in interleaved, randomised pairs, until the verdict is final or the pairs are spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgdyno.control.restart_budget import RestartBudget
from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.results.ab import AbResult
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric
from pgdyno.stats.sequential import Design, is_final
from pgdyno.studies.pairs.blocks import JUDGEABLE, Blocks, block_order, run_blocks
from pgdyno.studies.pairs.drowned import tighter_elsewhere
from pgdyno.studies.pairs.explain import user_time
from pgdyno.studies.pairs.judging import compare_arms, is_too_thin, verdict_of
from pgdyno.studies.pairs.result import company_of, compared, inside, parts_of, refusals
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.restarts import Restarts, needs_restart
from pgdyno.units import plural

A, B = "A", "B"
FIRST_BLOCK = 1


def ab(
    laboratory: Laboratory,
    a: Configuration,
    b: Configuration,
    *,
    metric: Metric,
    design: Design,
    seed: int,
    announce: Callable[[str], None],
) -> tuple[Comparison, Blocks]:
    """Run pairs of A and B and return the comparison with its blocks.

    `laboratory` runs the trials of the arms `a` and `b`, and `seed` draws the order of each pair. `metric` is judged by
    `design` after every pair; `announce` takes each verdict, in a sentence. Equal configurations are compared as any
    others: an A/A run is how the method is checked on a machine.
    """

    def is_enough(blocks: Blocks) -> bool:
        verdict = verdict_of(blocks, A, B, metric, design)
        if verdict is None:
            return is_too_thin(blocks, (A, B), metric, design.min_pairs)
        announce(f"after {plural(verdict.pairs, 'pair')}: {verdict.sentence(B, A)}")
        return is_final(verdict, design)

    blocks = run_blocks(
        laboratory,
        {A: a, B: b},
        {A: Role.ARM, B: Role.ARM},
        seed=seed,
        first_block=FIRST_BLOCK,
        max_blocks=design.max_pairs,
        is_enough=is_enough,
        short_from=JUDGEABLE,
    )
    return compare_arms(blocks, A, B, metric, design), blocks


def within_budget(
    design: Design, budget: RestartBudget | None, a: Configuration, b: Configuration, *, facts: Facts, seed: int
) -> Design:
    """Return the design with as many pairs as the restart budget reaches for, decided before the first pair.

    `a` and `b` are the arms, and `facts` tell which of their knobs need a restart. The order of the pairs follows from
    `seed`, the one that `ab` is given, so the restarts can be counted beforehand. Those of the way back are not in
    them, and a pair that is repeated on a disturbed machine may need more. A `budget` of None, or without a limit,
    leaves `design` as it is. Raises UsageError where the budget does not reach for the fewest pairs.
    """
    if budget is None or budget.limit is None:
        return design
    needed = _restarts_by_pair(a, b, design.max_pairs, facts=facts, seed=seed)
    if needed[design.min_pairs - 1] > budget.limit:
        raise _too_small(budget, a, b, facts=facts, pairs=design.min_pairs, needed=needed[design.min_pairs - 1])
    return replace(design, max_pairs=sum(restarts <= budget.limit for restarts in needed))


def _restarts_by_pair(a: Configuration, b: Configuration, pairs: int, *, facts: Facts, seed: int) -> list[int]:
    """Return how many restarts were made after each pair."""
    restarts, arms = Restarts(facts, always=False), {A: a, B: b}
    made = []
    for block in range(FIRST_BLOCK, FIRST_BLOCK + pairs):
        for arm in block_order((A, B), block, seed):
            restarts.replay(arms[arm])
        made.append(restarts.used)
    return made


def _too_small(
    budget: RestartBudget, a: Configuration, b: Configuration, *, facts: Facts, pairs: int, needed: int
) -> UsageError:
    differing = sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n) and needs_restart(n, facts))
    common = sorted(n for n in a.keys() & b.keys() if a[n] == b[n] and needs_restart(n, facts))
    knobs, where = (differing, "A and B differ in it") if differing else (common, "both A and B set it")
    needs = "needs a restart" if len(knobs) == 1 else "need a restart"
    return UsageError(
        f"restart budget {budget} is too small: {pairs} pairs need {plural(needed, 'restart')}",
        detail=f"{', '.join(knobs)} {needs}, and {where.replace('it', 'it' if len(knobs) == 1 else 'them')}.",
        hint=f"Give --restarts {needed} or more, or leave {'it' if len(knobs) == 1 else 'them'} out of the files.",
    )


def ab_result(laboratory: Laboratory, comparison: Comparison, blocks: Blocks) -> AbResult:
    """Return the result that `experiment --ab --json` prints; A stands as `baseline` and B as `winner`."""
    trials = laboratory.store.trials(laboratory.study.id)
    notes = (
        blocks.stopped_short,
        comparison.left_out,
        tighter_elsewhere(comparison, [trial for block in blocks.complete for trial in block.values()]),
        user_time(blocks.trials(A), blocks.trials(B), blocks.arms[B], (comparison.verdict, *comparison.others)),
    )
    return AbResult(
        **parts_of(laboratory),
        **compared(comparison, blocks, laboratory.facts),
        **inside(laboratory, blocks, A, B),
        notes=tuple(note for note in notes if note),
        refused=refusals(trials),
        beside_others=company_of(trials),
    )
