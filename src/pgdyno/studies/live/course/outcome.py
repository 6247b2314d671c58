"""What a comparison on a live load came to: the pairs that were judged, what was lost, and what speaks against B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.model.guard import Breach
from pgdyno.model.results.live import LiveSecond
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.verdict import Interval, Verdict, Word
from pgdyno.stats.body_index import LEAST_COVERED, PairIndex, PeriodCounts, StatementBody
from pgdyno.stats.veto import Slower, VetoState
from pgdyno.trial.live_cycle import LiveEnding

WORST_TAIL = 1.25
"""What is not in the body may look slower by this much, and no more."""


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """What a study came to. `pairs` are those that were judged, in their order; `lost` counts the others by cause.

    `vetoed` has how much slower a statement became that is too slow, by its number, `vanished` are those that hardly
    ran any more under B, `second` is what the server did beside; `breaches` are the guards that tripped. `kept` are the
    periods of the pairs, A's and B's, `orders` the arms that came first, `running` the verdict's interval after each
    pair, None before its first look. `stopped` says why it was ended from outside, or could not go on;
    `is_asked` that a person wanted that.
    """

    ending: LiveEnding
    verdict: Verdict | None
    pairs: tuple[PairIndex, ...]
    lost: Mapping[str, int]
    tail: Interval | None
    vetoed: Mapping[int, Slower]
    vanished: tuple[int, ...]
    breaches: tuple[Breach, ...]
    period_s: float
    wash_s: float
    body: StatementBody
    veto: VetoState
    second: tuple[LiveSecond, ...] = ()
    kept: tuple[tuple[PeriodCounts, PeriodCounts], ...] = ()
    orders: tuple[str, ...] = ()
    stopped: str = ""
    is_asked: bool = False
    plans: tuple[PlanChange, ...] = ()
    running: tuple[Interval | None, ...] = ()

    @property
    def covered(self) -> float:
        """Return the share of the statements' time that the body holds."""
        return self.body.covered

    @property
    def is_acceptable(self) -> bool:
        """Return whether B may be offered: better for enough of the time, and nothing else is shown to be worse."""
        better = self.verdict is not None and self.verdict.word is Word.BETTER
        tail_is_worse = self.tail is not None and self.tail.lo > WORST_TAIL
        harmed = bool(self.vetoed or self.vanished or self.breaches) or any(one.is_worse for one in self.second)
        return better and self.covered >= LEAST_COVERED and not harmed and not tail_is_worse
