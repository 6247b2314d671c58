"""What a run has done, as a file beside the plan: a killed one goes on from there. Written anew after every step.

It also keeps what was computed of runs whose files are deleted at the end: figures, and rows for the headlines.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.project import Measured, Project, ProjectRow
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.tables import is_version
from pgdyno.outputs import write_output
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import MOST_BYTES, decode, open_file
from pgdyno.outside.way import name_of

VERSION = 2
"""In version 1 the side of a replay stood in its step's key alone."""


@dataclass(frozen=True, slots=True)
class RunStepRecord:
    """A step that began. `ended_at` None where it did not end; `study` is what it left, `place` a folder of its.

    `side` is that of its platform, old or new, where the step is of one.
    """

    scenario: str
    began_at: float
    attempt: int = 1
    ended_at: float | None = None
    code: int | None = None
    study: str = ""
    place: str = ""
    side: str = ""
    process: ProcessIdentity | None = None
    """The verb that does it; after a kill of the run it may be putting something back yet."""

    @property
    def seconds(self) -> float:
        """Return how long it took; 0 where it has not ended."""
        return 0.0 if self.ended_at is None else self.ended_at - self.began_at


@dataclass(frozen=True, slots=True)
class FoundFigure:
    """A figure that was computed when a scenario was over, by the name that a criterion has for it."""

    scenario: str
    metric: str
    value: float
    lo: float
    hi: float
    how: str


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row that was computed of a scenario's studies."""

    scenario: str
    row: ProjectRow


@dataclass(frozen=True, slots=True)
class ProjectRunRecord:
    """The whole of it. `sandboxes` are those that the run made, by platform; `planned` seconds by scenario.

    `files` are the digests of the files that the plan names; `edits` says which of them were edited since the begin.
    """

    files: Mapping[str, str]
    planned: Mapping[str, float]
    sandboxes: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, RunStepRecord] = field(default_factory=dict)
    figures: tuple[FoundFigure, ...] = ()
    rows: tuple[FoundRow, ...] = ()
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What keeps something from counting, by scenario; there for each scenario that is over."""
    edits: tuple[str, ...] = ()
    dropped_at: float | None = None

    def took_s(self, scenario: str) -> float | None:
        """Return how long the steps of a scenario took; None where not one is done."""
        found = [one.seconds for one in self.steps.values() if one.scenario == scenario and one.ended_at is not None]
        return sum(found) if found else None

    def studies(self, scenario: str) -> tuple[str, ...]:
        """Return the studies that the steps of a scenario left, in their order."""
        return tuple(one.study for one in self.steps.values() if one.scenario == scenario and one.study)

    def references(self, scenario: str) -> frozenset[str]:
        """Return the studies of its replays on the old side, whose figures are not those of the new platform."""
        steps = (one for one in self.steps.values() if one.scenario == scenario and one.side == "old")
        return frozenset(one.study for one in steps if one.study)

    def done(self) -> dict[str, float]:
        """Return the steps that are done, each with the seconds that it took."""
        return {key: one.seconds for key, one in self.steps.items() if one.ended_at is not None}

    def with_step(self, key: str, step: RunStepRecord) -> ProjectRunRecord:
        """Return the record with a step as it is now."""
        return replace(self, steps={**self.steps, key: step})


def run_record_path(project: Path) -> Path:
    """Return where the record of a project's run lies."""
    return project.with_name(f"{project.name}.run.json")


def read_run_record(project: Path) -> ProjectRunRecord | None:
    """Read the record; None where nothing was run. Raises UsageError where it is no record, or who knows whose."""
    place = run_record_path(project)
    try:
        document = load_json(decode(read_beside(place, project)))
        version = document.pop("version", None) if isinstance(document, dict) else None
        if not is_version(version, VERSION) and not is_version(version, 1):
            raise ValueError("it is not of this version")
        record = shaped(ProjectRunRecord, document, place.name)
        return record if version == VERSION else _with_sides(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, UsageError) as error:
        raise UsageError(
            f'"{place}" is not the record of a run',
            detail=str(error),
            hint="Delete it to run everything again: the sandboxes that it names are removed by pgdyno sandbox.",
        ) from error


def _with_sides(record: ProjectRunRecord) -> ProjectRunRecord:
    """Return a record of version 1 with the sides of its replays, `replay SCENARIO SIDE NUMBER`."""
    sides = {key: key.removeprefix(f"replay {one.scenario} ").partition(" ")[0] for key, one in record.steps.items()}
    known = {key: replace(one, side=sides[key]) for key, one in record.steps.items() if sides[key] in ("old", "new")}
    return replace(record, steps={**record.steps, **known})


def write_run_record(project: Path, record: ProjectRunRecord) -> None:
    """Write the record. Raises UsageError where the folder cannot be written."""
    place, document = run_record_path(project), plain(record)
    assert isinstance(document, dict), "a record is an object"
    try:
        write_output(place, json.dumps({"version": VERSION, **document}, indent=1) + "\n")
    except OSError as error:
        raise UsageError(
            f'"{place}" cannot be written', detail=error.strerror, hint="It lies beside the plan: copy the plan to a "
            "folder of yours.",
        ) from error  # fmt: skip


def with_run(project: Project, record: ProjectRunRecord | None) -> Project:
    """Return the project with the studies and rows of its run, beside those of its file."""
    if record is None:
        return project
    return replace(
        project,
        scenarios=tuple(
            replace(
                one,
                studies=(*one.studies, *record.studies(one.name)),
                notes=(*one.notes, *record.notes.get(one.name, ())),
                rows=(*one.rows, *(found.row for found in record.rows if found.scenario == one.name)),
            )
            for one in project.scenarios
        ),
    )  # fmt: skip


def figures_of(record: ProjectRunRecord | None, scenario: str) -> dict[str, Measured]:
    """Return the figures that a run computed of a scenario, by the name that criteria have for them."""
    found = () if record is None else record.figures
    return {one.metric: Measured(one.value, one.lo, one.hi, one.how) for one in found if one.scenario == scenario}


def read_beside(place: Path, plan: Path) -> bytes:
    """Return a file that pgdyno keeps beside a plan, from who could have written the plan, and no link.

    What is judged is what is read.

    Raises OSError where it cannot be opened, and ValueError where another account may have put it there.
    """
    with open_file(place, follow=False) as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) and status.st_uid != plan.stat().st_uid:
            raise ValueError(f"it belongs to {name_of(status.st_uid)}, who did not write the plan")
        if status.st_mode & stat.S_IWOTH:
            raise ValueError("everybody may write it")
        group = _group_of(status)
        if group is not None and group != _group_of(plan.stat()):  # by a umask of 002 both have one
            raise ValueError("its group may write it, and not the plan")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
    return content


def _group_of(status: os.stat_result) -> int | None:
    """Return the group that may write a file, None where none may."""
    return status.st_gid if status.st_mode & stat.S_IWGRP else None
