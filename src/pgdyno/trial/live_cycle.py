"""The order of a live study as a pure state machine: `step(cycle, event)` gives what comes next and what to do.

    checking -> reference -> planned -> [switching -> washing -> counting] x 2 -> judging -> planned | decided -> over
        |           |                       |            |          |              |
        +- refused  +- unresolvable         +- not in force -> over  +- guard or veto from any of them
                                                                        -> reverting -> resting -> planned | over

Every path ends in one CONCLUDE, and where an arm was ever applied the server is restored right before it. A stop file
and a signal end it from every phase. A person is waited for in the baseline. What the executor does for an
instruction, and which clock it waits by, is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

PERIODS = 2
"""In a pair: one of each arm, in an order by coin."""
CROSSINGS = 3
"""So many periods in a row that a statement from before the switch reached into: they are too short."""
LOST_PAIRS = 3
"""So many void pairs in a row: the server cannot be compared with itself now."""
CANDIDATE_STOPS, STUDY_STOPS = 3, 5
"""So many guard stops end a candidate, and the study."""


class LivePhase(StrEnum):
    """Where a live study stands."""

    CHECKING = "checking"
    REFERENCE = "reference"
    PLANNED = "planned"
    SWITCHING = "switching"
    WASHING = "washing"
    COUNTING = "counting"
    JUDGING = "judging"
    REVERTING = "reverting"
    RESTING = "resting"
    DECIDED = "decided"
    OVER = "over"


class LiveOrder(StrEnum):
    """What the executor has to do, in the order given."""

    CHECK = "check"
    WATCH_REFERENCE = "watch reference"
    PLAN = "plan"
    """Draw the order of the next pair, for another candidate where the last one is dead; or say that it is over."""
    APPLY_ARM = "apply arm"
    WASH = "wash"
    COUNT = "count"
    JUDGE = "judge"
    DROP_PAIR = "drop pair"
    LENGTHEN = "lengthen"
    """Take periods twice as long from now on, and begin the verdict again."""
    APPLY_BASELINE = "apply baseline"
    KEEP_EVIDENCE = "keep evidence"
    REST = "rest"
    ASK_PERSON = "ask person"
    PUT_BACK = "put back"
    """End the session: the server is as it was found."""
    CONCLUDE = "conclude"


class LiveEvent(StrEnum):
    """What came of the last instruction, or came from outside."""

    CHECKS_HOLD = "checks hold"
    REFUSED = "refused"
    LENGTH_FOUND = "length found"
    UNRESOLVABLE = "unresolvable"
    PLANNED_PAIR = "planned"
    NOTHING_LEFT = "nothing left"
    """The budget, the window, the load or the candidates are over."""
    IN_FORCE = "in force"
    NOT_IN_FORCE = "not in force"
    CLEAN = "clean"
    CROSSED = "crossed"
    """A third of the period is over, and a statement from before the switch still runs."""
    COUNTED = "counted"
    VOID = "void"
    MORE_PAIRS = "more pairs"
    FADES_IN = "fades in"
    """The effect still grows while it is counted: the wash-out is too short."""
    FINAL = "final"
    VETO = "veto"
    BREACH = "breach"
    """A guard tripped under B, or for the configuration's sake."""
    BREACH_OUTSIDE = "breach outside"
    """A guard tripped under A, or for something that is no arm's doing: it costs no candidate."""
    BASELINE_IN_FORCE = "baseline in force"
    BASELINE_LOST = "baseline lost"
    RESTED = "rested"
    ANSWERED = "answered"
    STOPPED = "stopped"
    """Somebody wants it to end: the stop file, the dashboard."""
    INTERRUPTED = "interrupted"
    """A signal, or an error of the executor's own."""


class LiveEnding(StrEnum):
    """How a live study ended."""

    REFUSED = "refused"
    UNRESOLVABLE = "unresolvable"
    NOT_IN_FORCE = "not in force"
    NOTHING_LEFT = "nothing left"
    DECIDED = "decided"
    TOO_MANY_STOPS = "too many guard stops"
    TOO_MANY_VOID = "too many void pairs"
    LEFT_TO_WATCHDOG = "left to the watchdog"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class LiveCycle:
    """Where a study stands, and what of its past decides what comes next.

    `changed` is True from the first arm on. `period` is the place in the pair, `crossings` and `lost` count in a row,
    `candidate_stops` and `stops` those by guards, of which `most_stops` end a candidate; `ending` is set in phase OVER
    alone.
    """

    phase: LivePhase = LivePhase.CHECKING
    changed: bool = False
    period: int = 0
    crossings: int = 0
    lost: int = 0
    candidate_stops: int = 0
    stops: int = 0
    most_stops: int = CANDIDATE_STOPS
    after_veto: bool = False
    """The rest that comes or goes on is the short one after a veto."""
    ending: LiveEnding | None = None


@dataclass(frozen=True, slots=True)
class LiveStep:
    """Where the study stands now, and the instructions that lead on."""

    cycle: LiveCycle
    orders: tuple[LiveOrder, ...]


def begin() -> LiveStep:
    """Return the first step of every live study."""
    return LiveStep(LiveCycle(), (LiveOrder.CHECK,))


def step(cycle: LiveCycle, event: LiveEvent) -> LiveStep:
    """Return what follows when `event` is reported.

    Raises ValueError on one that the phase does not allow: that is a defect of the executor, never of a server.
    """
    if cycle.phase is not LivePhase.OVER:
        if event in _FROM_OUTSIDE:
            return _over(cycle, _FROM_OUTSIDE[event])
        if event in _BREACHES and cycle.phase in _GUARDED:
            return _revert(cycle, event)
        if (cycle.phase, event) in _PLAIN:
            phase, orders = _PLAIN[cycle.phase, event]
            return LiveStep(replace(cycle, phase=phase), orders)
        if (cycle.phase, event) in _ENDS:
            return _over(cycle, _ENDS[cycle.phase, event])
        decided = _decided(cycle, event)
        if decided is not None:
            return decided
    raise ValueError(f"a live study that is {cycle.phase} cannot be told {event}")


_FROM_OUTSIDE = {LiveEvent.STOPPED: LiveEnding.STOPPED, LiveEvent.INTERRUPTED: LiveEnding.INTERRUPTED}
_BREACHES = {LiveEvent.BREACH, LiveEvent.BREACH_OUTSIDE}
_GUARDED = {LivePhase.PLANNED, LivePhase.SWITCHING, LivePhase.WASHING, LivePhase.COUNTING, LivePhase.JUDGING}
_PLAIN = {
    (LivePhase.CHECKING, LiveEvent.CHECKS_HOLD): (LivePhase.REFERENCE, (LiveOrder.WATCH_REFERENCE,)),
    (LivePhase.REFERENCE, LiveEvent.LENGTH_FOUND): (LivePhase.PLANNED, (LiveOrder.PLAN,)),
    (LivePhase.SWITCHING, LiveEvent.IN_FORCE): (LivePhase.WASHING, (LiveOrder.WASH,)),
    (LivePhase.JUDGING, LiveEvent.MORE_PAIRS): (LivePhase.PLANNED, (LiveOrder.PLAN,)),
    (LivePhase.JUDGING, LiveEvent.FADES_IN): (LivePhase.PLANNED, (LiveOrder.LENGTHEN, LiveOrder.PLAN)),
    (LivePhase.JUDGING, LiveEvent.FINAL): (LivePhase.DECIDED, (LiveOrder.APPLY_BASELINE, LiveOrder.ASK_PERSON)),
    (LivePhase.REVERTING, LiveEvent.BASELINE_IN_FORCE): (LivePhase.RESTING, (LiveOrder.KEEP_EVIDENCE, LiveOrder.REST)),
}
_ENDS = {
    (LivePhase.CHECKING, LiveEvent.REFUSED): LiveEnding.REFUSED,
    (LivePhase.REFERENCE, LiveEvent.UNRESOLVABLE): LiveEnding.UNRESOLVABLE,
    (LivePhase.PLANNED, LiveEvent.NOTHING_LEFT): LiveEnding.NOTHING_LEFT,
    (LivePhase.SWITCHING, LiveEvent.NOT_IN_FORCE): LiveEnding.NOT_IN_FORCE,
    (LivePhase.REVERTING, LiveEvent.BASELINE_LOST): LiveEnding.LEFT_TO_WATCHDOG,
    (LivePhase.DECIDED, LiveEvent.BASELINE_LOST): LiveEnding.LEFT_TO_WATCHDOG,
    (LivePhase.DECIDED, LiveEvent.ANSWERED): LiveEnding.DECIDED,
}


def _decided(cycle: LiveCycle, event: LiveEvent) -> LiveStep | None:
    """Return what depends on what was before; None for an event that does not belong here."""
    match cycle.phase, event:
        case LivePhase.PLANNED, LiveEvent.PLANNED_PAIR:
            return _switch(replace(cycle, period=0, after_veto=False))
        case LivePhase.WASHING, LiveEvent.CLEAN:
            return LiveStep(replace(cycle, phase=LivePhase.COUNTING, crossings=0), (LiveOrder.COUNT,))
        case LivePhase.WASHING, LiveEvent.CROSSED:
            return _crossed(cycle)
        case LivePhase.COUNTING, LiveEvent.COUNTED if cycle.period + 1 < PERIODS:
            return _switch(replace(cycle, period=cycle.period + 1))
        case LivePhase.COUNTING, LiveEvent.COUNTED:
            return LiveStep(replace(cycle, phase=LivePhase.JUDGING, lost=0), (LiveOrder.JUDGE,))
        case LivePhase.COUNTING, LiveEvent.VOID:
            return _lost(cycle)
        case LivePhase.JUDGING, LiveEvent.VETO:
            reverting = replace(cycle, phase=LivePhase.REVERTING, after_veto=True)
            return LiveStep(reverting, (LiveOrder.APPLY_BASELINE,))
        case LivePhase.RESTING, LiveEvent.RESTED:
            return _rested(cycle)
    return None


def _switch(cycle: LiveCycle) -> LiveStep:
    return LiveStep(replace(cycle, phase=LivePhase.SWITCHING, changed=True), (LiveOrder.APPLY_ARM,))


def _crossed(cycle: LiveCycle) -> LiveStep:
    """Count on, the period being marked; the third in a row says that all of them are too short."""
    if cycle.crossings + 1 < CROSSINGS:
        counting = replace(cycle, phase=LivePhase.COUNTING, crossings=cycle.crossings + 1)
        return LiveStep(counting, (LiveOrder.COUNT,))
    planned = replace(cycle, phase=LivePhase.PLANNED, crossings=0)
    return LiveStep(planned, (LiveOrder.DROP_PAIR, LiveOrder.LENGTHEN, LiveOrder.PLAN))


def _lost(cycle: LiveCycle) -> LiveStep:
    if cycle.lost + 1 >= LOST_PAIRS:
        return _over(cycle, LiveEnding.TOO_MANY_VOID, LiveOrder.DROP_PAIR)
    planned = replace(cycle, phase=LivePhase.PLANNED, lost=cycle.lost + 1)
    return LiveStep(planned, (LiveOrder.DROP_PAIR, LiveOrder.PLAN))


def _revert(cycle: LiveCycle, event: LiveEvent) -> LiveStep:
    blamed = int(event is LiveEvent.BREACH)
    reverting = replace(
        cycle,
        phase=LivePhase.REVERTING,
        candidate_stops=cycle.candidate_stops + blamed,
        stops=cycle.stops + 1,
        after_veto=False,
    )
    return LiveStep(reverting, (LiveOrder.APPLY_BASELINE, LiveOrder.DROP_PAIR))


def _rested(cycle: LiveCycle) -> LiveStep:
    if cycle.stops >= STUDY_STOPS:
        return _over(cycle, LiveEnding.TOO_MANY_STOPS)
    stops = 0 if is_candidate_dead(cycle) else cycle.candidate_stops
    planned = replace(cycle, phase=LivePhase.PLANNED, candidate_stops=stops)
    return LiveStep(planned, (LiveOrder.PLAN,))


def is_candidate_dead(cycle: LiveCycle) -> bool:
    """Return whether the candidate may not come again, when phase RESTING is told that it is over."""
    return cycle.after_veto or cycle.candidate_stops >= cycle.most_stops


def _over(cycle: LiveCycle, ending: LiveEnding, *first: LiveOrder) -> LiveStep:
    back = (LiveOrder.PUT_BACK,) if cycle.changed else ()
    return LiveStep(replace(cycle, phase=LivePhase.OVER, ending=ending), (*first, *back, LiveOrder.CONCLUDE))
