"""What a bundle of settings that need a restart could show on a live load, in how many restarts and how long. Pure.

Each switch is an outage, and a cold cache for both arms: periods are long, few, and spread over maintenance windows, in
the order A B, B A, which restarts once a pair and once more after an odd number of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.stats.detect import detectable
from pgdyno.stats.sequential import Design

PERIOD_S, COLD_S = 1800.0, 600.0
"""Of a period so much is left out, until what was cached is cached again."""
USUAL_SD = 0.08
"""How a pair of such periods scatters on simulated loads; no reference is long enough to show it."""
FEWEST_PAIRS = 3
PAIRS = (3, 4, 5, 6, 8, 12)
"""Of fewer nothing is ever claimed."""


@dataclass(frozen=True, slots=True)
class RestartPairs:
    """So many pairs of the bundle against the server as it is: restarts, seconds, and the smallest effect shown.

    `effect` is a ratio distance, None where nothing below a doubling is shown.
    """

    pairs: int
    restarts: int
    seconds: float
    effect: float | None

    def windows(self, window_s: float) -> int:
        """Return in how many maintenance windows of this length they fit, a pair never being cut in two."""
        each = int(window_s // (2 * PERIOD_S))
        return 0 if each == 0 else -(-self.pairs // each)


def restarts_of(pairs: int) -> int:
    """Return how often the server is restarted for so many pairs, the way back included."""
    return pairs + pairs % 2


def restart_pairs(scatters: Sequence[float | None], design: Design) -> tuple[RestartPairs, ...]:
    """Return what pairs show; `scatters` are those of pairs of the reference's periods, the longest last.

    A pair is taken to scatter as usual, or as the longest periods that were seen where that is more.
    """
    known = [one for one in scatters if one is not None]
    sd = max(USUAL_SD, known[-1] if known else 0.0)
    return tuple(
        RestartPairs(pairs, restarts_of(pairs), 2 * PERIOD_S * pairs, detectable(sd, pairs, design)) for pairs in PAIRS
    )
