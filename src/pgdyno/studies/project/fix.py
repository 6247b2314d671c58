"""Fix the goals and criteria of a project before its first run; later edits become amendments. The record is a file.

It lies beside the project's file and belongs into the same version control. Its hash covers what was fixed at first, so
that an edit of the record is noticed; amendments are applied in their order.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.project import Amendment, Fixed, Project
from pgdyno.model.shapes import shaped
from pgdyno.outputs import write_output
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import decode
from pgdyno.studies.project.run_record import read_beside
from pgdyno.studies.who import who

VERSION = 1
_MOMENT = "%Y-%m-%d %H:%M:%S UTC"
_MINUTE = "%Y-%m-%d %H:%M UTC"
"""As older records have it."""
Terms = dict[str, dict[str, str]]
"""What is fixed: by scenario and field, as text."""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """The record as it is read: what was fixed at first, and what was amended since."""

    fixed: Fixed
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordFile:
    version: int
    at: str
    by: str
    sha256: str
    terms: Terms
    amendments: tuple[Amendment, ...]


def record_path(project: Path) -> Path:
    """Return where the record of a project's file lies."""
    return project.with_name(f"{project.name}.fixed.json")


def terms(project: Project) -> Terms:
    """Return what is fixed of a project: goal, criterion and planned days of every scenario."""
    return {
        one.name: {
            "goal": one.goal,
            "planned_days": f"{one.planned_days:g}",
            **{f"criterion.{name}": _text(value) for name, value in asdict(one.criterion).items()},
        }
        for one in project.scenarios
    }


def _text(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def digest(agreed: Terms) -> str:
    """Return the hash of what is fixed."""
    return hashlib.sha256(json.dumps(agreed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fix(project: Project, path: Path, now: float) -> Fixed:
    """Write the record. Raises UsageError when there is one already: what is fixed is amended, not fixed again."""
    place = record_path(path)
    if os.path.lexists(place):
        raise UsageError(
            f'"{place}" has fixed this project already',
            hint=f"Record later edits with pgdyno project amend {path} --reason TEXT.",
        )
    agreed = terms(project)
    fixed = Fixed(_stamp(now), who(), digest(agreed))
    _write(place, ProjectRecord(fixed, agreed))
    return fixed


def read_record(path: Path) -> ProjectRecord | None:
    """Read the record of a project's file; None when nothing is fixed.

    Raises UsageError when it was tampered with, or put there by who did not write the project.
    """
    place = record_path(path)
    try:
        found = shaped(_RecordFile, load_json(decode(read_beside(place, path))), place.name)
        moment_of(found.at)
        if found.version != VERSION:
            raise ValueError(f"its version {found.version} is not {VERSION}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            f'"{place}" cannot be read', detail=str(error), hint="Restore the file from version control."
        ) from error
    if digest(found.terms) != found.sha256:
        raise UsageError(
            f'"{place}" was edited: what it says was fixed does not have its hash',
            hint="Restore the file from version control.",
        )
    return ProjectRecord(Fixed(found.at, found.by, found.sha256, found.amendments), found.terms)


def moment_of(at: str) -> float:
    """Return when something was fixed, as a Unix time: of an older record the begin of its minute. Raises ValueError.

    A run that began within the same second is not told from one that began after it.
    """
    try:
        found = datetime.strptime(at, _MOMENT)
    except ValueError:
        found = datetime.strptime(at, _MINUTE)
    return found.replace(tzinfo=UTC).timestamp()


def pending(project: Project, record: ProjectRecord, edited_at: float) -> tuple[Amendment, ...]:
    """Return the edits of the project's file that are not on record; the file's time is named as when."""
    known = {name: dict(fields) for name, fields in record.terms.items()}
    for one in record.fixed.amendments:
        known.setdefault(one.scenario, {})[one.field] = one.new
    now = terms(project)
    when = f"not on record; the file is of {_stamp(edited_at)}"
    found = []
    for scenario in dict.fromkeys((*known, *now)):
        old, new = known.get(scenario, {}), now.get(scenario, {})
        for field in dict.fromkeys((*old, *new)):
            before, after = old.get(field, ""), new.get(field, "")
            if before != after:
                found.append(Amendment(None, when, scenario, field, before, after))
    return tuple(found)


def amend(project: Project, path: Path, record: ProjectRecord, reason: str, now: float) -> tuple[Amendment, ...]:
    """Put the edits on record with their reason and return them.

    `project` is the file at `path` as it is now, and `record` what was fixed of it and amended since. The `reason` goes
    with every edit, and `now`, a Unix time, is when they are put on record. The file of the record is written only
    where there are edits.
    """
    found = tuple(
        Amendment(_stamp(now), who(), one.scenario, one.field, one.old, one.new, reason)
        for one in pending(project, record, now)
    )
    if found:
        fixed = record.fixed
        whole = Fixed(fixed.at, fixed.by, fixed.sha256, (*fixed.amendments, *found))
        _write(record_path(path), ProjectRecord(whole, record.terms))
    return found


def _write(place: Path, record: ProjectRecord) -> None:
    fixed = record.fixed
    document: Mapping[str, object] = {
        "version": VERSION,
        "at": fixed.at,
        "by": fixed.by,
        "sha256": fixed.sha256,
        "terms": record.terms,
        "amendments": [asdict(one) for one in fixed.amendments],
    }
    try:
        write_output(place, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(
            f'"{place}" cannot be written',
            detail=error.strerror,
            hint="Free some space or grant the permission, then retry: it lies beside the project's file.",
        ) from error


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime(_MOMENT)
