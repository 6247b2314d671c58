"""`pgdyno advise`: what the rules say of a server and its host, ranked, with sources. Changes nothing."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import SourceFlags, check_stand_in
from pgdyno.cli.arguments.flags import FILE, FOLDER, NEW_FILE, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.files import check_format, write_text
from pgdyno.cli.terminal.files import emit as print_files
from pgdyno.cli.terminal.reporting import content
from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.model.advice import Hindrance

if TYPE_CHECKING:
    from pgdyno.model.advice import Advice
    from pgdyno.model.finding import Finding, Severity
    from pgdyno.model.inventory import Inventory
    from pgdyno.report.sections import Report
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.advice.advise import AdviceRequest, StoreFor
    from pgdyno.targets.target import Target

SEVERITIES = ("critical", "warning", "advice", "note")


class _Flags(SourceFlags, TargetFlags, StoreFlag):
    root: Path | None = flag("A captured folder instead of a live host and server.", type=FOLDER, metavar="DIR")
    pg_settings: Path | None = flag("pg_settings as CSV, JSON or psql output.", type=FILE, metavar="FILE")
    pg_conf: Path | None = flag("A postgresql.conf; needs --pg-version.", type=FILE, metavar="FILE")
    pg_version: str | None = flag("The version of --pg-conf or --pg-settings, such as 16 or 9.5.", metavar="N")
    iostat: Path | None = flag("Output of iostat -x of that machine.", type=FILE, metavar="FILE")
    sadf: Path | None = flag("Output of sadf -j of that machine.", type=FILE, metavar="FILE")
    wal_device: str | None = flag(
        "The WAL's device as iostat names it.  [default: from the host's mounts]", metavar="NAME"
    )
    depth: str | None = flag(
        "How deep the advice goes.  [default: by --criticality, else basic]",
        type=click.Choice(["leave-alone", "basic", "deep"]),
    )
    group: str | None = flag("Only this group.", type=click.Choice(["throughput", "response time", "general"]))
    severity: str | None = flag("Only findings of this severity or worse.", type=click.Choice(SEVERITIES))
    document: str | None = flag("Only what this document recommends: its key, code or year.", "--source", metavar="DOC")
    criticality: str | None = flag(
        "What depends on the database; sets the depth.",
        type=click.Choice(["business-critical", "production", "development", "test"]),
    )
    fail_on: str = flag(
        "Exit with 1 when there is a finding of this severity or worse.",
        default="warning",
        type=click.Choice([*SEVERITIES, "never"]),
    )
    explain: str | None = flag(
        "Show everything about one rule here, or about a contradiction, CON-01 to CON-45.", metavar="RULE"
    )
    show_all: bool = flag("Show all: notes, doubts, and what is unknown or in order.", "--all")
    emit: tuple[str, ...] = flag(
        "Print the changes as files (postgresql.conf, sysctl, ...), each with its undo; may be given again.",
        metavar="FORMAT",
    )
    output: Path | None = flag("Write the files of --emit into this folder.", type=FOLDER, metavar="DIR")
    plan: Path | None = flag("Write an experiment plan: one factor per step.", type=NEW_FILE, metavar="FILE")
    report: Path | None = flag("Write one HTML file that needs no network.", type=NEW_FILE, metavar="FILE.html")
    markdown: Path | None = flag("Write Markdown.", type=NEW_FILE, metavar="FILE.md")
    as_json: bool = flag("Print one JSON object (docs/reference/advice.schema.json).", "--json")


@verb("advise")
def command(flags: _Flags) -> int:
    """Say what could be better on a server and its host, why, and how to prove it. Changes nothing.

    Every finding has its evidence here, the source's figure with the platform it was measured on, and a confidence that
    is lower where this target differs. Findings are candidates: prove one with `pgdyno experiment --rule ID`.

    Exit code 0 when nothing of severity warning or worse is found, 1 otherwise; --fail-on sets the severity.
    """
    _check(flags)
    explained = flags.explain
    if explained is not None and explained.upper().startswith("CON-") and not _names_a_case(flags):
        return _explain_without_target(explained, as_json=flags.as_json)
    _check_names(flags)
    advice = _advice(flags, _store_for(flags))
    if explained is not None:
        return _explain(explained, advice, as_json=flags.as_json)
    _write(advice, flags)
    return int(_exit_code(advice, flags.fail_on))


def _check(flags: _Flags) -> None:
    check_stand_in(flags.pg_conf, flags.pg_settings, flags.pg_version)
    if flags.output is not None and not flags.emit:
        raise UsageError("--output is for --emit", hint="Name a format with --emit; --report FILE writes HTML.")
    files = {"--root": flags.root, "--pg-settings": flags.pg_settings, "--pg-conf": flags.pg_conf}
    captured = [name for name, path in files.items() if path is not None]
    live = [name for name, text in (("--target", flags.target), ("--host", flags.host)) if text is not None]
    if captured and live:
        raise UsageError(
            f"{captured[0]} and {live[0]} cannot be used together", hint="Name a live server or a capture, not both."
        )
    if captured and flags.window is not None:
        raise UsageError(
            "--window needs a live target",
            hint="pgdyno inspect --capture DIR --window SECONDS keeps what happens in a window.",
        )


def _check_names(flags: _Flags) -> None:
    """Refuse rule files and names that nothing has, before a server is asked and minutes are watched."""
    from pgdyno.advisor.rulebook import load_rules

    rules = [rule.id for rule in load_rules(flags.rule_files)]
    if flags.explain is not None:
        from pgdyno.report.advice.explain import check_name

        check_name(flags.explain, rules)
    for form in flags.emit:
        check_format(form)
    if flags.document is not None:
        from pgdyno.studies.advice.steps import document_keys

        document_keys(flags.document)


def _names_a_case(flags: _Flags) -> bool:
    given = (flags.root, flags.pg_settings, flags.pg_conf, flags.target, flags.host)
    return any(one is not None for one in given)


def _store_for(flags: _Flags) -> StoreFor:
    """Return what opens the store: one that is named at once, the user's own where a study in it was on the server.

    Looking must neither make one nor load SQLAlchemy for what has nothing to say.
    """
    from pgdyno.inventory.directory import directory_of
    from pgdyno.server import places
    from pgdyno.store.study_names import has_no_study_on

    if flags.store_url is not None:
        named = open_store(flags.store_url)
        return lambda _: named

    def own(inventory: Inventory) -> Store | None:
        directory = directory_of(inventory)
        if directory is None or has_no_study_on(places.data_dir() / "pgdyno.db", directory):
            return None
        try:
            return open_store(None)
        except StoreError as error:  # advice is worth having without its proofs
            click.echo(f"cannot read what was proved here: {error.message}", err=True)
            return None

    return own


def _advice(flags: _Flags, store_for: StoreFor) -> Advice:
    from pgdyno.studies.advice.advise import OfflineFiles, advise_offline, advise_target
    from pgdyno.studies.session.opening import opened

    request = _request(flags)
    root, settings, conf = flags.root, flags.pg_settings, flags.pg_conf
    if root is not None or settings is not None or conf is not None:
        files = OfflineFiles(root, settings, conf, flags.pg_version)
        return _chosen(advise_offline(files, request, store_for=store_for), flags)
    with opened(target_request(flags), to_read=True) as target:
        found = advise_target(target, request, store_for=store_for, progress=lambda text: click.echo(text, err=True))
        advice = _chosen(found, flags)
        return replace(advice, hindrance=_hindrance(target, advice)) if _proposes(flags) else advice


def _proposes(flags: _Flags) -> bool:
    """Tell whether the page with the commands to type next is printed."""
    return not (flags.explain is not None or flags.emit or flags.as_json)


def _hindrance(target: Target, advice: Advice) -> Hindrance:
    """Ask what would refuse the best candidates, where there are such that could be set at all."""
    from pgdyno.advisor.selection import best_candidates
    from pgdyno.advisor.settable import can_be_applied

    if not (best := [one for one in best_candidates(advice.findings) if can_be_applied(one)]):
        return Hindrance()
    from pgdyno.studies.advice.acting import hindrance  # asks for the rights of the role

    return hindrance(target, advice, best)


def _request(flags: _Flags) -> AdviceRequest:
    from pgdyno.model.classes import Criticality
    from pgdyno.model.finding import Depth
    from pgdyno.studies.advice.advise import AdviceRequest

    return flags.into(
        AdviceRequest,
        rules=flags.rule_files,
        depth=None if flags.depth is None else Depth(flags.depth),
        criticality=None if flags.criticality is None else Criticality(flags.criticality),
        window_s=flags.window,
    )


def _chosen(advice: Advice, flags: _Flags) -> Advice:
    """Keep what the depth, the group and the severity ask for; all of it where one rule is explained."""
    if flags.explain is not None:
        return advice
    from pgdyno.advisor.selection import as_bad_as, at_depth, in_group
    from pgdyno.model.finding import RuleGroup, Severity

    findings = at_depth(advice.findings, advice.depth)
    findings = in_group(findings, None if flags.group is None else RuleGroup(flags.group))
    findings = as_bad_as(findings, None if flags.severity is None else Severity(flags.severity))
    if flags.document is not None:
        from pgdyno.studies.advice.steps import from_document  # brings the plans of staircases

        findings = from_document(findings, flags.document)
    return replace(advice, findings=findings)


def _write(advice: Advice, flags: _Flags) -> None:
    if flags.plan is not None:
        from pgdyno.studies.advice.advise import plan_of

        _save(flags.plan, plan_of(advice))
    for path, kind in ((flags.report, "html"), (flags.markdown, "md")):
        if path is not None:
            from pgdyno.report.advice.page import advice_report

            _save(path, content(advice_report(advice), kind))
    for form in dict.fromkeys(flags.emit):
        from pgdyno.export import emit
        from pgdyno.model.finding import Answer

        print_files(emit(advice.answered(Answer.FINDING), advice.inventory, form), form, flags.output)
    if flags.emit:
        return
    if flags.as_json:
        from pgdyno.report.advice.document import advice_json

        click.echo(advice_json(advice), nl=False)
    else:
        from pgdyno.cli.arguments.repeated import of_the_same_case
        from pgdyno.report.advice.text import print_advice

        print_advice(advice, sys.stdout, show_all=flags.show_all, again=of_the_same_case())


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
