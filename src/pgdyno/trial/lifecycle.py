"""The order of a trial as a pure state machine: `step(phase, event)` gives the next phase and what to do.

    planned --accepted--> applying --in force--> resetting --ready--> loading --load ended--> collecting --> done
       |                     |                      |                    |
       +--refused--> done    +--not in force-->     +------- failed -----+--> done (void, failed or abandoned)

Nothing is loaded before the configuration is known to be in force, sampling brackets the load on both sides, and
every path ends in exactly one CONCLUDE. Restoring the server is not a part of a trial: the session that applied
the first change does it once, at the end of the study or on any error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pgdyno.model.trial import TrialState


class Phase(StrEnum):
    """Where a trial stands."""

    PLANNED = "planned"
    APPLYING = "applying"
    RESETTING = "resetting"
    LOADING = "loading"
    COLLECTING = "collecting"
    DONE = "done"


class TrialAction(StrEnum):
    """What the executor has to do next, in the order given."""

    CHECK = "check"
    APPLY = "apply"
    RESET = "reset"
    START_SAMPLING = "start sampling"
    RUN_LOAD = "run load"
    STOP_SAMPLING = "stop sampling"
    ASSESS = "assess"
    CONCLUDE = "conclude"


class TrialEvent(StrEnum):
    """What came of the last instruction that can go either way."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    IN_FORCE = "in force"
    NOT_IN_FORCE = "not in force"
    READY = "ready"
    LOAD_ENDED = "load ended"
    ASSESSED = "assessed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next phase, the instructions that lead to it, and the final state where the trial ends here."""

    phase: Phase
    instructions: tuple[TrialAction, ...]
    state: TrialState | None = None


_ENDINGS = {
    TrialEvent.REFUSED: TrialState.REFUSED,
    TrialEvent.NOT_IN_FORCE: TrialState.VOID,
    TrialEvent.FAILED: TrialState.FAILED,
    TrialEvent.INTERRUPTED: TrialState.ABANDONED,
}

_FORWARD = {
    (Phase.PLANNED, TrialEvent.ACCEPTED): Transition(Phase.APPLYING, (TrialAction.APPLY,)),
    (Phase.APPLYING, TrialEvent.IN_FORCE): Transition(Phase.RESETTING, (TrialAction.RESET,)),
    (Phase.RESETTING, TrialEvent.READY): Transition(Phase.LOADING, (TrialAction.START_SAMPLING, TrialAction.RUN_LOAD)),
    (Phase.LOADING, TrialEvent.LOAD_ENDED): Transition(
        Phase.COLLECTING, (TrialAction.STOP_SAMPLING, TrialAction.ASSESS)
    ),
    (Phase.COLLECTING, TrialEvent.ASSESSED): Transition(Phase.DONE, (TrialAction.CONCLUDE,)),
}

_BAD_NEWS = {
    Phase.PLANNED: {TrialEvent.REFUSED, TrialEvent.FAILED, TrialEvent.INTERRUPTED},
    Phase.APPLYING: {TrialEvent.NOT_IN_FORCE, TrialEvent.FAILED, TrialEvent.INTERRUPTED},
    Phase.RESETTING: {TrialEvent.FAILED, TrialEvent.INTERRUPTED},
    Phase.LOADING: {TrialEvent.FAILED, TrialEvent.INTERRUPTED},
    Phase.COLLECTING: {TrialEvent.FAILED, TrialEvent.INTERRUPTED},
    Phase.DONE: set[TrialEvent](),
}


def begin() -> Transition:
    """Return the first transition of every trial."""
    return Transition(Phase.PLANNED, (TrialAction.CHECK,))


def step(phase: Phase, happening: TrialEvent) -> Transition:
    """Return what follows when `happening` is reported in `phase`.

    Raises ValueError on a pair that the order does not allow: that is a defect of the executor, never of a server.
    """
    forward = _FORWARD.get((phase, happening))
    if forward is not None:
        return forward
    if happening not in _BAD_NEWS[phase]:
        raise ValueError(f"a trial that is {phase} cannot be told {happening}")
    stop = (TrialAction.STOP_SAMPLING,) if phase is Phase.LOADING else ()
    return Transition(Phase.DONE, (*stop, TrialAction.CONCLUDE), _ENDINGS[happening])
