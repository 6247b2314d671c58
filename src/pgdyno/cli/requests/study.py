"""What tune, bench, experiment and demo share: run a study in its session, print its result, write its report."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pgdyno.cli.terminal.files import read_text
from pgdyno.errors import UsageError
from pgdyno.outputs import check_output
from pgdyno.outside.files import is_there

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.control.restart_budget import RestartBudget
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudyRequest, StudySession
    from pgdyno.targets.target import Target

R = TypeVar("R", bound="StudyResult")
PLAN_WIDTH = 120
_LABEL_WIDTH = 9
RELOADS_ONLY = "reloads only"


def run_study(
    request: StudyRequest, store: Store, progress: Progress, body: Callable[[StudySession], R], report: Path | None
) -> R:
    """Run `body` in an open session, keep its result, restore the server and write the report.

    `request` says which study is opened on which server. The study is kept in `store`; `progress` shows how it goes.
    `report` is the HTML file to write, None for none. Raises RollbackError when the server could not be put back whole;
    the result was kept before.
    """
    from pgdyno.studies.session.outages import outage_record, outage_sentence
    from pgdyno.studies.session.study_session import open_study

    with open_study(request, store, progress, progress.announce) as session:
        result = body(session)
        if request.changes:
            trials = store.trials(session.study.id)
            result = replace(result, outage=outage_record(session.outage, trials))
            if sentence := outage_sentence(session.outage, trials):
                progress.announce(sentence)
        if report is not None:
            result = replace(result, report=str(report))
        session.finish(result)
    write_report(store, result, report, progress)
    return result


def write_report(store: Store, result: StudyResult, report: Path | None, progress: Progress) -> None:
    """Write the HTML report of a study where one was asked for.

    `result` names the study, which is read from `store`. `report` is the file, None where none was asked for;
    `progress` is told where it is.
    """
    if report is not None:
        from pgdyno.report.drawing.html import write_html
        from pgdyno.studies.reports import build_report

        write_html(build_report(store, result.study), report)
        progress.announce(f"report: {report}")


def told_json(store: Store, result: StudyResult) -> Mapping[str, object]:
    """Return a result as `--json` prints it, with the judgement that its report and the dashboard tell, too."""
    from pgdyno.model.shapes import plain
    from pgdyno.studies.kinds import judged

    study, told = store.study(result.study), plain(result)
    assert isinstance(told, dict), "a result is an object"
    return {**told, "judgement": judged(study).to_json()}


def confirm_changes(target: Target, workload: WorkloadSpec, plan: str, outage: str, *, ask: bool) -> None:
    """Say what will happen to a server that is not a sandbox, how it is undone and what it costs; then ask.

    `target` is that server and `workload` what is run on it. `plan` says what will be done, `outage` how often and how
    long the server will be away, each in words. Without `ask` nobody is asked. Raises UsageError where there is no
    terminal to ask, click's Abort on a no.
    """
    if target.disposable:
        return
    click.echo(f"target   {target.name}", err=True)
    say_wrapped("plan", plan)
    say_wrapped("load", f"{workload.description}, in databases of its own beside yours")
    say_wrapped("", "(pgdyno_*_template and pgdyno_*_load: dropped at the end, kept with --keep-data)")
    say_wrapped("outage", outage)
    last = "--last" if target.remote is None else f"--last {target.remote.request.flags}"
    say_wrapped("undo", "automatic at the end and on Ctrl-C; after a kill:")
    click.echo(f"         pgdyno rollback {last}", err=True)  # a command stays on one line
    agree(target, ask=ask)


def agree(target: Target, question: str = "Continue?", *, ask: bool) -> None:
    """Ask before a server is changed that is not a sandbox.

    Raises UsageError where there is no terminal to ask, click's Abort on a no.
    """
    if target.disposable or not ask:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{target.name} is not a sandbox and there is no terminal to ask", hint="Add --yes.")
    click.confirm(question, abort=True, err=True)


def say_wrapped(label: str, text: str) -> None:
    """Write a line of a plan to stderr, its label in a column of its own, no wider than the terminal."""
    width = min(PLAN_WIDTH, shutil.get_terminal_size((PLAN_WIDTH, 24)).columns)
    column = " " * _LABEL_WIDTH
    first = f"{label:<{_LABEL_WIDTH - 1}} "  # a longer label has a space after it, too
    click.echo(click.wrap_text(text, max(width, 40), first, column), err=True)


def outage_text(how_often: str, outage: Outage | None) -> str:
    """Return how often a server will be away, and for how long where that is known or estimated."""
    from pgdyno.model.facts import Unknown

    if outage is None:
        return how_often
    if isinstance(outage.seconds, Unknown):
        return f"{how_often}; how long one takes is {outage}"
    return f"{how_often}, {outage}"


def outage_of(budget: RestartBudget | None, outage: Outage | None) -> str:
    """Say how often the server will be away."""
    if budget is None:
        return outage_text("a restart before every trial", outage)
    if budget.is_reload_only:
        return RELOADS_ONLY
    return outage_text(f"restarts only where a knob needs one, budget {budget}", outage)


def print_result(store: Store, result: StudyResult, as_json: bool) -> None:
    """Print one JSON object, or the short form of the report."""
    if as_json:
        click.echo(json.dumps(told_json(store, result)))
        return
    from pgdyno.report.drawing.text import print_summary
    from pgdyno.studies.reports import build_report

    print_summary(build_report(store, result.study), sys.stdout)


def result_of(store: Store, study_id: str, kind: type[R], has: str, made_by: str) -> R:
    """Return the result of a study; `has` is what only such a study has, `made_by` the verbs that make one.

    `study_id` names it in `store`: an id, a prefix that no other has, or `last`. `kind` is the type of its result.
    Raises StoreError where there is no such study, UsageError where its result is of another kind.
    """
    study = store.study(study_id)
    result = study.told(kind)
    if result is None:
        raise UsageError(
            f'study "{study.id}" is of kind {study.kind} and has no {has}',
            hint=f"pgdyno store list shows the kinds; pgdyno {made_by} makes one.",
        )
    return result


def require_two_studies(a: StudyResult, b: StudyResult) -> None:
    """Refuse one study as both sides of a comparison: it would be alike, and pass."""
    if a.study == b.study:
        raise UsageError(
            f'study "{a.study}" is on both sides', hint="Name two of them: pgdyno store list shows the studies."
        )


def check_report_path(report: Path | None) -> None:
    """Refuse a report path that cannot be written, before hours of measuring."""
    if report is None:
        return
    folder = report.absolute().parent
    if not is_there(folder):
        raise UsageError(f'folder "{folder}" of --report does not exist', hint=f"Make it first: mkdir -p {folder}")
    try:
        check_output(report)
    except OSError as error:
        raise UsageError(
            f'--report "{report}" cannot be written', detail=error.strerror, hint="Name a file in a writable folder."
        ) from error


def settings_from(path: Path) -> dict[str, str]:
    """Read a file of `name = value` lines; UsageError names the file and the line."""
    from pgdyno.knobs.fragment import parse_conf

    return parse_conf(read_text(path, hint="Name a text file with one `name = value` per line."), source=str(path))
