"""`pgdyno advise`: what the rules say of a server and its host, ranked, with sources. Changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.help_groups import GroupedCommand
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.stand_in import check_stand_in
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.arguments.target import target_options, target_request
from pgdyno.cli.terminal.emitting import check_format, output_option
from pgdyno.cli.terminal.emitting import emit as print_files
from pgdyno.cli.terminal.files import write_text
from pgdyno.errors import ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from pgdyno.model.advice import Advice
    from pgdyno.model.finding import Finding, Severity
    from pgdyno.report.sections import Report
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.advice.advise import AdviceRequest

SEVERITIES = ("critical", "warning", "advice", "note")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("advise", cls=GroupedCommand)
@target_options
@click.option("--root", type=_FOLDER, metavar="DIR", help="A captured folder instead of a live host and server.")
@click.option("--pg-settings", type=_FILE, metavar="FILE", help="pg_settings as CSV, JSON or psql prints it.")
@click.option("--pg-conf", type=_FILE, metavar="FILE", help="A postgresql.conf; needs --pg-version.")
@click.option("--pg-version", metavar="N", help="The version that --pg-conf or --pg-settings is of, such as 16 or 9.5.")
@click.option("--window", type=Time("s", 1),
              help="How long to watch.  [default: what the statistics hold since they were reset]")  # fmt: skip
@click.option("--log", "logs", type=_FILE, multiple=True, metavar="FILE", help="A server log; may be given again.")
@click.option("--iostat", type=_FILE, metavar="FILE", help="Output of iostat -x of that machine.")
@click.option("--sadf", type=_FILE, metavar="FILE", help="Output of sadf -j of that machine.")
@click.option("--wal-device", metavar="NAME",
              help="The WAL's device as iostat names it.  [default: as the host's mounts tell]")  # fmt: skip
@click.option("--rules", type=_FOLDER, multiple=True, metavar="DIR", help="A folder of rule files; may be given again.")
@click.option("--depth", type=click.Choice(["leave-alone", "basic", "deep"]),
              help="How deep the advice goes.  [default: by --criticality, else basic]")  # fmt: skip
@click.option("--group", type=click.Choice(["throughput", "response time", "general"]), help="Only this group.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only findings of this severity or worse.")
@click.option("--source", "document", metavar="DOC", help="Only what this document recommends: its key, code or year.")
@click.option("--criticality", type=click.Choice(["business-critical", "production", "development", "test"]),
              help="What depends on the database; sets the depth.")  # fmt: skip
@click.option("--fail-on", type=click.Choice([*SEVERITIES, "never"]), default="warning", show_default=True,
              help="Exit with 1 when there is a finding of this severity or worse.")  # fmt: skip
@click.option("--explain", metavar="RULE", help="Everything about one rule here, or about CON-01 to CON-45.")
@click.option("--all", "show_all", is_flag=True, help="Show all: notes, doubts, and what is unknown or in order.")
@click.option(
    "--emit",
    multiple=True,
    metavar="FORMAT",
    help="Print the changes as files (postgresql.conf, sysctl, ...), each with its undo; may be given again.",
)
@output_option
@click.option("--plan", type=_NEW_FILE, metavar="FILE", help="Write an experiment plan: one factor a step.")
@click.option("--report", type=_NEW_FILE, metavar="FILE.html", help="Write one HTML file that needs no network.")
@click.option("--markdown", type=_NEW_FILE, metavar="FILE.md", help="Write Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/advice.schema.json).")
@store_option
def command(**values: object) -> int:
    """Say what could be better on a server and its host, why, and how to prove it. Changes nothing.

    Every finding has its evidence here, the source's figure with the platform it was measured on, and a confidence that
    is lower where this target differs. Findings are candidates: prove one with `pgdyno experiment --rule ID`.

    Exit code 0 when nothing of severity warning or worse is found, 1 otherwise; --fail-on sets the severity.
    """
    flags = Flags(values)
    _check(flags)
    explained = flags.text("explain")
    if explained is not None and explained.upper().startswith("CON-") and not _names_a_case(flags):
        return _explain_without_target(explained, as_json=flags.on("as_json"))
    _check_names(flags)
    with _store(flags) as store:
        advice = _advice(flags, store)
    if explained is not None:
        return _explain(explained, advice, as_json=flags.on("as_json"))
    advice = _chosen(advice, flags)
    _write(advice, flags)
    return int(_exit_code(advice, flags.choice("fail_on")))


def _check(flags: Flags) -> None:
    check_stand_in(flags)
    if flags.path("output") is not None and not flags.words("emit"):
        raise UsageError("--output is for --emit", hint="Name a format with --emit; --report FILE writes HTML.")
    captured = [name for name in ("root", "pg_settings", "pg_conf") if flags.path(name) is not None]
    live = [name for name in ("target", "host") if flags.text(name) is not None]
    if captured and live:
        words = f"--{captured[0].replace('_', '-')} and --{live[0]}"
        raise UsageError(f"{words} exclude each other", hint="A live target is looked at; a capture needs none.")
    if captured and flags.values["window"] is not None:
        raise UsageError(
            "--window needs a live target",
            hint="pgdyno inspect --capture DIR --window SECONDS keeps what happens in a window.",
        )


def _check_names(flags: Flags) -> None:
    """Refuse rule files and names that nothing has, before a server is asked and minutes are watched."""
    from pgdyno.advisor.rulebook import load_rules

    explained, document = flags.text("explain"), flags.text("document")
    rules = [rule.id for rule in load_rules(flags.paths("rules"))]
    if explained is not None:
        from pgdyno.report.advice.explain import check_name

        check_name(explained, rules)
    for form in flags.words("emit"):
        check_format(form)
    if document is not None:
        from pgdyno.studies.advice.steps import document_keys

        document_keys(document)


def _names_a_case(flags: Flags) -> bool:
    names = ("root", "pg_settings", "pg_conf")
    return any(flags.path(name) is not None for name in names) or any(
        flags.text(name) is not None for name in ("target", "host")
    )


class _NoStore:
    """Stands for a store where nothing was measured yet: looking must neither make one nor load SQLAlchemy for it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _store(flags: Flags) -> Store | _NoStore:
    from pgdyno.server import places
    from pgdyno.store.study_names import has_no_study

    url = flags.text("store_url")
    if url is not None:
        return open_store(url)
    if has_no_study(places.data_dir() / "pgdyno.db"):
        return _NoStore()
    try:
        return open_store(None)
    except StoreError as error:  # advice is worth having without its proofs
        click.echo(f"what was proved here is not known: {error.message}", err=True)
        return _NoStore()


def _advice(flags: Flags, store: Store | None) -> Advice:
    from pgdyno.studies.advice.advise import OfflineFiles, advise_offline, advise_target
    from pgdyno.studies.session.opening import opened

    request = _request(flags)
    names = ("root", "pg_settings", "pg_conf")
    root, settings, conf = (flags.path(name) for name in names)
    if root is not None or settings is not None or conf is not None:
        return advise_offline(OfflineFiles(root, settings, conf, flags.text("pg_version")), request, store=store)
    with opened(target_request(flags)) as target:
        return advise_target(target, request, store=store, progress=lambda text: click.echo(text, err=True))


def _request(flags: Flags) -> AdviceRequest:
    from pgdyno.model.classes import Criticality
    from pgdyno.model.finding import Depth
    from pgdyno.studies.advice.advise import AdviceRequest

    depth, criticality = flags.text("depth"), flags.text("criticality")
    return AdviceRequest(
        rules=flags.paths("rules"),
        depth=None if depth is None else Depth(depth),
        criticality=None if criticality is None else Criticality(criticality),
        window_s=flags.number("window"),
        logs=flags.paths("logs"),
        iostat=flags.path("iostat"),
        sadf=flags.path("sadf"),
        wal_device=flags.text("wal_device"),
    )


def _chosen(advice: Advice, flags: Flags) -> Advice:
    """Keep what the depth, the group and the severity ask for."""
    from dataclasses import replace

    from pgdyno.advisor.selection import as_bad_as, at_depth, in_group
    from pgdyno.model.finding import RuleGroup, Severity

    group, severity = flags.text("group"), flags.text("severity")
    findings = at_depth(advice.findings, advice.depth)
    findings = in_group(findings, None if group is None else RuleGroup(group))
    findings = as_bad_as(findings, None if severity is None else Severity(severity))
    document = flags.text("document")
    if document is not None:
        from pgdyno.studies.advice.steps import from_document  # brings the plans of staircases

        findings = from_document(findings, document)
    return replace(advice, findings=findings)


def _write(advice: Advice, flags: Flags) -> None:
    plan, forms = flags.path("plan"), flags.words("emit")
    if plan is not None:
        from pgdyno.studies.advice.advise import plan_of

        _save(plan, plan_of(advice))
    for flag, kind in (("report", "html"), ("markdown", "md")):
        path = flags.path(flag)
        if path is not None:
            _save(path, _document(advice, kind))
    for form in dict.fromkeys(forms):
        from pgdyno.report.advice.files import emitted

        print_files(emitted(advice, form), form, flags.path("output"))
    if forms:
        return
    if flags.on("as_json"):
        from pgdyno.report.advice.document import advice_json

        click.echo(advice_json(advice), nl=False)
    else:
        from pgdyno.cli.arguments.repeated import of_the_same_case
        from pgdyno.report.advice.text import print_advice

        print_advice(advice, sys.stdout, show_all=flags.on("show_all"), again=of_the_same_case())


def _document(advice: Advice, kind: str) -> str:
    from pgdyno.report.advice.page import advice_report

    if kind == "html":
        from pgdyno.report.drawing import html

        return html.render(advice_report(advice))
    from pgdyno.report.drawing import markdown

    return markdown.render(advice_report(advice))


def _save(path: Path, text: str) -> None:
    write_text(path, text)
    click.echo(f"written: {path}", err=True)


def _explain_without_target(name: str, *, as_json: bool) -> int:
    from pgdyno.report.advice.explain import explain_contradiction

    return _print_explained(explain_contradiction(name, None), as_json=as_json)


def _explain(name: str, advice: Advice, *, as_json: bool) -> int:
    from pgdyno.report.advice.explain import explain

    return _print_explained(explain(name, advice), as_json=as_json)


def _print_explained(report: Report, *, as_json: bool) -> int:
    from pgdyno.report.drawing.payload import report_json
    from pgdyno.report.drawing.text import print_report

    if as_json:
        click.echo(report_json(report), nl=False)
    else:
        print_report(report, sys.stdout)
    return int(ExitCode.OK)


def _exit_code(advice: Advice, fail_on: str) -> ExitCode:
    from pgdyno.advisor.selection import stops
    from pgdyno.model.finding import Severity

    severity: Severity | None = None if fail_on == "never" else Severity(fail_on)
    findings: tuple[Finding, ...] = advice.findings
    return ExitCode.FINDINGS if stops(findings, severity) else ExitCode.OK
