"""An experiment plan as data: what is tried, in which order, at which level, and what people do themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.errors import UsageError
from pgdyno.model.finding import Confidence, Cost
from pgdyno.model.linux import is_linux_knob


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
