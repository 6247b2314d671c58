"""What `pgdyno project run` does: check the plan, say what would be run, run it, and write the reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FOLDER, Flags, argument, flag, two_sides
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.main import INTERRUPTED
from pgdyno.cli.terminal.progress import Progress
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.outside.files import is_there, read_bytes

if TYPE_CHECKING:
    from pgdyno.model.project import Amendment, Fixed, Project
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.project.build import ProjectFacts
    from pgdyno.studies.project.run_plan import RunPlan
    from pgdyno.studies.project.run_record import ProjectRunRecord
    from pgdyno.studies.project.run_steps import RunPlaces

Known = tuple["Project", "ProjectFacts", "Fixed | None", tuple["Amendment", ...]]
"""A project, what the store knows of it, what was fixed of it, and edits since."""


class FileFlags(Flags):
    """The flags of a verb that reads a project file."""

    path: Path = argument("FILE")


class RunFlags(FileFlags, StoreFlag):
    """The flags of `pgdyno project run`."""

    apply: bool = flag("Run the plan; without it the plan is printed and nothing is run.")
    programs: tuple[str, ...] = flag(
        "Folder of a platform's PostgreSQL programs, instead of the plan's; may be given again.", metavar="NAME=DIR"
    )
    max_seconds: float = flag(
        "End the run after this time; the same command continues it.", default=86_400.0, type=Time("s", 1)
    )
    stop_file: Path | None = flag("End the run when this file exists.")
    keep_data: bool = flag("Keep the sandboxes, the trace and the logs at the end.")
    report: Path | None = flag(
        "Write the reports into this folder.  [default: FILE's name with -report]", type=FOLDER, metavar="FOLDER"
    )


def run_project(flags: RunFlags, check: Callable[[], int], known: Callable[[], Known]) -> int:
    """Run the plan of a project.

    `check` prints how the criteria stand and returns the exit code of the verb; `known` reads what is known by then.
    """
    from pgdyno.owner.signals import signals_interrupt
    from pgdyno.store.engine import absolute
    from pgdyno.studies.project.file import parse_project
    from pgdyno.studies.project.fix import fix, read_record
    from pgdyno.studies.project.run_plan import parse_run
    from pgdyno.studies.project.run_platforms import public_folder, require_ours, sandbox_names, versions
    from pgdyno.studies.project.run_record import ProjectRunRecord, read_run_record
    from pgdyno.studies.project.run_steps import RunPlaces
    from pgdyno.studies.project.running import ProjectRun, RunEnded
    from pgdyno.studies.session.guarding import halting

    path = flags.path
    text, progress = _own_text(path), Progress()
    project = parse_project(text, source=path.name)
    plan = _with_programs(parse_run(text, source=path.name, folder=path.absolute().parent), flags.programs)
    builds = versions(plan, path.name)
    record, names = read_run_record(path), sandbox_names(path, plan)
    require_ours(path, names, {} if record is None else record.sandboxes)
    folder = path.absolute().with_name(f"{path.name}.run")
    if record is None and os.path.lexists(folder):
        raise UsageError(f'"{folder}" exists already, and no run made it', hint="Move it away.")
    places = RunPlaces(folder, public_folder(path), names, {})
    reports = flags.report or path.absolute().with_name(f"{path.stem}-report")
    for line in plan_lines(plan, places, builds, record, keep=flags.keep_data, reports=reports):
        click.echo(line, err=True)
    if not flags.apply:
        progress.announce("nothing was run; add --apply to run it")
        return 0
    if read_record(path) is None:
        fixed = fix(project, path, time.time())
        progress.announce(f"goals, criteria and planned days are fixed, sha256 {fixed.sha256[:16]}")
    if record is None:
        record = ProjectRunRecord(plan.files, {one.scenario: one.planned_s for one in plan.scenarios})
    halt = halting(flags.max_seconds, flags.stop_file)
    with open_store(flags.store_url) as store:
        one = ProjectRun(
            path,
            plan,
            record,
            store,
            absolute(flags.store_url) if flags.store_url else store.name,
            places,
            halt,
            progress.announce,
        )
        try:
            with signals_interrupt():
                if record.dropped_at is None:
                    one.run()
        except (RunEnded, KeyboardInterrupt) as ended:
            progress.announce(
                f"ended: {str(ended) or 'a signal'}; finished steps are kept, and the same command continues"
            )
            return INTERRUPTED
        except PgdynoError:
            try:
                write_reports(known(), store, one.record, reports, progress)
            except (PgdynoError, OSError) as error:  # what ended the run is what has to be told
                progress.announce(f"no report: {error}")
            raise
        write_reports(known(), store, one.record, reports, progress)
        if not flags.keep_data and one.record.dropped_at is None:
            one.drop()
    return check()


def plan_lines(
    plan: RunPlan,
    places: RunPlaces,
    builds: Mapping[str, str],
    record: ProjectRunRecord | None,
    *,
    keep: bool,
    reports: Path,
) -> list[str]:
    """Return what would be run, how it is undone and what is out of reach meanwhile.

    `plan` has platforms, steps and planned times, `places` the folder of the run and its sandboxes. `builds` has the
    version of PostgreSQL by platform, `record` what an earlier run did, None where there was none; `reports` is the
    folder of the report. `keep` leaves sandboxes and folder there at the end.
    """
    from pgdyno.studies.project.run_steps import run_steps
    from pgdyno.units import seconds_text

    done = {} if record is None else record.done()
    lines = [
        f'platform {one.name}: sandbox "{places.sandboxes[one.name]}", PostgreSQL {builds[one.name]}'
        for one in plan.platforms
    ]
    for number, step in enumerate(run_steps(plan), 1):
        of = f"{step.scenario}: " if step.scenario else ""
        lines.append(f"step {number:>2}  {of}{step.text}{'  (done)' if step.key in done else ''}")
    planned = ", ".join(f"{one.scenario} {seconds_text(one.planned_s)}" for one in plan.scenarios)
    whole = seconds_text(sum(one.planned_s for one in plan.scenarios))
    lines.append(f"planned  {planned}; {whole} together")
    kept = "kept" if keep else "removed at the end"
    lines += [
        f"undo     sandboxes and {places.folder} are {kept}; each step puts back what it sets, after a kill too",
        "outage   none: no server but these sandboxes is touched, and they listen on Unix sockets only",
        f"report   {reports}",
    ]
    return lines


def write_reports(known: Known, store: Store, record: ProjectRunRecord, reports: Path, progress: Progress) -> None:
    """Write the report of what is `known` of a plan into the folder `reports`, with the page of each study beside.

    It is there as HTML, Markdown and, where there is a browser, PDF. A whole one that says the same stays. `record`
    names the studies that the steps left, which are read from `store`. `progress` is told where the report is, and why
    it has no PDF.
    """
    from pgdyno.outputs import checked_place, ensure_folder, write_output
    from pgdyno.report.drawing import markdown
    from pgdyno.report.drawing.html import render, write_html
    from pgdyno.report.drawing.pdf import write_pdf
    from pgdyno.studies.project.page import project_page
    from pgdyno.studies.reports import build_report

    ensure_folder(reports)
    ensure_folder(reports / "studies")
    pages = {one.study: f"studies/{one.study}.html" for one in record.steps.values() if one.study}
    report = project_page(*known, pages=pages)
    html, text, printed = (reports / f"project.{ending}" for ending in ("html", "md", "pdf"))
    if not _is_drawn(html, render(report), (text, printed, *(reports / page for page in pages.values()))):
        checked_place(printed).unlink(missing_ok=True)  # one of an earlier state stands beside no other page
        for study, page in pages.items():
            write_html(build_report(store, study), reports / page)
        write_html(report, html)
        write_output(text, markdown.render(report))
        try:
            write_pdf(report, printed)
        except PgdynoError as error:
            progress.announce(f"no PDF: {error.one_line}")
    progress.announce(f"report: {html}")


def _is_drawn(page: Path, content: str, others: Iterable[Path]) -> bool:
    """Tell whether a page says the same already, with all the others beside it."""
    try:
        return read_bytes(page) == content.encode() and all(map(is_there, others))
    except (OSError, ValueError):
        return False


def _own_text(path: Path) -> str:
    from pgdyno.studies.batch.job_process import read_own

    if not is_there(path):
        raise UsageError(f'there is no file "{path}"', hint="Name a project file; examples/certification has one.")
    return read_own(path, hint="Name a project file; examples/certification has one.")


def _with_programs(plan: RunPlan, words: tuple[str, ...]) -> RunPlan:
    named = dict(
        two_sides(word, "--programs", "NAME=DIR", "--programs old=/usr/lib/postgresql/13/bin") for word in words
    )
    known = [one.name for one in plan.platforms]
    for name in named:
        if name not in known:
            raise UsageError(f'--programs: there is no platform "{name}"', hint=f"There are {', '.join(known)}.")
    return replace(
        plan,
        platforms=tuple(
            replace(one, programs=str(Path(named[one.name]).absolute())) if one.name in named else one
            for one in plan.platforms
        ),
    )
