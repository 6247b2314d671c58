"""The steps of a project's run, in their order: what each is, and the words of the verb that does it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import shorten

from pgdyno.model.study import StudyKind
from pgdyno.studies.project.run_plan import RunKind, RunPlan, ScenarioRun
from pgdyno.trace.parquet import meta_path
from pgdyno.units import seconds_text

LATE_S = 10.0
"""What a verb said longer ago than this is told with its age: the time that it gave as left is less by now."""
LONGEST = 160
"""Letters of a verb's line that are told, in whole words."""
_CLOCK = re.compile(r"^\[[^]]*\] ")


class StepWork(StrEnum):
    """What a step is."""

    PREPARE = "prepare"
    """Make the platforms and their data."""
    CAPTURE = "capture"
    """Run the load and capture it."""
    VERB = "verb"
    """A verb of pgdyno, as a process of its own."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step. `key` is its name in the record; `kind` is of the study that it leaves, None for none.

    `label` is what its files are called: a scenario's name, which `key` has, may hold anything.
    """

    key: str
    text: str
    work: StepWork
    label: str
    scenario: str = ""
    side: str = ""
    words: tuple[str, ...] = ()
    kind: StudyKind | None = None
    resumable: bool = False
    held: str = ""
    """The platform whose server is started for it, and reached by its socket."""


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where a run has its things: `folder` beside the plan, `public` where other accounts can enter."""

    folder: Path
    public: Path
    sandboxes: Mapping[str, str]
    conninfo: Mapping[str, str]
    """Of each platform's server; empty texts before it was made."""

    @property
    def trace(self) -> Path:
        """Return where the trace of the captured load is."""
        return self.folder / "load.parquet"

    @property
    def whole(self) -> Path:
        """Return where the trace of all that was logged is."""
        return self.trace.with_stem("whole")


def run_steps(plan: RunPlan) -> tuple[RunStep, ...]:
    """Return the steps, without the words that depend on where things are."""
    names = ", ".join(one.name for one in plan.platforms)
    found = [RunStep("prepare", f"make the platforms {names}, and the data", StepWork.PREPARE, "prepare")]
    is_captured = False
    for at, run in enumerate(plan.scenarios, 1):
        if run.kind is RunKind.REPLAY and not is_captured and plan.capture is not None:
            told = f"capture the load on {plan.capture.on} for {plan.capture.seconds:g} s"
            found.append(RunStep("capture", told, StepWork.CAPTURE, "capture", run.scenario, held=plan.capture.on))
            for key, told, words in (
                ("trace", "make a trace of it", ("trace", "build", "{capture}", "-o", "{whole}", "--json")),
                (
                    "cut",
                    f"cut what was sent to {plan.data.database} out of it",
                    ("trace", "cut", "{whole}", "-o", "{trace}", "--database", plan.data.database, "--json"),
                ),
            ):
                found.append(RunStep(key, told, StepWork.VERB, key, run.scenario, words=words))
            is_captured = True
        found += _scenario_steps(run, plan, f"{at}-{run.kind}")
    return tuple(found)


def _scenario_steps(run: ScenarioRun, plan: RunPlan, label: str) -> list[RunStep]:
    name, base = run.scenario, f"{run.kind} {run.scenario}"
    words: tuple[str, ...]
    if run.kind is RunKind.MIGRATE:
        words = ("migrate", "rehearse", str(plan.path(run.plan)), "--source", "{old}", "--folder", "{dumps}",
                 "--sandbox", "{new}", "--apply", "--yes", "--json")  # fmt: skip
        told = f"migrate {run.old} to {run.new}"
        return [RunStep(base, told, StepWork.VERB, label, name, "new", words, StudyKind.MIGRATE, True, run.old)]
    if run.kind is RunKind.SCALE:
        words = ("scale", str(plan.path(run.plan)), "--sandbox", "{new}", "--apply", "--yes", "--json")
        return [RunStep(base, f"levels on {run.new}", StepWork.VERB, label, name, "new", words, StudyKind.SCALE, True)]
    sides = {"old": run.old, "new": run.new}
    if run.kind is RunKind.BATCH:
        words = ("batch", "run", str(plan.path(run.plan)), "--executions", str(run.runs), "--sandbox", "{platform}",
                 "--apply", "--yes", "--json")  # fmt: skip
        return [
            RunStep(f"{base} {side}", f"the chain on {platform}", StepWork.VERB, f"{label}-{side}", name, side, words,
                    StudyKind.BATCH)
            for side, platform in sides.items()
        ]  # fmt: skip
    found = list[RunStep]()
    database = plan.data.database
    for number in range(1, run.runs + 1):
        turn = list(sides.items()) if number % 2 else list(reversed(sides.items()))
        for side, platform in turn:
            copy = f"{database}={database}_replay"
            words = ("replay", "{trace}", "--output", "{outcome}", "--restore", f"template:{copy}", "--database-map",
                     copy, "--sandbox", "{platform}", "--yes", "--json")  # fmt: skip
            told = f"replay {number} of {run.runs} on {platform}"
            found.append(
                RunStep(f"{base} {side} {number}", told, StepWork.VERB, f"{label}-{side}-{number}", name, side, words,
                        StudyKind.REPLAY)
            )  # fmt: skip
    return found


def words_of(
    step: RunStep, places: RunPlaces, run: ScenarioRun | None, *, attempt: int, capture: str
) -> tuple[str, ...]:
    """Return the words of a step with everything that is known when it begins.

    `places` has the files and servers that the words of `step` leave open. `run` is what its scenario runs; with None
    the words for platforms stay as they are. `attempt` counts from 1 and goes into the name of an outcome. `capture` is
    the folder of the captured log, empty before there is one.
    """
    values = {
        "trace": str(places.trace),
        "whole": str(places.whole),
        "capture": capture,
        "dumps": str(places.public / "dumps"),
        "outcome": str(places.folder / f"{step.label}.{attempt}.outcome"),
    }
    if run is not None:
        values |= (
            {
                "old": places.conninfo.get(run.old, ""),
                "new": places.sandboxes[run.new],
                "platform": places.sandboxes[run.new if step.side == "new" else run.old],
            }
            if run.old
            else {"new": places.sandboxes[run.new]}
        )
    named = {f"{{{key}}}": value for key, value in values.items()}
    return tuple(named.get(word, word) for word in step.words)


def made_anew(step: RunStep, places: RunPlaces) -> tuple[Path, ...]:
    """Return the files that an attempt of the step which was killed may have left: its verb replaces none."""
    trace = {"trace": places.whole, "cut": places.trace}.get(step.key)
    return () if trace is None else (trace, meta_path(trace))


def seconds_left(
    plan: RunPlan, steps: Sequence[RunStep], done: Mapping[str, float], current: str, spent_s: float
) -> float:
    """Return how long the rest takes by the plan: of each scenario what it was planned to take, less what it took.

    `steps` are those of the whole `plan`, and `done` has the seconds that each finished one took, by its key. `current`
    is the key of the step under way, which has taken `spent_s` seconds so far.
    """
    left = 0.0
    for run in plan.scenarios:
        own = [step for step in steps if step.scenario == run.scenario]
        if all(step.key in done for step in own):
            continue
        taken = sum(done.get(step.key, 0.0) for step in own)
        if any(step.key == current for step in own):
            taken += spent_s
        left += max(run.planned_s - taken, 0.0)
    return left


def said_words(said: str, ago_s: float) -> str:
    """Return the last line that a verb said, without its own clock; one of some time ago says how long ago that was."""
    lines = said.strip().splitlines()
    if not lines:
        return "it begins"
    last = shorten(_CLOCK.sub("", lines[-1].strip()), LONGEST, placeholder=" ...")
    return f"{last} ({seconds_text(ago_s)} ago)" if ago_s >= LATE_S else last


def load_words(spent_s: float, whole_s: float) -> str:
    """Return how far the load is that is captured."""
    return f"{seconds_text(min(spent_s, whole_s))} of {seconds_text(whole_s)} of the load"
