"""The comparisons of a search on a live server, and its person's answers: what was heard before a kill comes first.

Its time is that of the search itself: what is not recorded, such as a computation, and the time between a kill and the
resumption do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from pgdyno.model.configuration import Configuration
from pgdyno.model.results.parts import PlanChange
from pgdyno.stats.body_index import StatementReference
from pgdyno.stats.period_choice import SWITCH_S
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.candidates import Proposal, Reply
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.plan_flips import PlanFlips
from pgdyno.studies.live.search_recording import Answered, DuelBegun, DuelEnded, Rested, SearchBegun, SearchRecording
from pgdyno.studies.live.switchback import Switchback
from pgdyno.studies.live.world import A, B, LiveWorld


class SearchWorld(LiveWorld, Protocol):
    """A server that many comparisons are made on; `ends_at` is when the one at hand is over, by the clock.

    It has waited for `waited_s` in all, which is not of the search's time.
    """

    arms: Mapping[str, Configuration]
    ends_at: float
    waited_s: float


@dataclass(slots=True)
class SearchDuels:
    """See `search.Duels`. `open_world` begins the undo session, with the first comparison that is really made."""

    recording: SearchRecording
    reference: StatementReference
    period_s: float
    seed: int
    guard_rest_s: float
    open_world: Callable[[], SearchWorld]
    announce: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    wash_s: float | None = None
    flips: PlanFlips | None = None
    _world: SearchWorld | None = None
    _compared: int = 0
    _zero: float | None = None
    """When the search would have begun by the clock, had it not been ended in between."""

    @property
    def pair_s(self) -> float:
        """Return how long a pair takes."""
        return 2 * (self.period_s + SWITCH_S)

    @property
    def is_recalling(self) -> bool:
        """Return whether what comes next was heard before."""
        return self.recording.is_recalling

    def begin(self, left_s: float) -> float:
        """Return how many seconds the search has: so many, unless it was begun before."""
        heard = self.recording.recall(SearchBegun)
        if isinstance(heard, SearchBegun):
            return heard.left_s
        self._hear(SearchBegun(left_s))
        return left_s

    def now(self) -> float:
        """Return when the search last heard something."""
        return self.recording.at

    def answer(self, proposal: Proposal, ask: Callable[[Proposal], Reply]) -> Reply:
        """Return what the person says, or said before."""
        heard = self.recording.recall(Answered)
        if isinstance(heard, Answered):
            self.recording.require(heard.proposed == dict(proposal.settings))
            return heard.reply
        reply = ask(proposal)
        self._hear(Answered.of(proposal, reply))
        return reply

    def rest(self) -> None:
        """Leave the server alone for as long as after a guard's breach; after a kill it was alone."""
        if self.recording.recall(Rested) is None:
            if self._world is not None:
                self._world.rest(self.guard_rest_s)
            self._hear(Rested())

    def compare(
        self,
        a: Configuration,
        b: Configuration,
        design: Design,
        until_s: float,
        enough: Callable[[Sequence[float]], bool] | None = None,
    ) -> LiveOutcome:
        """Compare two configurations, or say what came of it before; one that was cut off goes on from its pairs."""
        self._compared += 1
        wanted, pairs = DuelBegun(dict(a), dict(b)), self.recording.pairs(self._compared)
        begun = self.recording.recall(DuelBegun)
        self.recording.require(begun in (None, wanted))
        recorded = pairs.recorded(self.reference.calls.size) if begun else []
        ended = self.recording.recall(DuelEnded)
        plans: tuple[PlanChange, ...] = ()
        if self.flips is not None:
            plans = ended.plans if isinstance(ended, DuelEnded) else self.flips.between(a, b)
        critical = self.flips.critical(plans) if self.flips is not None else ()

        def duel(world: LiveWorld, period_s: float) -> Switchback:
            return Switchback(
                world, self.reference, period_s, design, self.seed + self._compared, announce=self.announce,
                guard_rest_s=self.guard_rest_s, most_stops=1, enough=enough, recorded=recorded, recording=pairs,
                stops=pairs.stops() if begun else (),
                wash_s=self.wash_s, plans=plans, critical=critical,
            )  # fmt: skip

        if isinstance(ended, DuelEnded):
            nothing = cast(LiveWorld, None)  # there is nothing left to be done on a server
            return replace(
                duel(nothing, ended.period_s).recalled(ended.ending),
                lost=ended.lost, breaches=ended.breaches, wash_s=ended.wash_s, stopped=ended.stopped,
                is_asked=ended.is_asked,
            )  # fmt: skip
        zero = self._since(len(recorded) * self.pair_s)
        if begun is None:
            self._hear(wanted)
        if self._world is None:
            self._world = self.open_world()
        self._world.arms, self._world.ends_at = {A: a, B: b}, zero + until_s
        waited_s = self._world.waited_s
        outcome = duel(self._world, self.period_s).run()
        self._zero = zero + self._world.waited_s - waited_s
        self._hear(DuelEnded.of(outcome))
        return outcome

    def _hear(self, event: SearchBegun | Answered | DuelBegun | DuelEnded | Rested) -> None:
        self.recording.keep(event, self.clock() - self._since(0.0))

    def _since(self, spent_s: float) -> float:
        if self._zero is None:
            self._zero = self.clock() - self.recording.at - spent_s
        return self._zero
