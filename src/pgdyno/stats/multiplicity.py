"""Several claims at once: intervals that hold for the whole family."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.stats.sequential import Design


def family_design(design: Design, claims: int) -> Design:
    """Return the design for each of `claims` effects whose intervals shall hold together (Bonferroni).

    All intervals cover their truths at once with the confidence of `design`, also when each effect is looked at after
    every pair: Holm's gain needs p-values at a fixed number of pairs. Raises UsageError for fewer than one claim.
    """
    if claims < 1:
        raise UsageError(f"a family of {claims} claims is not possible")
    return replace(design, confidence=1 - (1 - design.confidence) / claims)
