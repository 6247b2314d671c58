"""An experiment plan as data: what is tried, in which order, at which level, and what people do themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.model.finding import Confidence, Cost
from pgdyno.model.linux import is_linux_knob
from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.staircase.options import StaircaseOptions
OVERHEAD_S = 3.0
"""About what a run costs beside its load; a restart or a clone of large data takes longer."""


class FactorLevel(StrEnum):
    """Where a factor lies. Sessions set the first three; the others are for people, who are waited for."""

    POSTGRESQL = "postgresql"
    KERNEL = "kernel"
    BLOCK_DEVICE = "block device"
    STORAGE = "storage"
    """Layout, striping, a remount: what lies below the data directory."""
    MANUAL = "manual"
    """Hardware, SMT of the machine, network: whatever else only people can change."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The effect as the source states it; `low` and `high` are relative gains, None when there are only words."""

    text: str
    low: float | None = None
    high: float | None = None
    metric: str = "throughput"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A series of values of one knob, in the order in which they are drawn."""

    knob: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manual:
    """What a person does and takes back. `verify` is an argument list whose output has to hold `expect` afterwards.

    `alternate` asks for it to be taken back and measured without it again, so that a steady drift cancels.
    """

    instructions: tuple[str, ...]
    undo: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    expect: str = ""
    alternate: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One factor: settings of a session, a sweep of one knob, or what a person does.

    `commands` are for people too: of a step with settings before it is measured, else they are the step. `found` are
    the values of the same knobs when the plan was made. A `group` names why several knobs are one factor. `stage`
    names the only stage in which the step is run, empty for each.
    """

    name: str
    rules: tuple[str, ...] = ()
    origin: str = ""
    cost: Cost = Cost.NONE
    check: str = ""
    level: FactorLevel = FactorLevel.POSTGRESQL
    stage: str = ""
    group: str = ""
    after: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    confidence: Confidence = Confidence.UNKNOWN
    risk: str = ""
    why: str = ""
    expected: Expected | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    sweep: Sweep | None = None
    manual: Manual | None = None
    found: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()

    @property
    def by_hand(self) -> Manual | None:
        """Return what a person does as the step itself, None when a session sets its factor."""
        if self.manual is not None or self.settings or self.sweep is not None:
            return self.manual
        return Manual(self.commands, self.undo)

    @property
    def knobs(self) -> tuple[str, ...]:
        """Return what a session sets."""
        return (*self.settings, *((self.sweep.knob,) if self.sweep else ()))


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. Its baseline is the server as it is when the plan is run, with `baseline` set on top of it."""

    target: str
    environment: str
    created: str
    steps: tuple[Step, ...]
    mode: str = "accumulate"
    stage: str = ""
    baseline: Mapping[str, str] = field(default_factory=dict)

    def step(self, name: str) -> Step:
        """Return a step by its name. Raises UsageError when there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise UsageError(
            f'the plan has no step "{name}"', hint=f"It has {', '.join(step.name for step in self.steps) or 'none'}."
        )

    @property
    def knobs(self) -> frozenset[str]:
        """Return every knob that the plan may set."""
        return frozenset((*self.baseline, *(knob for step in self.steps for knob in step.knobs)))


def level_of(knobs: tuple[str, ...]) -> FactorLevel:
    """Return the lowest level among knobs; without any it is for people."""
    if not knobs:
        return FactorLevel.MANUAL
    linux = [knob for knob in knobs if is_linux_knob(knob)]
    if any(knob.startswith("block.") for knob in linux):
        return FactorLevel.BLOCK_DEVICE
    return FactorLevel.KERNEL if linux else FactorLevel.POSTGRESQL


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Counts what is left; `duration_s` is a run's time under load, `proof` whether one follows the last step."""

    duration_s: float
    proof: bool = True

    def text(self, design: Design, steps: Sequence[Step], options: StaircaseOptions, *, measured: int) -> str:
        """Return the words; `steps` are those that are left, of the first `measured` pairs are done."""
        steps = [step for step in steps if will_run(step, options)]
        bounds = (design.min_pairs, design.max_pairs)
        proofs = [pairs * (2 + len(steps)) if self.proof else 0 for pairs in bounds]
        fewest, most = (
            runs_left(pairs, steps, options, measured) + more for pairs, more in zip(bounds, proofs, strict=True)
        )
        each = self.duration_s + OVERHEAD_S
        low, high = seconds_text(fewest * each), seconds_text(most * each)
        return f"{low} left" if low == high else f"{low} to {high} left"


def will_run(step: Step, options: StaircaseOptions) -> bool:
    """Tell whether a step is run as far as is known beforehand: nobody waits for some, and some are no candidates."""
    if step.by_hand is not None:
        return options.waits_for(step)
    return options.candidates is None or step.name in options.candidates or bool(step.stage)


def runs_left(pairs: int, steps: Sequence[Step], options: StaircaseOptions, measured: int = 0) -> int:
    """Return how many runs are left when every step takes so many pairs, without the proof."""
    runs = 2 * -min(measured, pairs)
    for place, step in enumerate(steps):
        if step.sweep is not None and (place or not measured):
            runs += options.sweep_blocks * len(step.sweep.values)
        runs += 2 * pairs + options.baseline_runs
    return max(0, runs)
