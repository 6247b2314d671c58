"""The order of a trial as a pure state machine: `step(phase, event)` gives the next phase and what to do.

    planned --accepted--> applying --in force--> resetting --ready--> loading --load ended--> collecting --> done
       |                     |                      |                    |
       +--refused--> done    +--not in force-->     +------- failed -----+--> done (void, failed or abandoned)

Nothing is loaded before the configuration is known to be in force, sampling brackets the load on both sides, and
every road ends in exactly one CONCLUDE. Putting the server back is not a part of a trial: the session that applied
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


class Instruction(StrEnum):
    """What the executor has to do next, in the order given."""

    CHECK = "check"
    APPLY = "apply"
    RESET = "reset"
    START_SAMPLING = "start sampling"
    RUN_LOAD = "run load"
    STOP_SAMPLING = "stop sampling"
    ASSESS = "assess"
    CONCLUDE = "conclude"


class Happening(StrEnum):
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
    instructions: tuple[Instruction, ...]
    state: TrialState | None = None


_ENDINGS = {
    Happening.REFUSED: TrialState.REFUSED,
    Happening.NOT_IN_FORCE: TrialState.VOID,
    Happening.FAILED: TrialState.FAILED,
    Happening.INTERRUPTED: TrialState.ABANDONED,
}

_FORWARD = {
    (Phase.PLANNED, Happening.ACCEPTED): Transition(Phase.APPLYING, (Instruction.APPLY,)),
    (Phase.APPLYING, Happening.IN_FORCE): Transition(Phase.RESETTING, (Instruction.RESET,)),
    (Phase.RESETTING, Happening.READY): Transition(Phase.LOADING, (Instruction.START_SAMPLING, Instruction.RUN_LOAD)),
    (Phase.LOADING, Happening.LOAD_ENDED): Transition(
        Phase.COLLECTING, (Instruction.STOP_SAMPLING, Instruction.ASSESS)
    ),
    (Phase.COLLECTING, Happening.ASSESSED): Transition(Phase.DONE, (Instruction.CONCLUDE,)),
}

_BAD_NEWS = {
    Phase.PLANNED: {Happening.REFUSED, Happening.FAILED, Happening.INTERRUPTED},
    Phase.APPLYING: {Happening.NOT_IN_FORCE, Happening.FAILED, Happening.INTERRUPTED},
    Phase.RESETTING: {Happening.FAILED, Happening.INTERRUPTED},
    Phase.LOADING: {Happening.FAILED, Happening.INTERRUPTED},
    Phase.COLLECTING: {Happening.FAILED, Happening.INTERRUPTED},
    Phase.DONE: set[Happening](),
}


def begin() -> Transition:
    """Return the first transition of every trial."""
    return Transition(Phase.PLANNED, (Instruction.CHECK,))


def step(phase: Phase, happening: Happening) -> Transition:
    """Return what follows when `happening` is reported in `phase`.

    Raises ValueError on a pair that the order does not allow: that is a defect of the executor, never of a server.
    """
    forward = _FORWARD.get((phase, happening))
    if forward is not None:
        return forward
    if happening not in _BAD_NEWS[phase]:
        raise ValueError(f"a trial that is {phase} cannot be told {happening}")
    stop = (Instruction.STOP_SAMPLING,) if phase is Phase.LOADING else ()
    return Transition(Phase.DONE, (*stop, Instruction.CONCLUDE), _ENDINGS[happening])
