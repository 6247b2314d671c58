"""A/B: two configurations in interleaved, randomised pairs, until the verdict is final or the pairs are spent."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.model.configuration import Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric
from pgdyno.stats.sequential import Design, is_final
from pgdyno.studies.blocks import Blocks, run_blocks
from pgdyno.studies.judging import compare_arms, verdict_of
from pgdyno.studies.result import comparison_json, count_states, refused_json
from pgdyno.trial.laboratory import Laboratory

A, B = "A", "B"


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

    Equal configurations are compared as any others: an A/A run is how the method is checked on a machine.
    """

    def is_enough(blocks: Blocks) -> bool:
        verdict = verdict_of(blocks, A, B, metric, design)
        if verdict is None:
            return False
        announce(f"after {verdict.pairs} pairs: {verdict.sentence(B, A)}")
        return is_final(verdict, design)

    blocks = run_blocks(
        laboratory,
        {A: a, B: b},
        {A: Role.ARM, B: Role.ARM},
        seed=seed,
        first_block=1,
        max_blocks=design.max_pairs,
        is_enough=is_enough,
    )
    return compare_arms(blocks, A, B, metric, design), blocks


def ab_result(laboratory: Laboratory, comparison: Comparison, blocks: Blocks) -> dict[str, object]:
    """Return the result that `experiment --ab --json` prints; A stands as `baseline` and B as `winner`."""
    study = laboratory.study
    trials = laboratory.store.trials(study.id)
    return {
        "study": study.id,
        **comparison_json(comparison, blocks, laboratory.facts),
        "refused": refused_json(trials),
        "trials": count_states(trials),
        "environment": study.environment,
        "elapsed_s": laboratory.spent_s,
    }
