"""What a staircase found on its way: each step with its outcome, the proof at the end, and why it stopped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgdyno.model.configuration import Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Interval, Verdict
from pgdyno.stats.noise import NoiseFloor
from pgdyno.studies.pairs.blocks import Blocks
from pgdyno.studies.pairs.drift import Drift
from pgdyno.studies.staircase.plan import Plan, Step
from pgdyno.studies.staircase.rules import CANDIDATE
from pgdyno.studies.sweep.run import SweepFound


@dataclass(frozen=True)
class StepResult:
    """One step and what came of it. Nothing but `step`, `outcome` and `why` is there of a step that was not run."""

    step: Step
    outcome: str
    why: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    blocks: Blocks | None = None
    sweep: SweepFound | None = None
    baselines: tuple[Trial, ...] = ()
    interleaved: bool = True
    open: bool = False
    """Passed over for people, or in force already: steps that depend on it are not held back."""
    again: Interval | None = None
    """Of a step that people do: the server with it taken back, as a ratio of how it was before."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return the runs behind the verdict, and those of the sweep before them."""
        blocks = (*(self.sweep.blocks.complete if self.sweep else ()), *(self.blocks.complete if self.blocks else ()))
        return tuple(trial for block in blocks for trial in block.values())


@dataclass(frozen=True)
class StairProof:
    """The fresh blocks at the end. `effects`: what each kept step is worth, all kept against all but that one."""

    blocks: Blocks
    comparison: Comparison
    effects: Mapping[str, Verdict]


@dataclass
class StaircaseCourse:
    """All that a staircase found. `proof` is None when no step was kept, and in the sandbox stage."""

    plan: Plan
    baseline: Configuration
    noise_runs: tuple[Trial, ...] = ()
    noise: NoiseFloor | None = None
    climbs: list[StepResult] = field(default_factory=list)
    kept: list[StepResult] = field(default_factory=list)
    proof: StairProof | None = None
    stopped: str = ""
    unproven: str = ""
    """Why there is no proof of steps that were kept."""
    drift: Drift = field(default_factory=lambda: Drift((), ()))

    @property
    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each step by its name."""
        return {climb.step.name: climb.outcome for climb in self.climbs}


def candidates_of(climbs: Iterable[StepResult]) -> tuple[str, ...]:
    """Return the steps that the sandbox stage proposes for the large environment."""
    return tuple(climb.step.name for climb in climbs if climb.outcome == CANDIDATE)
