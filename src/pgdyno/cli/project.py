"""`pgdyno project new|fix|amend|run|check|report`: a benchmark project, planned against actual."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.requests.project_run import FileFlags, Known, RunFlags, run_project
from pgdyno.cli.terminal.files import read_text, write_text
from pgdyno.cli.terminal.reporting import ReportFlags, emit
from pgdyno.errors import ExitCode, UsageError
from pgdyno.outside.files import is_there

if TYPE_CHECKING:
    from pgdyno.model.project import Project


@click.group("project")
def command() -> None:
    """Keep the plan of a benchmark project, and report planned against actual.

    A file names scenarios with goal, criterion and planned days. Its criteria are fixed before the first run; what is
    edited later is an amendment. Figures come from studies of the store, or from rows of the file.
    """


@verb("new", command)
def new(flags: FileFlags) -> None:
    """Write a project file to fill in; one that exists is not overwritten."""
    from pgdyno.studies.project.file import TEMPLATE

    if is_there(flags.path):
        raise UsageError(f'"{flags.path}" already exists', hint="Name a new file, such as project.toml.")
    write_text(flags.path, TEMPLATE, "project")
    click.echo(f"wrote {flags.path}; next: pgdyno project fix {flags.path}", err=True)


@verb("fix", command)
def fix(flags: FileFlags) -> None:
    """Fix goals, criteria and planned days, before the first run; the record lies beside the file."""
    from pgdyno.studies.project.fix import fix as put_down
    from pgdyno.studies.project.fix import record_path

    fixed = put_down(_read(flags.path), flags.path, time.time())
    click.echo(f"fixed {fixed.at} by {fixed.by}, sha256 {fixed.sha256[:16]}: {record_path(flags.path)}")


class _AmendFlags(FileFlags):
    reason: str = flag("Why what was fixed is changed.", metavar="TEXT")


@verb("amend", command)
def amend(flags: _AmendFlags) -> None:
    """Record edits of what was fixed: the old text, who made them, and why."""
    from pgdyno.studies.project.fix import amend as put_on_record
    from pgdyno.studies.project.fix import read_record

    project, record = _read(flags.path), read_record(flags.path)
    if record is None:
        raise UsageError(f'"{flags.path}" is not fixed', hint=f"Fix it first with pgdyno project fix {flags.path}.")
    found = put_on_record(project, flags.path, record, flags.reason, time.time())
    for one in found:
        click.echo(f"{one.scenario}: {one.field}: {one.old or 'none'} -> {one.new or 'none'}")
    if not found:
        click.echo("nothing that was fixed has been edited", err=True)


@verb("run", command)
def run(flags: RunFlags) -> int:
    """Run the scenarios of the plan in their order, judge them, and write the report.

    Prints the plan, the undo and the outage, and runs nothing without --apply. Works on sandboxes that it makes and
    removes at its end, on Unix sockets only. Criteria that are not fixed yet are fixed before the first step. After a
    stop or a kill the same command continues: finished steps are not run again.

    Exit code as that of check; 6 where a step came to no result, 130 where the run was ended before its time.
    """
    path, store_url = flags.path, flags.store_url
    return run_project(
        flags, lambda: check_project(path, store_url, as_json=False), lambda: known_project(path, store_url)
    )


class _CheckFlags(FileFlags, JsonFlag, StoreFlag):
    pass


@verb("check", command)
def check(flags: _CheckFlags) -> int:
    """Judge every criterion: exit code 0 when all are met, 1 when one is missed, 3 when one is open or not resolved."""
    return check_project(flags.path, flags.store_url, as_json=flags.as_json)


def check_project(path: Path, store_url: str | None, *, as_json: bool) -> int:
    """Print how every criterion stands, and return the exit code."""
    from pgdyno.model.project import CriterionStatus
    from pgdyno.studies.project.judged import bound_text, judged, overall
    from pgdyno.studies.project.replays import qualified_warnings
    from pgdyno.units import plural

    project, facts, fixed, edits = known_project(path, store_url)
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
            "warnings": list(qualified_warnings(one.facts.replays)),
        }
        for one in scenarios
    ]
    if as_json:
        kept = None if fixed is None else {"at": fixed.at, "by": fixed.by, "sha256": fixed.sha256}
        amended = len(edits) + (len(fixed.amendments) if fixed else 0)
        click.echo(json.dumps({"project": project.name, "standing": whole.value, "fixed": kept, "amendments": amended,
                               "unrecorded": len(edits), "scenarios": rows}))  # fmt: skip
    else:
        for one, row in zip(scenarios, rows, strict=True):
            found = one.facts.measured
            figure = "not measured" if found is None else f"{found.value:.2f} ({found.how})"
            click.echo(f"{row['standing']:<12}  {one.scenario.name}: {figure}, {row['metric']} {row['criterion']}")
            for text in qualified_warnings(one.facts.replays):
                click.echo(f"warning: {one.scenario.name}: {text}", err=True)
        if fixed is None:
            click.echo("the criteria are not fixed: pgdyno project fix", err=True)
        if edits:
            told = plural(len(edits), "edit")
            click.echo(f"not on record: {told} of what was fixed; pgdyno project amend records them", err=True)
    return int(
        {CriterionStatus.MET: ExitCode.OK, CriterionStatus.MISSED: ExitCode.FINDINGS}.get(whole, ExitCode.NOT_RESOLVED)
    )


class _ReportFlags(FileFlags, ReportFlags, StoreFlag):
    pass


@verb("report", command)
def report(flags: _ReportFlags) -> None:
    """Write the report: planned against actual, results, conclusion, sizing, checklists and amendments."""
    from pgdyno.studies.project.page import project_page

    known = known_project(flags.path, flags.store_url)
    emit(project_page(*known), flags.wanted, flags.output)


def _read(path: Path) -> Project:
    from pgdyno.studies.project.file import parse_project

    hint = f"Make one with pgdyno project new {path}." if not is_there(path) else "Name a project file."
    return parse_project(read_text(path, "project", hint=hint), source=path.name)


def known_project(path: Path, store_url: str | None) -> Known:
    """Read the project, what the store knows of it, and its record; the store is opened only when studies are named."""
    from pgdyno.studies.project.build import read_project
    from pgdyno.studies.project.fix import pending, read_record
    from pgdyno.studies.project.run_record import read_run_record, with_run

    project, record = _read(path), read_record(path)
    done = read_run_record(path)
    project = with_run(project, done)
    if any(scenario.studies for scenario in project.scenarios):
        with open_store(store_url) as store:
            facts = read_project(project, store, done)
    else:
        facts = read_project(project, None, done)
    edits = () if record is None else pending(project, record, path.stat().st_mtime)
    return project, facts, None if record is None else record.fixed, edits
