"""Which recorded trials a resumed study is given back, and whether they are those of its plan. Pure.

A study that ended because its machine was too disturbed ends in trials that nobody used. Given back, they would end it
again at once, however quiet the machine is now. So what was spoilt at the end is measured again, and at the next resume
the newer trial of a place takes the place of what was spoilt there.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.errors import StoreError
from pgdyno.model.trial import Trial, TrialSpec, TrialState

SPOILT = frozenset({TrialState.DISTURBED, TrialState.UNSTEADY, TrialState.PARTIAL})
"""Measured, and not used because of the machine or the load generators: said nothing of the configuration."""


def given_back(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials to give back, in their order; `trials` are those of one study as the store has them.

    Left out are interrupted trials, spoilt ones at the end, and spoilt ones that were measured again by a resume: those
    from the first trial of a place up to the next trial of the same specification.
    """
    kept: list[Trial] = []
    for trial in trials:
        if trial.state is TrialState.ABANDONED:
            continue
        del kept[_superseded(kept, trial) :]
        kept.append(trial)
    return kept[: _spoilt_from(kept)]


def _superseded(kept: list[Trial], trial: Trial) -> int:
    """Return where the spoilt trials begin that stand from this trial's own place to the end; none: the length."""
    spoilt = range(_spoilt_from(kept), len(kept))
    return next((place for place in spoilt if kept[place].spec == trial.spec), len(kept))


def _spoilt_from(kept: list[Trial]) -> int:
    place = len(kept)
    while place and kept[place - 1].state in SPOILT:
        place -= 1
    return place


def require_planned(trial: Trial, spec: TrialSpec, study: str) -> None:
    """Raise StoreError where the recorded trial is not the one that the plan of the resumed `study` has here."""
    if trial.spec != spec:
        raise StoreError(
            f"trial {trial.id} of study {study} is not the one that the plan has here",
            detail=_difference(trial.spec, spec),
            hint="Its options, its plan or pgdyno itself have changed since it was begun: begin a new one.",
        )


def _difference(recorded: TrialSpec, planned: TrialSpec) -> str:
    """Name what differs between two trials: role and arm, and each setting with both values."""
    old, new = recorded.configuration, planned.configuration
    knobs = [
        f"{name} was {old.get(name, 'as found')}, is {new.get(name, 'as found')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    return "; ".join((f"recorded {recorded.role} {recorded.arm}, planned {planned.role} {planned.arm}", *knobs))
