"""`pgdyno project new|fix|amend|check|report`: a benchmark project, planned against actual."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.terminal.files import read_text, write_text
from pgdyno.cli.terminal.reporting import emit, format_of, format_option

if TYPE_CHECKING:
    from pgdyno.model.project import Amendment, Fixed, Project
    from pgdyno.studies.project.build import ProjectFacts


@click.group("project")
def command() -> None:
    """Keep the plan of a benchmark project, and report planned against actual.

    A file names scenarios with goal, criterion and planned days. Its criteria are fixed before the first run; what is
    edited later is an amendment. Figures come from studies of the store, or from rows of the file.
    """


_FILE = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))


@command.command("new")
@_FILE
def new(path: Path) -> None:
    """Write a project file to fill in; one that exists is not overwritten."""
    from pgdyno.errors import UsageError
    from pgdyno.studies.project.file import TEMPLATE

    if path.exists():
        raise UsageError(f'"{path}" is there already', hint="Name a new file, such as project.toml.")
    write_text(path, TEMPLATE, "project")
    click.echo(f"wrote {path}; next: pgdyno project fix {path}", err=True)


@command.command("fix")
@_FILE
def fix(path: Path) -> None:
    """Fix goals, criteria and planned days, before the first run; the record lies beside the file."""
    from pgdyno.studies.project.fix import fix as put_down
    from pgdyno.studies.project.fix import record_path

    fixed = put_down(_read(path), path, time.time())
    click.echo(f"fixed {fixed.at} by {fixed.by}, sha256 {fixed.sha256[:16]}: {record_path(path)}")


@command.command("amend")
@_FILE
@click.option("--reason", required=True, metavar="TEXT", help="Why what was fixed is changed.")
def amend(path: Path, reason: str) -> None:
    """Put edits of what was fixed on record, with the old text, who and why."""
    from pgdyno.errors import UsageError
    from pgdyno.studies.project.fix import amend as put_on_record
    from pgdyno.studies.project.fix import read_record

    project, record = _read(path), read_record(path)
    if record is None:
        raise UsageError(f'"{path}" is not fixed', hint=f"Fix it first with pgdyno project fix {path}.")
    found = put_on_record(project, path, record, reason, time.time())
    for one in found:
        click.echo(f"{one.scenario}: {one.field}: {one.old or 'none'} -> {one.new or 'none'}")
    if not found:
        click.echo("nothing that was fixed has been edited", err=True)


@command.command("check")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def check(**values: object) -> int:
    """Judge every criterion: exit code 0 when all are met, 1 when one is missed, 3 when one is open or not resolved."""
    from pgdyno.errors import ExitCode
    from pgdyno.model.project import CriterionStatus
    from pgdyno.studies.project.page import bound_text, judged, overall
    from pgdyno.units import plural

    flags = Flags(values)
    project, facts, fixed, edits = _known(Path(flags.choice("path")), flags.text("store_url"))
    scenarios = judged(project, facts)
    whole = overall(scenarios)
    rows = [
        {
            "scenario": one.scenario.name,
            "standing": one.standing.value,
            "metric": one.scenario.criterion.metric,
            "criterion": bound_text(one.scenario.criterion),
            "measured": None if one.facts.measured is None else one.facts.measured.value,
            "range": None if one.facts.measured is None else [one.facts.measured.lo, one.facts.measured.hi],
            "how": None if one.facts.measured is None else one.facts.measured.how,
            "planned_days": one.scenario.planned_days,
            "days": one.facts.actual.days,
            "runs": one.facts.actual.runs,
        }
        for one in scenarios
    ]
    if flags.on("as_json"):
        kept = None if fixed is None else {"at": fixed.at, "by": fixed.by, "sha256": fixed.sha256}
        amended = len(edits) + (len(fixed.amendments) if fixed else 0)
        click.echo(json.dumps({"project": project.name, "standing": whole.value, "fixed": kept, "amendments": amended,
                               "unrecorded": len(edits), "scenarios": rows}))  # fmt: skip
    else:
        for one, row in zip(scenarios, rows, strict=True):
            found = one.facts.measured
            figure = "not measured" if found is None else f"{found.value:.2f} ({found.how})"
            click.echo(f"{row['standing']:<12}  {one.scenario.name}: {figure}, {row['metric']} {row['criterion']}")
        if fixed is None:
            click.echo("the criteria are not fixed: pgdyno project fix", err=True)
        if edits:
            told = plural(len(edits), "edit")
            click.echo(f"not on record: {told} of what was fixed; pgdyno project amend records them", err=True)
    return int(
        {CriterionStatus.MET: ExitCode.OK, CriterionStatus.MISSED: ExitCode.FINDINGS}.get(whole, ExitCode.NOT_RESOLVED)
    )


@command.command("report")
@_FILE
@format_option
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write here.")
@store_option
def report(**values: object) -> None:
    """Write the report: planned against actual, results, conclusion, sizing, checklists and amendments."""
    from pgdyno.studies.project.page import project_page

    flags = Flags(values)
    output = flags.path("output")
    known = _known(Path(flags.choice("path")), flags.text("store_url"))
    chosen = format_of(flags.text("wanted"), output)
    emit(project_page(*known), chosen, output)


def _read(path: Path) -> Project:
    from pgdyno.studies.project.file import parse_project

    hint = f"Make one with pgdyno project new {path}." if not path.exists() else "Name a project file."
    return parse_project(read_text(path, "project", hint=hint), source=path.name)


def _known(path: Path, store_url: str | None) -> tuple[Project, ProjectFacts, Fixed | None, tuple[Amendment, ...]]:
    """Read the project, what the store knows of it, and its record; the store is opened only when studies are named."""
    from pgdyno.studies.project.build import read_project
    from pgdyno.studies.project.fix import pending, read_record

    project, record = _read(path), read_record(path)
    if any(scenario.studies for scenario in project.scenarios):
        with open_store(store_url) as store:
            facts = read_project(project, store)
    else:
        facts = read_project(project, None)
    edits = () if record is None else pending(project, record, path.stat().st_mtime)
    return project, facts, None if record is None else record.fixed, edits
