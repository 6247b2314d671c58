"""Pruning: find the smallest set of settings that keeps the gain.

Groups of settings are taken back to the baseline together, least important first; a group whose removal costs
nothing measurable is dropped, one that costs is halved until the settings that matter stand alone. With m settings
that matter among n this takes about m log2(n) comparisons, where trying each alone takes n and is fooled by settings
that stand in for each other: there each alone seems dispensable, and dropping both loses the gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pgdyno.model.configuration import Configuration

FIRST_KEPT = 2
"""The first group to go is everything but the settings that the model holds for the most important: at least two."""
RESPONSIBLE_SHARE = 0.8
"""They are as many as the model needs to explain this share of the gain. Two were too few where it gave a setting that
went along with shared_buffers in most good trials the greater part: the first question, and with it most of the time
for pruning, was then lost."""


def count_responsible(losses: Mapping[str, float]) -> int:
    """Return how many of the most important settings make up `RESPONSIBLE_SHARE` of the expected losses."""
    expected = sorted((loss for loss in losses.values() if loss > 0), reverse=True)
    explained = 0.0
    for count, loss in enumerate(expected, 1):
        explained += loss
        if explained >= RESPONSIBLE_SHARE * sum(expected):
            return max(FIRST_KEPT, count)
    return FIRST_KEPT


def prune(
    winner: Configuration,
    least_important_first: Sequence[str],
    costs_nothing: Callable[[Configuration, Configuration], bool],
    *,
    first_kept: int = FIRST_KEPT,
) -> Configuration:
    """Return `winner` without the settings that `costs_nothing(kept, reduced)` lets go.

    The first group to go is everything but the `first_kept` most important ones.
    `costs_nothing` compares by measurement and is called only with a reduced configuration that is not empty: that
    the last setting matters is what the proof against the baseline shows.
    """
    order = list(least_important_first)
    queue: list[list[str]] = [order[:-first_kept]] if len(order) > first_kept else []
    queue += [[name] for name in order[-first_kept:]]
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
