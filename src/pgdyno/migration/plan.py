"""The plan of a migration: from where to where, by which mover, in which window. Pure; its file: `studies/migrate`.

Times are seconds, sizes bytes. `fingerprint` says what is moved and how: rehearsals that share it make a trend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.migration.mover import PhaseStep
from pgdyno.model.results.migrate import MigrationPhase as P

_ON_SOURCE = frozenset({P.EXPORT, P.TRANSFER})
_LATE = frozenset({P.CUT_OVER, P.WAY_BACK})
NO_SETTINGS = "the plan has no settings for the load"


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """What a plan says of a phase: how long it may take, and for which others it waits beside those of its mover."""

    planned_s: float | None = None
    after: tuple[P, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedReplay:
    """A captured load that is sent to the target at the end.

    A run with more than `error_limit_percent` of unlike answers does not count; one that counts, with more than
    `unlike_limit_percent`, is no success.
    """

    trace: str
    speed: float = 1.0
    error_limit_percent: float = 1.0
    unlike_limit_percent: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """The whole of a file. `target` is empty where --target or the sandbox is meant."""

    name: str
    source: str
    target: str = ""
    database: str = ""
    target_database: str = ""
    folder: str
    mover: str = "dump"
    options: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1
    window_s: float | None = None
    full_bytes: int | None = None
    """The size in earnest, of which a rehearsal of smaller ones makes a forecast."""
    load: Mapping[str, str] = field(default_factory=dict)
    load_restart: bool = False
    programs: str = ""
    phases: Mapping[P, PlannedPhase] = field(default_factory=dict)
    replay: PlannedReplay | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    """On which lines of the file its keys stand, for what shows later that it cannot be."""

    @property
    def fingerprint(self) -> str:
        """Return what rehearsals share that can be compared; parallelism and settings are what may differ."""
        return hashlib.sha256(repr((self.name, self.mover, self.database)).encode()).hexdigest()[:16]

    @property
    def seal(self) -> str:
        """Return what must be alike for a killed rehearsal to go on."""
        told = (self.fingerprint, self.source, self.target, self.target_database, sorted(self.options.items()))
        whole = (told, sorted(self.load.items()), self.folder, *([self.replay] if self.replay else []))
        return hashlib.sha256(repr(whole).encode()).hexdigest()[:16]


def all_steps(plan: MigrationPlan, own: tuple[PhaseStep, ...]) -> tuple[PhaseStep, ...]:
    """Return the mover's phases with those that every migration has, and what the plan adds: each waits for whom."""
    unset = "" if plan.load else NO_SETTINGS
    early = tuple(one.phase for one in own if one.phase not in _LATE)
    steps = [PhaseStep(P.ASSESS), PhaseStep(P.CONFIGURATION, (P.ASSESS,), unset)]
    for one in own:
        first = (P.ASSESS,) if one.phase in _ON_SOURCE else (P.ASSESS, P.CONFIGURATION)
        last = (P.RUN_TIME,) if one.phase is P.CUT_OVER else (P.VALIDATION,) if one.phase is P.WAY_BACK else ()
        steps.append(PhaseStep(one.phase, (*first, *one.after, *last), one.left_out))
    steps.append(PhaseStep(P.RUN_TIME, (P.CONFIGURATION, *early), unset))
    over = tuple(one.phase for one in own if one.phase is not P.WAY_BACK)
    steps.append(PhaseStep(P.VALIDATION, (*over, P.RUN_TIME)))
    if all(one.phase is not P.WAY_BACK for one in own):
        steps.append(PhaseStep(P.WAY_BACK, (P.VALIDATION,)))
    if plan.replay is not None:
        steps.append(PhaseStep(P.REPLAY, (P.VALIDATION, P.WAY_BACK)))
    added = {phase: one.after for phase, one in plan.phases.items()}
    steps = [PhaseStep(one.phase, (*one.after, *added.get(one.phase, ())), one.left_out) for one in steps]
    idle = {one.phase: one.after for one in steps if one.left_out}
    return tuple(PhaseStep(one.phase, _really_after(one.after, idle), one.left_out) for one in steps)


def _really_after(after: tuple[P, ...], idle: Mapping[P, tuple[P, ...]]) -> tuple[P, ...]:
    """Return for whom a phase waits when those that are left out hand on for whom they would have waited.

    Those that wait for each other in a ring stay: it is told elsewhere.
    """
    found, seen, waiting = dict[P, None](), set[P](), list(after)
    while waiting:
        one = waiting.pop(0)
        if one in idle and one not in seen:
            seen.add(one)
            waiting[:0] = idle[one]
        elif one not in idle:
            found[one] = None
    return tuple(found)


def waits_of(steps: tuple[PhaseStep, ...]) -> dict[str, tuple[str, ...]]:
    """Return by each phase those that it waits for, as words."""
    return {one.phase.value: tuple(other.value for other in one.after) for one in steps}
