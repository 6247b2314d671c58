"""The search of a live study: candidates by two to four pairs each, finalists by fresh pairs, the leanest that holds.

Each candidate is compared with the server as it is in neighbouring periods, so that drift is no candidate's merit. Two
pairs say little: the optimiser takes them as the noisy figures that they are, and nothing is claimed of them. A claim
is made for finalists alone, each by pairs of its own, at a confidence that is shared among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pgdyno.knobs.constraints import check
from pgdyno.knobs.dimension import Value
from pgdyno.knobs.memory import AMOUNTS, demand
from pgdyno.knobs.space import SearchSpace, configuration_to_point, point_to_configuration
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.results.live import LiveCandidate
from pgdyno.model.verdict import Verdict
from pgdyno.optimizer.ask import Suggestion, ask
from pgdyno.optimizer.frugal import reduce
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.optimizer.rank import rank
from pgdyno.optimizer.stopping import should_stop
from pgdyno.report.wording import settings_text
from pgdyno.stats.noninferiority import costs_nothing
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.candidates import (
    EDITED,
    LOST,
    MEASURED,
    REJECTED,
    Proposal,
    Reply,
    candidate_of,
    is_near,
    step_towards,
    told,
)
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.world import LiveStopped, StopAsked
from pgdyno.trial.live_cycle import STUDY_STOPS, LiveEnding
from pgdyno.trial.sentry import GuardBreached
from pgdyno.units import digits_text

FEWEST, MOST = 2, 4
"""Pairs of a candidate: the third and the fourth only where it may be the best."""
INITIAL = 8
"""Points before the model leads."""
FINALISTS = 3
MOST_SETTINGS = 5
NOT_SLOWER = 0.03
"""A leaner finalist is taken for the best one when it is proved to be no slower than by this."""
EFFECT_PAIRS = 8
"""So many pairs at most show what one setting of the winner does."""
SEARCH_SHARE = 0.5
"""Of the time after the reference: what is left is for the finalists."""
SCREEN = Design(min_pairs=MOST, max_pairs=MOST)

_ENDED = {LiveEnding.STOPPED, LiveEnding.TOO_MANY_VOID, LiveEnding.LEFT_TO_WATCHDOG, LiveEnding.INTERRUPTED}

Point = Mapping[str, Value]


class Duels(Protocol):
    """The server, as a search needs it: B against A until `until_s` at most, and the time."""

    def compare(
        self,
        a: Configuration,
        b: Configuration,
        design: Design,
        until_s: float,
        enough: Callable[[Sequence[float]], bool] | None = None,
    ) -> LiveOutcome:
        """Compare `b` with `a` by `design` until `now` is `until_s` at most; the baseline is in force before and after.

        `enough` says by the ratios of the pairs so far, B over A, that no more are needed; None leaves it to `design`.
        """

    def rest(self) -> None:
        """Leave the server alone for as long as after a guard's breach. Raises what ends the study meanwhile."""

    def now(self) -> float:
        """Return the time that `until_s` counts in."""


@dataclass(slots=True)
class LiveSearcher:
    """A search in progress. `pair_sd` is the scatter of a pair in the reference, `ends_at` the end of the time.

    `pair_s` is how long a pair takes. `decide` asks the person, `announce` tells, `hear` has what there is so far.
    """

    duels: Duels
    space: SearchSpace
    facts: Facts
    connections: int
    starts: tuple[Point, ...]
    design: Design
    seed: int
    candidates: int
    pair_sd: float
    pair_s: float
    ends_at: float
    decide: Callable[[Proposal], Reply]
    announce: Callable[[str], None]
    hear: Callable[[], None]
    tried: list[LiveCandidate] = field(default_factory=list)
    pairs: list[tuple[Configuration, tuple[float, ...]]] = field(default_factory=list)
    """ln(B/A) of each pair, by candidate."""
    finals: list[tuple[Configuration, LiveOutcome]] = field(default_factory=list)
    effects: list[tuple[str, Verdict]] = field(default_factory=list)
    chosen: int | None = None
    stopped: str = ""
    notes: list[str] = field(default_factory=list)
    is_over: bool = False
    """The study has to end: no finalist is measured any more."""
    is_restored: bool = False
    _stops: int = 0
    _dead: list[Configuration] = field(default_factory=list)
    _edited: list[Configuration] = field(default_factory=list)
    _promises: list[float | None] = field(default_factory=list)

    def run(self) -> None:
        """Try candidates, confirm the best, choose one and see what its settings do, as far as the time goes."""
        search_ends_at = self.duels.now() + SEARCH_SHARE * (self.ends_at - self.duels.now())
        while not self.stopped:
            self.stopped = self._reason_to_stop(search_ends_at)
            if not self.stopped:
                self._try_next(search_ends_at)
        self.announce(f"no more candidates: {self.stopped}")
        if not self.is_over:
            self._confirm()
        if not self.is_over and self.finals:
            self._choose()

    def _reason_to_stop(self, search_ends_at: float) -> str:
        if len(self.tried) >= self.candidates:
            return f"all {self.candidates} were tried"
        if self.duels.now() + FEWEST * self.pair_s > search_ends_at:
            return "the remaining time is for the finalists"
        return should_stop(self._promises, self.pair_sd / math.sqrt(FEWEST)) or ""

    def _try_next(self, search_ends_at: float) -> None:
        suggestion = self._ask()
        if suggestion.repeats:
            self.stopped = "every configuration within reach was tried"
            return
        number = len(self.tried) + 1
        proposed = point_to_configuration(self.space, suggestion.point)
        answer = self.decide(Proposal(number, self.candidates, proposed, suggestion.origin, self._learnt()))
        if answer.ends:
            self.stopped = "it was stopped by hand"
            return
        if answer.settings is None:
            self._keep(LiveCandidate(number=number, settings=dict(proposed), origin=suggestion.origin, fate=REJECTED))
            return
        self._promises.append(suggestion.log_expected_improvement)
        origin = suggestion.origin if answer.settings == proposed else EDITED
        if origin == EDITED:
            self._edited.append(proposed)  # turned down as it was: it does not come again
        outcome = self.duels.compare(BASELINE, answer.settings, SCREEN, search_ends_at, self._is_enough)
        self._heed(outcome, answer.settings)
        if answer.settings not in self._dead:
            self.pairs.append((answer.settings, tuple(pair.log_ratio for pair in outcome.pairs)))
        memory = round(self.memory(answer.settings))
        self._keep(candidate_of(number, answer.settings, origin, outcome, pair_sd=self.pair_sd, memory_bytes=memory))

    def _ask(self) -> Suggestion:
        rejected = (Configuration.of(one.settings) for one in self.tried if one.fate in (REJECTED, LOST))
        return ask(
            self.space.dimensions,
            self.history(),
            starts=[self._nearer(point) for point in self.starts],
            skipped=[self._point(one) for one in (*self._edited, *rejected)],
            seed=self.seed,
            feasible=self._is_within_reach(),
            initial=INITIAL,
        )

    def history(self) -> list[ScoredPoint]:
        """Return what the optimiser learns from: every pair, and the candidates that no figure may be had of."""
        found = [ScoredPoint(self.space.default_point(), 0.0)]
        found += [ScoredPoint(self._point(one), -ratio) for one, ratios in self.pairs for ratio in ratios]
        return found + [ScoredPoint(self._point(one), None) for one in self._dead]

    def _fits(self, point: Point) -> bool:
        """Tell whether memory and constraints hold for a point."""
        settings = point_to_configuration(self.space, point)
        return check(settings, self.facts, connections=self.connections) is None

    def _is_within_reach(self) -> Callable[[Point], bool]:
        """Return what tells whether a point fits, and lies a step from the server as it is or from the best so far."""
        dimensions, best = self.space.dimensions, self._point(self._best()[1])

        def is_possible(point: Point) -> bool:
            near = all(
                is_near(one, point[one.name], one.default) or is_near(one, point[one.name], best[one.name])
                for one in dimensions
            )
            return near and self._fits(point)

        return is_possible

    def _nearer(self, point: Point) -> Point:
        """Return a starting point that is no further away than one step."""
        return {one.name: step_towards(one, point.get(one.name, one.default)) for one in self.space.dimensions}

    def _point(self, settings: Configuration) -> Point:
        return configuration_to_point(self.space, settings, self.facts)

    def _best(self) -> tuple[float, Configuration]:
        """Return the largest gain so far, in ln, and whose it is; 0 and the baseline where none is better."""
        gains = [(-sum(ratios) / len(ratios), one) for one, ratios in self.pairs if ratios]
        return max([(0.0, BASELINE), *gains], key=lambda each: each[0])

    def _is_enough(self, ratios: Sequence[float]) -> bool:
        """Tell whether a candidate needs no further pair: after two, unless it may be the best so far."""
        if len(ratios) < FEWEST or len(ratios) >= MOST:
            return len(ratios) >= MOST
        gain = -sum(map(math.log, ratios)) / len(ratios)
        reach = self.pair_sd / math.sqrt(len(ratios))
        return gain <= 0 or gain + reach < self._best()[0]

    def memory(self, settings: Configuration) -> float:
        """Return the bytes that a configuration can demand at worst."""
        return demand(settings, self.facts, connections=self.connections).total

    def _keep(self, one: LiveCandidate) -> None:
        self.tried.append(one)
        self.announce(f"candidate {one.number} of {self.candidates}: {told(one)}")
        self.hear()

    def _heed(self, outcome: LiveOutcome, settings: Configuration) -> None:
        """Draw the consequences for the rest of the study of how a comparison ended."""
        if outcome.breaches or outcome.vetoed or outcome.ending is LiveEnding.NOT_IN_FORCE:
            self._dead.append(settings)
        self._stops += len(outcome.breaches)
        if outcome.ending in _ENDED:
            self.stopped = outcome.stopped or f"the comparison ended: {outcome.ending}"
            self.is_over, self.is_restored = True, not outcome.is_asked
        elif outcome.ending is LiveEnding.TOO_MANY_STOPS or self._stops >= STUDY_STOPS:
            self.stopped = f"guards stopped {self._stops} times"
            self.is_over = self.is_restored = True
        elif outcome.breaches:
            try:
                self.duels.rest()
            except (LiveStopped, GuardBreached) as error:
                self.stopped, self.is_over, self.is_restored = str(error), True, not isinstance(error, StopAsked)

    def _learnt(self) -> str:
        if not self.tried:
            return "nothing yet"
        best, _ = self._best()
        said = f"{len(self.tried)} tried"
        return f"{said}; the best took {digits_text(100 * (1 - math.exp(-best)), 2)} % less time" if best > 0 else said

    def _confirm(self) -> None:
        """Compare finalists with the baseline, one after the other: the model learns from each before the next.

        Each has a share of the time that is left, and of the error.
        """
        confidence = 1 - (1 - self.design.confidence) / FINALISTS
        design = replace(self.design, confidence=confidence)
        rejected: list[Configuration] = []
        for place in range(FINALISTS):
            settings = self._next_finalist(rejected)
            if self.is_over or settings is None:
                break
            until_s = self.duels.now() + (self.ends_at - self.duels.now()) / (FINALISTS - place)
            if all(dict(settings) != one.settings or one.fate != MEASURED for one in self.tried):
                reply = self.decide(
                    Proposal(place + 1, FINALISTS, settings, "fewest settings", self._learnt(), is_final=True)
                )
                if reply.ends:
                    self.stopped, self.is_over = "it was stopped by hand", True
                    return
                if reply.settings != settings:
                    rejected.append(settings)  # as it was, where it was edited: it does not come again
                if reply.settings is None:
                    self.notes.append(f"a finalist was rejected: {settings_text(settings)}")
                    continue
                settings = reply.settings
            words = f"finalist {place + 1} of {FINALISTS} at most: {settings_text(settings)}"
            self.announce(f"{words}; fresh pairs against the server as it is")
            outcome = self.duels.compare(BASELINE, settings, design, until_s)
            self.finals.append((settings, outcome))
            self._heed(outcome, settings)
            if settings not in self._dead:
                self.pairs.append((settings, tuple(pair.log_ratio for pair in outcome.pairs)))
            self.hear()
        if not self.finals and not rejected and not self.is_over:
            self.notes.append("no candidate looked better, so none was confirmed")

    def _next_finalist(self, rejected: Sequence[Configuration]) -> Configuration | None:
        """Return the best by the model's posterior mean, cut down to the settings that the model gives a part.

        None where nothing else promises anything, or clearly more than a finalist that held.
        """
        history = self.history()
        seen = [*(one for one, _ in self.finals), *rejected, *self._dead]
        held = [
            outcome.verdict.interval.ratio for _, outcome in self.finals if outcome.is_acceptable and outcome.verdict
        ]
        least = 0.0 if not held else -math.log(min(held)) + math.log1p(NOT_SLOWER)
        for one in rank(self.space.dimensions, history, seed=self.seed):
            settings = point_to_configuration(self.space, one.point)
            if not settings or settings in self._dead or one.mean <= least:
                continue
            lean = reduce(
                self.space.dimensions, history, one.point,
                noise_sd=self.pair_sd, most=MOST_SETTINGS, tolerance=None, is_possible=self._fits,
                amounts={name: math.inf for name in AMOUNTS if name in settings},
            )  # fmt: skip
            for found in (point_to_configuration(self.space, lean.point), settings):
                if found and found not in seen:
                    return found
        return None

    def _choose(self) -> None:
        """Offer the finalist with the least time, or a leaner one that is proved to be hardly slower."""
        ratio = {
            place: outcome.verdict.interval.ratio
            for place, (_, outcome) in enumerate(self.finals)
            if outcome.is_acceptable and outcome.verdict is not None
        }
        if not ratio:
            return
        best = min(ratio, key=lambda place: ratio[place])
        self.chosen = best
        memory = {place: self.memory(self.finals[place][0]) for place in ratio}
        for lean in sorted((place for place in ratio if memory[place] < memory[best]), key=lambda place: memory[place]):
            if self._is_as_good(lean, best):
                self.chosen = lean
                break
        self.hear()
        self._explain(self.finals[self.chosen][0])

    def _is_as_good(self, lean: int, best: int) -> bool:
        a, b = self.finals[best][0], self.finals[lean][0]
        design = replace(self.design, smallest_effect=NOT_SLOWER)
        outcome = self._fresh(a, b, design)
        if outcome is None or outcome.verdict is None:
            return False
        ratios = [math.exp(pair.log_ratio) for pair in outcome.pairs]
        found = costs_nothing(ratios, [1.0] * len(ratios), design=design, metric=outcome.verdict.metric)
        saved = settings_text(b)
        if found.proven:
            self.notes.append(
                f"{saved} needs less memory and is no slower than by {100 * NOT_SLOWER:g} %: it is offered"
            )
        elif found.at_most is not None:
            self.notes.append(f"{saved} needs less memory; at most {100 * found.at_most:.1f} % slower, not proven")
        return found.proven

    def _explain(self, winner: Configuration) -> None:
        """See what each setting does beside the others, while there is time."""
        for name in winner if len(winner) > 1 else ():
            without = winner.without(name)
            if not self._fits(self._point(without)):
                continue
            if not self._may_leave_out(name, without):
                return
            design = Design(self.design.smallest_effect, self.design.confidence, 3, EFFECT_PAIRS)
            outcome = self._fresh(without, winner, design)
            if outcome is None:
                self.notes.append("the effects of single settings were not fully measured, for lack of time")
                return
            if outcome.verdict is not None:
                self.effects.append((name, outcome.verdict))
                self.announce(f"with {name} against without: {outcome.verdict.sentence('with it', 'without it')}")
                self.hear()

    def _may_leave_out(self, name: str, without: Configuration) -> bool:
        """Ask the person, unless they have approved just this before; a no is one to all that is left."""
        if any(settings == without for settings, _ in self.finals) or any(
            one.settings == dict(without) and one.fate == MEASURED for one in self.tried
        ):
            return True
        if self.is_over or self.duels.now() + 3 * self.pair_s > self.ends_at:
            return True  # nobody is asked for what does not come about
        number = len(self.effects) + 1
        origin = f"to see what {name} does"
        reply = self.decide(Proposal(number, len(without) + 1, without, origin, self._learnt(), True, name))
        if reply.settings == without:
            return True
        self.notes.append("the effects of single settings were not fully measured: a person did not want it")
        return False

    def _fresh(self, a: Configuration, b: Configuration, design: Design) -> LiveOutcome | None:
        """Compare two configurations; None where there is no time for it, or the study has to end."""
        if self.is_over or self.duels.now() + 3 * self.pair_s > self.ends_at:
            return None
        outcome = self.duels.compare(a, b, design, self.ends_at)
        self._heed(outcome, b)
        return None if self.is_over else outcome
