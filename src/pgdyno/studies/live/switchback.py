"""Carry out the order of a live study: two configurations in neighbouring periods, until the rule has its answer.

`trial/live_cycle.py` says what comes next, a `LiveWorld` does it, and this module keeps the pairs and judges them: the
word comes from `stats.sequential` alone. A pair counts when both its periods were whole and were offered about the
same work; one that was void, broken off or unequal leaves nothing behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pgdyno.errors import ApplyError, PgdynoError, ServerStopped
from pgdyno.model.guard import Breach, GuardKind
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.verdict import Interval, Metric, Verdict
from pgdyno.stats.body_index import (
    MOST_NEW,
    PairIndex,
    PeriodCounts,
    StatementBody,
    StatementReference,
    body_of,
    pair_index,
    tail_ratio,
)
from pgdyno.stats.fade_in import fades_in
from pgdyno.stats.period_choice import wash_of
from pgdyno.stats.second_metrics import second_metrics
from pgdyno.stats.sequential import Design, is_final, judge
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.stats.veto import Slower, VetoState, vanished
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.recording import RecordedPair, Recording
from pgdyno.studies.live.windows import b_order
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped, LiveWorld, StopAsked
from pgdyno.studies.pairs.blocks import block_order
from pgdyno.trial.live_cycle import (
    CANDIDATE_STOPS,
    LiveEnding,
    LiveEvent,
    LiveOrder,
    LivePhase,
    LiveStep,
    begin,
    is_candidate_dead,
    step,
)
from pgdyno.trial.live_guards import OF_B
from pgdyno.trial.sentry import GuardBreached
from pgdyno.units import plural

LONGEST_S = 300.0
GUARD_REST_S = 600.0
"""After a guard the server is left alone for so long; after a veto, for one period."""
MOST_UNMATCHED = 6
"""So many pairs in a row whose offered work differed: the load follows the server, or is never the same."""
LATE_EFFECT = "the effect came late, and periods were lengthened"
UNMATCHED, NEW_STATEMENTS = "offered work differed", "more than 5 % of the time was in new statements"


@dataclass(slots=True)
class Switchback:
    """One study of A against B; `run` carries it out once. `announce` hears each verdict, `hear` what there is so far.

    After `most_stops` guard stops that are B's own it does not come again, and without another candidate the study is
    over; after one that is not, the server rests for `guard_rest_s` first. Statements that are `critical` are watched
    alone, between closer bounds. Where `enough` is given it says, by the ratios so far, whether a candidate needs no
    further pair, and nothing is told of verdicts. It goes on from the `recorded` pairs and from the `stops` of B by
    guards that were before them, and `recording` keeps each.
    `wash_s` stands for the usual wash-out of a period; `plans` are those of both arms, which the outcome tells.
    Where switches are restarts, `in_windows`, the order is A B, B A, and periods keep their length; `spent` says why no
    further pair may come, empty where one may.
    """

    world: LiveWorld
    reference: StatementReference
    period_s: float
    design: Design
    seed: int
    announce: Callable[[str], None] = lambda _text: None
    hear: Callable[[LiveOutcome], None] = lambda _outcome: None
    guard_rest_s: float = GUARD_REST_S
    most_stops: int = CANDIDATE_STOPS
    critical: Sequence[int] = ()
    enough: Callable[[Sequence[float]], bool] | None = None
    recorded: Sequence[RecordedPair] = ()
    stops: Sequence[Breach] = ()
    recording: Recording | None = None
    wash_s: float | None = None
    plans: tuple[PlanChange, ...] = ()
    in_windows: bool = False
    spent: str = ""
    _least_wash_s: float = 0.0
    _drawn: int = 0
    _dead: bool = False
    _order: Sequence[str] = ()
    _counted: dict[str, PeriodCounts] = field(default_factory=dict)
    _pairs: list[PairIndex] = field(default_factory=list)
    _kept: list[tuple[PeriodCounts, PeriodCounts]] = field(default_factory=list)
    _orders: list[str] = field(default_factory=list)
    _unequal: list[tuple[PeriodCounts, PeriodCounts]] = field(default_factory=list)
    """Pairs that were not matched: a statement that is cancelled under B makes them so."""
    _work: list[float] = field(default_factory=list)
    """ln(B/A) of the offered work of the pairs since the last one that matched."""
    _stopped: str = ""
    _is_asked: bool = False
    _lost: Counter[str] = field(default_factory=Counter)
    _breaches: list[Breach] = field(default_factory=list)
    _unkept: list[Breach] = field(default_factory=list)
    """Stops of B that are kept when the baseline is back: nothing comes before that."""
    _vetoed: dict[int, Slower] = field(default_factory=dict)
    _veto: VetoState | None = None
    _body: StatementBody | None = None

    def run(self) -> LiveOutcome:
        """Run pairs until the study is over; the server is restored on every way out, an exception included."""
        self._go_on()
        stops = len(self.stops)
        checking = replace(begin().cycle, most_stops=self.most_stops, candidate_stops=stops, stops=stops)
        at = step(step(checking, LiveEvent.CHECKS_HOLD).cycle, LiveEvent.LENGTH_FOUND)
        try:
            while at.cycle.phase is not LivePhase.OVER:
                at = step(at.cycle, self._carry_out(at))
        except BaseException:
            at = step(at.cycle, LiveEvent.INTERRUPTED)
            self._finish(at)
            self.hear(self.outcome(LiveEnding.INTERRUPTED))
            raise
        self._finish(at)
        assert at.cycle.ending is not None, "what is over has ended somehow"
        return self.outcome(at.cycle.ending)

    def recalled(self, ending: LiveEnding) -> LiveOutcome:
        """Return what came of a comparison that has ended so, by its recorded pairs alone."""
        self._go_on()
        return self.outcome(ending)

    def _go_on(self) -> None:
        if self.recorded:
            self.period_s, self._least_wash_s = self.recorded[-1].period_s, self.recorded[-1].wash_s
        self._begin_verdict()
        for pair in self.recorded:
            self._take(pair)
        self._breaches = list(self.stops)
        self._drawn, self._dead = len(self.recorded), bool(self._vetoed) or len(self.stops) >= self.most_stops

    def _finish(self, at: LiveStep) -> None:
        if LiveOrder.PUT_BACK in at.orders:
            self.world.put_back()
        self._keep_stops()

    def _carry_out(self, at: LiveStep) -> LiveEvent:
        """Do what was ordered and return what came of the last of it, or of the first that failed."""
        event: LiveEvent | None = None
        for order in at.orders:
            try:
                event = self._do(order, at) or event
            except GuardBreached as error:
                blamed = self._blamed(error.breach, at)
                self._breaches.append(error.breach)
                self._unkept += [error.breach] if blamed is LiveEvent.BREACH else []
                self.announce(str(error.breach))
                return blamed
            except LiveStopped as error:
                self._stopped, self._is_asked = error.message, isinstance(error, StopAsked)
                self.announce(error.message)
                return LiveEvent.NOTHING_LEFT if order is LiveOrder.PLAN else LiveEvent.STOPPED
            if event in (LiveEvent.NOT_IN_FORCE, LiveEvent.BASELINE_LOST):
                return event
        assert event is not None, "the last order always has an answer"
        return event

    def _blamed(self, breach: Breach, at: LiveStep) -> LiveEvent:
        if at.cycle.phase in (LivePhase.REVERTING, LivePhase.RESTING, LivePhase.DECIDED):
            return LiveEvent.STOPPED  # it goes on in the baseline itself: nothing of ours can help
        arm = self._order[at.cycle.period] if self._order else BASELINE_ARM
        outside = (arm != B and breach.name not in OF_B) or breach.kind is GuardKind.ENVIRONMENT
        return LiveEvent.BREACH_OUTSIDE if outside else LiveEvent.BREACH

    def _do(self, order: LiveOrder, at: LiveStep) -> LiveEvent | None:
        match order:
            case LiveOrder.PLAN:
                return self._plan()
            case LiveOrder.APPLY_ARM:
                return self._apply(self._order[at.cycle.period], LiveEvent.IN_FORCE, LiveEvent.NOT_IN_FORCE)
            case LiveOrder.WASH:
                clean = self.world.wash(self._wash_s, max(self._wash_s, self.period_s / 3))
                return LiveEvent.CLEAN if clean else LiveEvent.CROSSED
            case LiveOrder.COUNT:
                return self._count(self._order[at.cycle.period])
            case LiveOrder.JUDGE:
                return self._judge()
            case LiveOrder.DROP_PAIR:
                self._counted = {}
            case LiveOrder.LENGTHEN if not self.in_windows:
                self.period_s = max(self.period_s, min(LONGEST_S, 2 * self.period_s))
                self._begin_verdict()
                if self.recording is not None:
                    self.recording.forget()
            case LiveOrder.APPLY_BASELINE:
                return self._apply(BASELINE_ARM, LiveEvent.BASELINE_IN_FORCE, LiveEvent.BASELINE_LOST)
            case LiveOrder.KEEP_EVIDENCE:
                self._keep_stops()
                self.hear(self.outcome(LiveEnding.INTERRUPTED))  # what there is if nothing comes after it
            case LiveOrder.REST:
                self._dead = is_candidate_dead(at.cycle)
                if not self._dead:  # there is no other candidate to rest for
                    self.world.rest(self.guard_rest_s)
                return LiveEvent.RESTED
            case LiveOrder.ASK_PERSON:
                return LiveEvent.ANSWERED  # nobody asks in a study of two arms: the baseline stays
            case _:  # the rest is done before the first pair, or after the last
                pass
        return None

    def _keep_stops(self) -> None:
        for breach in self._unkept if self.recording is not None else ():
            assert self.recording is not None, "it is there"
            self.recording.keep_stop(breach)
        self._unkept = []

    @property
    def _wash_s(self) -> float:
        usual_s = wash_of(self.period_s) if self.wash_s is None else self.wash_s
        return max(usual_s, min(self._least_wash_s, self.period_s / 3))

    def _begin_verdict(self) -> None:
        """Begin the verdict again: pairs of another length do not belong together."""
        counted_s = self.period_s - self._wash_s
        self._body = body_of(self.reference, counted_s)
        self._veto = VetoState.begin(self.reference, counted_s, self.critical)
        self._pairs, self._kept, self._orders, self._counted, self._unequal = [], [], [], {}, []

    def _plan(self) -> LiveEvent:
        if len(self._work) >= MOST_UNMATCHED:
            share, pairs = math.exp(sum(self._work) / len(self._work)), len(self._work)
            self._stopped = (
                f"{pairs} pairs in a row were offered unequal work: under B {100 * share:.0f} % of that under A"
            )
            if gone := self._vanished():
                self._stopped += f"; {plural(len(gone), 'statement')} hardly ended under B"
            return LiveEvent.NOTHING_LEFT
        if self._dead or len(self._pairs) >= self.design.max_pairs:
            return LiveEvent.NOTHING_LEFT
        if self.spent:  # before the next window is waited for
            self._stopped = self.spent
            self.announce(self.spent)
            return LiveEvent.NOTHING_LEFT
        if not self.world.has_room(2 * self.period_s):
            return LiveEvent.NOTHING_LEFT
        self._drawn += 1
        self._order, self._counted = block_order((A, B), self._drawn, self.seed), {}
        if self.in_windows:
            self._order = [B if is_b else A for is_b in b_order(self._drawn - 1)]
        return LiveEvent.PLANNED_PAIR

    def _apply(self, arm: str, done: LiveEvent, failed: LiveEvent) -> LiveEvent:
        try:
            self.world.apply(arm)
        except ServerStopped as error:  # by somebody else, who may be about to start it again: theirs to end
            raise LiveStopped(error.message, detail=error.detail, hint=error.hint) from error
        except ApplyError as error:
            self._stopped = error.message
            self.announce(error.message)
            return failed
        except PgdynoError as error:
            if arm != BASELINE_ARM or isinstance(error, GuardBreached | LiveStopped):
                raise
            self._stopped = error.message
            return failed
        return done

    def _count(self, arm: str) -> LiveEvent:
        found = self.world.count(self.period_s - self._wash_s)
        if isinstance(found, VoidCause) or found.new_share > MOST_NEW:
            self._lost[found.value if isinstance(found, VoidCause) else NEW_STATEMENTS] += 1
            return LiveEvent.VOID
        self._counted[arm] = found
        return LiveEvent.COUNTED

    def _judge(self) -> LiveEvent:
        assert self._body is not None, "it was made at the start"
        assert self._veto is not None, "it was made at the start"
        a, b = self._counted[A], self._counted[B]
        pair = pair_index(self._body, a, b)
        if pair is None or not pair.is_matched:
            self._lost[UNMATCHED] += 1
            self._work.append(0.0 if pair is None else pair.work_log_ratio)
            self._unequal.append((a, b))
            return LiveEvent.MORE_PAIRS
        self._work = []
        counted = RecordedPair(self._order[0], a, b, self.period_s, self._wash_s)
        self._take(counted)
        if self.recording is not None:
            self.recording.keep_pair(counted)
        if self._vetoed:
            return LiveEvent.VETO
        verdict = self._verdict()
        assert verdict is not None, "there is a pair"
        self.hear(self.outcome(LiveEnding.INTERRUPTED))  # what there is if nothing comes after it
        if self.enough is None:
            pairs = "pair" if verdict.pairs == 1 else "pairs"
            self.announce(f"after {verdict.pairs} {pairs}: {verdict.sentence(B, A)}")
        elif self.enough([math.exp(one.log_ratio) for one in self._pairs]):
            return LiveEvent.FINAL
        if not self.in_windows and self.period_s < LONGEST_S and self._fades_in():
            self.announce("the effect still grows while it is counted: periods and their wash-out are doubled")
            self._lost[LATE_EFFECT] += len(self._pairs)
            self._least_wash_s = 2 * self._wash_s
            return LiveEvent.FADES_IN
        return LiveEvent.FINAL if is_final(verdict, self.design) else LiveEvent.MORE_PAIRS

    def _take(self, counted: RecordedPair) -> None:
        """Put a matched pair to those that are judged."""
        assert self._body is not None, "it was made at the begin"
        assert self._veto is not None, "it was made at the begin"
        pair = pair_index(self._body, counted.a, counted.b)
        if pair is None:
            return
        self._pairs.append(pair)
        self._kept.append((counted.a, counted.b))
        self._orders.append(counted.first)
        self._veto = self._veto.then(self._body, counted.a, counted.b)
        self._vetoed = dict(self._veto.vetoed())

    def _fades_in(self) -> bool:
        """Tell whether the halves of the counted time differ; pairs whose halves hold too little are left out."""
        assert self._body is not None, "it was made at the start"
        found: list[tuple[float, float]] = []
        for a, b in self._kept:
            if a.halves is not None and b.halves is not None:
                one, other = (pair_index(self._body, *half) for half in zip(a.halves, b.halves, strict=True))
                if one is not None and other is not None:
                    found.append((one.log_ratio, other.log_ratio))
        return fades_in([one for one, _ in found], [other for _, other in found])

    def _verdict(self) -> Verdict | None:
        return self._after(len(self._pairs)) if self._pairs else None

    def _after(self, pairs: int) -> Verdict:
        ratios = [math.exp(pair.log_ratio) for pair in self._pairs[:pairs]]
        return judge([1.0] * pairs, ratios, metric=Metric.STATEMENT_TIME, design=self.design)

    def _vanished(self) -> tuple[int, ...]:
        return vanished((*self._kept, *self._unequal))

    def _running(self) -> tuple[Interval | None, ...]:
        found = (self._after(pairs).interval for pairs in range(1, len(self._pairs) + 1))
        return tuple(one if math.isfinite(one.hi) else None for one in found)

    def outcome(self, ending: LiveEnding) -> LiveOutcome:
        """Return what there is by now, with this ending."""
        assert self._body is not None, "it was made at the start"
        assert self._veto is not None, "it was made at the start"
        arms = [list(arm) for arm in zip(*self._kept, strict=True)] or [[], []]
        return LiveOutcome(
            ending=ending,
            verdict=self._verdict(),
            pairs=tuple(self._pairs),
            lost=dict(self._lost),
            tail=tail_ratio(self._body, arms[0], arms[1], seed=self.seed),
            vetoed=self._vetoed,
            vanished=self._vanished(),
            breaches=tuple(self._breaches),
            period_s=self.period_s,
            wash_s=self._wash_s,
            body=self._body,
            veto=self._veto,
            second=second_metrics(self._body, self._kept, self.design),
            kept=tuple(self._kept),
            orders=tuple(self._orders),
            stopped=self._stopped,
            is_asked=self._is_asked,
            plans=self.plans,
            running=self._running(),
        )
