"""Pruning: find the smallest set of settings that keeps the gain.

Groups of settings are taken back to the baseline together, least important first; a group whose removal costs
nothing measurable is dropped, one that costs is halved until the settings that matter stand alone. With m settings
that matter among n this takes about m log2(n) comparisons, where trying each alone takes n and is fooled by settings
that stand in for each other: there each alone seems dispensable, and dropping both loses the gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.model.configuration import Configuration

FIRST_KEPT = 2
"""The first group to go is everything but the settings that the model holds for the most important."""


def prune(
    winner: Configuration,
    least_important_first: Sequence[str],
    costs_nothing: Callable[[Configuration, Configuration], bool],
) -> Configuration:
    """Return `winner` without the settings that `costs_nothing(kept, reduced)` lets go.

    `costs_nothing` compares by measurement and is called only with a reduced configuration that is not empty: that
    the last setting matters is what the proof against the baseline shows.
    """
    order = list(least_important_first)
    queue: list[list[str]] = [order[:-FIRST_KEPT]] if len(order) > FIRST_KEPT else []
    queue += [[name] for name in order[-FIRST_KEPT:]]
    kept = winner
    while queue:
        group = queue.pop(0)
        reduced = kept.without(*group)
        if not reduced:
            if len(group) == 1:
                continue
        elif costs_nothing(kept, reduced):
            kept = reduced
            continue
        if len(group) > 1:
            half = len(group) // 2
            queue[:0] = [group[:half], group[half:]]
    return kept
