"""Run a project's plan, step after step: each verb as a pgdyno of its own, what is done kept, and not done again."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.study import Study, StudyState
from pgdyno.outputs import ensure_folder
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.parent import PARENT
from pgdyno.owner.runner import LocalRunner, Process
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.batch.file import parse_chain
from pgdyno.studies.batch.job_process import read_own
from pgdyno.studies.capture.register import known_captures
from pgdyno.studies.night.work import python_path
from pgdyno.studies.project import run_platforms as platforms
from pgdyno.studies.project.run_figures import ScenarioFound, of_chain, of_levels, of_migration, of_replays
from pgdyno.studies.project.run_plan import RunKind, RunPlan, RunPlatform, ScenarioRun
from pgdyno.studies.project.run_record import (
    FoundFigure,
    FoundRow,
    ProjectRunRecord,
    RunStepRecord,
    read_run_record,
    write_run_record,
)
from pgdyno.studies.project.run_steps import (
    RunPlaces,
    RunStep,
    StepWork,
    load_words,
    made_anew,
    run_steps,
    said_words,
    seconds_left,
    words_of,
)
from pgdyno.units import seconds_text

RESULTS = (0, 1, 3)
"""Exit codes of a verb that came to a result, whatever it says."""
LOOK_S, TELL_S = 0.25, 10.0
CAPTURING = "capturing for"
"""What `capture start` says when the logging is on."""
BEGIN_S, LEEWAY_S, END_S = 120.0, 60.0, 600.0
Announce = Callable[[str], None]


class RunEnded(Exception):
    """The run ends before its time, for the reason that it has as its text."""


@dataclass(slots=True)
class ProjectRun:
    """A run under way. `halt` says why it is to end, empty while it goes on."""

    project: Path
    plan: RunPlan
    record: ProjectRunRecord
    store: Store
    store_url: str
    places: RunPlaces
    halt: Callable[[], str]
    announce: Announce

    def run(self) -> None:
        """Do the steps that are not done. Raises RunEnded, or what made a step fail; both can be gone on with."""
        steps = run_steps(self.plan)
        ensure_folder(self.places.folder)
        with self._alone():
            self.record = read_run_record(self.project) or self.record  # another run may have been at it until now
            if self.record.dropped_at is not None:
                return
            done = self.record.done()
            if "prepare" in done and any(step.key not in done for step in steps):
                platforms.require_made(self.plan, self.places.sandboxes)
            self._note_edits(steps)
            places.ensure(self.places.public, places.PUBLIC)
            for number, step in enumerate(steps, 1):
                if step.key not in self.record.done():
                    self._step(step, number, steps)
                self._compute(step, steps)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the one run of this plan. Raises EnvironmentUnsuitable where there is another, or the folder is not ours.

        What is written there would follow what somebody else had put into it.
        """
        folder = os.open(self.places.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if (owner := os.fstat(folder).st_uid) != os.geteuid():
                raise EnvironmentUnsuitable(
                    f'folder "{self.places.folder}" belongs to user id {owner}, and is not that of this run',
                    hint="Move it away, or copy the plan into a folder of yours.",
                )
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise EnvironmentUnsuitable(
                    f'"{self.project}" is being run by another pgdyno', hint="Wait for its end."
                ) from error
            yield
        finally:
            os.close(folder)

    def _note_edits(self, steps: tuple[RunStep, ...]) -> None:
        """Put on record which of the plan's files were edited since the run began; what is done is not done again."""
        known, done = self.record.files, self.record.done()
        edited = sorted(name for name, digest in self.plan.files.items() if known.get(name, digest) != digest)
        if edited:
            here = next((step.text for step in steps if step.key not in done), "the end")
            told = tuple(f"{name} was edited after the run had begun, before: {here}" for name in edited)
            self._keep(replace(self.record, files=self.plan.files, edits=(*self.record.edits, *told)))

    def _step(self, step: RunStep, number: int, steps: tuple[RunStep, ...]) -> None:
        if why := self.halt():
            raise RunEnded(why)
        before = self.record.steps.get(step.key)
        if before is not None and before.process is not None:
            self._await_end(before.process)
        attempt = 1 if before is None else before.attempt + 1
        began = RunStepRecord(step.scenario, time.time(), attempt, side=step.side)
        head = f"step {number} of {len(steps)}: {step.text}"
        left = seconds_left(self.plan, steps, self.record.done(), step.key, 0.0)
        self.announce(f"{head}; about {seconds_text(left)} left by the plan")
        self._keep(self.record.with_step(step.key, began))
        watch = _Watch(self, steps, step, head)
        if step.work is StepWork.PREPARE:
            self._prepare()
            ended = replace(began, code=0)
        elif step.work is StepWork.CAPTURE:
            ended = self._capture(began, watch)
        else:
            ended = self._verb(step, began, before, watch)
        self._keep(self.record.with_step(step.key, replace(ended, ended_at=time.time())))

    def _await_end(self, left: ProcessIdentity) -> None:
        """Wait for a verb that a killed run had begun: it was told to end, and puts back what it had changed."""
        deadline = time.monotonic() + END_S
        if left.is_alive():
            self.announce(f"process {left.pid}, which a killed run had begun, is ending")
        while left.is_alive():
            if why := self.halt():
                raise RunEnded(why)
            if time.monotonic() > deadline:
                raise EnvironmentUnsuitable(
                    f"process {left.pid}, which a killed run had begun, does not end", hint="Wait for it, or end it."
                )
            time.sleep(LOOK_S)

    def _keep(self, record: ProjectRunRecord) -> None:
        self.record = record
        write_run_record(self.project, record)

    def _prepare(self) -> None:
        for one in self.plan.platforms:
            name = self.places.sandboxes[one.name]
            self._keep(replace(self.record, sandboxes={**self.record.sandboxes, one.name: name}))
            platforms.make_platform(one, name, self.plan, self.announce)

    def _capture(self, began: RunStepRecord, watch: _Watch) -> RunStepRecord:
        """Run the load and capture it; the capture ends when the load has."""
        load = self.plan.capture
        assert load is not None, "there is no such step without"
        one = next(one for one in self.plan.platforms if one.name == load.on)
        folder = self.places.folder / f"capture.{began.attempt}"
        with platforms.started(one, self.places.sandboxes[one.name]) as target:
            conninfo = platforms.conninfo_of(target, "postgres")
            longest = 2 * load.seconds + BEGIN_S + LEEWAY_S
            words = ("capture", "start", "--target", conninfo, "--yes", "--json", "--for", f"{longest:.0f}s",
                     "--output", str(folder))  # fmt: skip
            child = _Child.start(self, words, f"{watch.step.label}.{began.attempt}")
            with child:
                self._keep(self.record.with_step(watch.step.key, replace(began, process=child.identity)))
                child.until(CAPTURING, BEGIN_S, self.halt)
                with platforms.running_load(target, load, self.plan.path(load.script), self.plan.data.database) as work:
                    began_s = time.monotonic()
                    while work.poll() is None:
                        watch.look(lambda: load_words(time.monotonic() - began_s, load.seconds))
                        time.sleep(LOOK_S)
                for known in known_captures():
                    if known.progress.process.pid == child.process.pid:
                        known.stop()
                code = child.wait(watch)
        if code != 0:
            raise child.failure(code)
        return replace(began, code=code, place=str(folder))

    def _verb(self, step: RunStep, began: RunStepRecord, before: RunStepRecord | None, watch: _Watch) -> RunStepRecord:
        run = self._scenario(step)
        left = None if before is None or before.code is not None else self._left_study(step, before)
        with platforms.started(*self._held(step)) if step.held else nullcontext() as held:
            if held is not None:
                conninfo = {step.held: platforms.conninfo_of(held, self.plan.data.database)}
                self.places = replace(self.places, conninfo=conninfo)
            capture = self.record.steps.get("capture")
            words = words_of(
                step, self.places, run, attempt=began.attempt, capture="" if capture is None else capture.place
            )
            for file in made_anew(step, self.places):
                file.unlink(missing_ok=True)
            if left is not None and step.resumable:
                self.announce(f"study {left.id} is continued")
                words = resumed_words(words, left.id)
            child = _Child.start(self, words, f"{step.label}.{began.attempt}")
            with child:
                self._keep(self.record.with_step(step.key, replace(began, process=child.identity)))
                code = child.wait(watch)
        if code not in RESULTS:
            self._keep(self.record.with_step(step.key, replace(began, code=code)))
            raise child.failure(code)
        return replace(began, code=code, study=child.study() if step.kind is not None else "")

    def _held(self, step: RunStep) -> tuple[RunPlatform, str]:
        one = next(one for one in self.plan.platforms if one.name == step.held)
        return one, self.places.sandboxes[one.name]

    def _scenario(self, step: RunStep) -> ScenarioRun:
        return next(run for run in self.plan.scenarios if run.scenario == step.scenario)

    def _left_study(self, step: RunStep, before: RunStepRecord) -> Study | None:
        """Return the study that the step had begun when it was killed; a shared store has those of others as well."""
        sandbox = self.places.sandboxes[self._scenario(step).new]
        for study in self.store.studies(target=f"sandbox {sandbox}"):  # the newest first
            is_later = study.created_at >= before.began_at
            if study.kind is step.kind and is_later and study.state is not StudyState.COMPLETE:
                return study
        return None

    def _compute(self, step: RunStep, steps: tuple[RunStep, ...]) -> None:
        """Compute what a scenario came to, once its last step is done; the outcomes of replays are deleted later."""
        own = [one for one in steps if one.scenario == step.scenario]
        if not step.scenario or own[-1].key != step.key or step.scenario in self.record.notes:
            return
        run = self._scenario(step)
        sides: dict[str, list[Study]] = {"old": [], "new": []}
        for one in own:
            if one.kind is not None and one.side:
                sides[one.side].append(self.store.study(self.record.steps[one.key].study))
        found = self._found(run, sides)
        for note in found.notes:
            self.announce(f"{run.scenario}: {note}")
        figures = tuple(
            FoundFigure(run.scenario, name, one.value, one.lo, one.hi, one.how) for name, one in found.figures.items()
        )
        rows = tuple(FoundRow(run.scenario, row) for row in found.rows)
        self._keep(
            replace(
                self.record,
                figures=(*self.record.figures, *figures),
                rows=(*self.record.rows, *rows),
                notes={**self.record.notes, run.scenario: found.notes},
            )
        )

    def _found(self, run: ScenarioRun, sides: Mapping[str, list[Study]]) -> ScenarioFound:
        old, new = sides["old"], sides["new"]
        match run.kind:
            case RunKind.MIGRATE:
                return of_migration(new[-1])
            case RunKind.SCALE:
                return of_levels(new[-1])
            case RunKind.BATCH:
                path = self.plan.path(run.plan)
                return of_chain(parse_chain(read_own(path), source=run.plan, folder=self.plan.folder), old[-1], new[-1])
            case RunKind.REPLAY:
                return of_replays(self.places.trace, old, new)

    def drop(self) -> None:
        """Remove what the run made: sandboxes, trace, outcomes, logs. The record and the store's studies stay."""
        platforms.remove_platforms(dict(self.record.sandboxes), self.announce)
        for folder in (self.places.folder, self.places.public):
            shutil.rmtree(folder, ignore_errors=True)
        self._keep(replace(self.record, dropped_at=time.time()))


def resumed_words(words: tuple[str, ...], study: str) -> tuple[str, ...]:
    """Return the words that go on with a study: a rehearsal with its plan, levels without."""
    if words[0] == "scale":
        return ("scale", "--resume", study, "--yes", "--json")
    return (*words, "--resume", study)


@dataclass(slots=True)
class _Watch:
    """Looks whether the run is to end, and says now and then how far a step is."""

    run: ProjectRun
    steps: tuple[RunStep, ...]
    step: RunStep
    head: str
    began: float = 0.0
    told: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.told = time.monotonic()

    def look(self, last: Callable[[], str]) -> None:
        """Raise RunEnded where the run is to end; `last` gives the last words of the step."""
        if why := self.run.halt():
            raise RunEnded(why)
        now = time.monotonic()
        if now - self.told < TELL_S:
            return
        self.told = now
        left = seconds_left(self.run.plan, self.steps, self.run.record.done(), self.step.key, now - self.began)
        self.run.announce(f"{self.head}: {last()}; about {seconds_text(left)} left by the plan")


@dataclass(slots=True)
class _Child:
    """A verb that runs as a process of this pgdyno; it is told to end when we end, and puts back what it changed."""

    process: Process
    words: tuple[str, ...]
    out: Path
    errors: Path

    @classmethod
    def start(cls, run: ProjectRun, words: tuple[str, ...], name: str) -> _Child:
        environment = {
            "PYTHONPATH": python_path(),
            "PYTHONSAFEPATH": "1",
            "PGDYNO_STORE": run.store_url,
            PARENT: str(os.getpid()),
        }
        out, errors = run.places.folder / f"{name}.out", run.places.folder / f"{name}.log"
        process = LocalRunner().start(
            [sys.executable, "-m", "pgdyno", *words], env=environment, cwd=run.plan.folder, stdout=out, stderr=errors,
            kind=ProgramKind.OURSELVES,
        )  # fmt: skip
        return cls(process, words, out, errors)

    @property
    def identity(self) -> ProcessIdentity | None:
        """Return which process it is, None where it has ended."""
        return ProcessIdentity.of(self.process.pid)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Tell it to end, and wait until it has put back what it changed."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def last(self) -> str:
        """Return the last line that it said, and how long ago where that is long."""
        said = self.errors.read_text(errors="replace")
        return said_words(said, time.time() - self.errors.stat().st_mtime)

    def until(self, words: str, seconds: float, halt: Callable[[], str]) -> None:
        """Wait until it has said these words. Raises EnvironmentUnsuitable where it has ended, or does not say them."""
        deadline = time.monotonic() + seconds
        while words not in self.errors.read_text(errors="replace"):
            if why := halt():
                raise RunEnded(why)
            if (code := self.process.poll()) is not None:
                raise self.failure(code)
            if time.monotonic() > deadline:
                raise EnvironmentUnsuitable(f"{self.words[0]} has not begun within {seconds:g} s: {self.last()}")
            time.sleep(LOOK_S)

    def wait(self, watch: _Watch) -> int:
        """Return its exit code."""
        while (code := self.process.poll()) is None:
            watch.look(self.last)
            time.sleep(LOOK_S)
        return code

    def study(self) -> str:
        """Return the study that its result names."""
        try:
            return str(json.loads(self.out.read_text().splitlines()[-1])["study"])
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise EnvironmentUnsuitable(f"pgdyno {self.words[0]} told no result", detail=self.last()) from error

    def failure(self, code: int) -> PgdynoError:
        """Return the error of a verb that came to no result, with what it said last."""
        said = [line for line in self.errors.read_text(errors="replace").splitlines() if line.strip()][-4:]
        return EnvironmentUnsuitable(
            f"pgdyno {self.words[0]} produced no result, exit code {code}",
            detail="\n".join(said) or None,
            hint=f"Read {self.errors}, then run the same command again: finished steps are not repeated.",
        )
