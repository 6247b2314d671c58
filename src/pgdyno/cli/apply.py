"""`pgdyno apply`: put findings or the winner of a tune in force, to stay, with the way back on disk first."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import SourceFlags, source
from pgdyno.cli.arguments.flags import FOLDER, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, names_a_server, target_request
from pgdyno.cli.terminal.columns import print_plan
from pgdyno.cli.terminal.files import check_format, emit
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.model.finding import Finding
    from pgdyno.model.study import Study
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.advice.accept import Acceptance, InForce
    from pgdyno.studies.session.target_request import TargetRequest
    from pgdyno.targets.target import Target


class _Flags(TargetFlags, SourceFlags, JsonFlag, StoreFlag):
    rules: tuple[str, ...] = argument("RULE...", required=False)
    all_proved: bool = flag("Take every finding that was tested here and found better.")
    study: str | None = flag("Take the winner of this tune or live study instead: its id, or last.", metavar="STUDY")
    conservative: bool = flag("Of what a search confirmed, take what needs the least memory instead of the fastest.")
    other_server: bool = flag("Take a winner that was proved on another server.")
    emit: tuple[str, ...] = flag(
        "Print that winner as files, as advise --emit does; change nothing. May be given again.", metavar="FORMAT"
    )
    output: Path | None = flag("Write the files of --emit into this folder.", type=FOLDER, metavar="DIR")
    dry_run: bool = flag("Print the plan, the undo and the outage; change nothing.")
    force: bool = flag("Take a finding that was found worse here; never one of class X.")
    yes: bool = flag("Do not ask before changing a --target.")


@verb("apply")
def command(flags: _Flags) -> int:
    """Put what rules propose, or the winner of a study, in force, and keep it.

    Settings of PostgreSQL stay in a file of pgdyno's own (or where --patroni and --sql-only keep them), Linux values
    until the next boot. `pgdyno rollback SESSION` puts everything back, byte for byte. DDL and commands are printed
    and never run. What can lose committed data is refused.

    With --study the server is the one that the study was made on, unless flags name one.
    """
    from pgdyno.studies.session.study_session import opened

    _check(flags)
    with open_store(flags.store_url) as store:
        study = _study(flags, store)
        request = _request(flags, study)
        with opened(request) as target:
            if study is None:
                findings = _findings(flags, target, store)
            else:
                findings = _winner(flags, target, study)
                if flags.emit:
                    return _emit(target, findings, flags.emit, flags.output)
            if not findings:
                click.echo("nothing to apply: no finding was tested here and found better", err=True)
                return ExitCode.OK
            return _apply(flags, target, store, findings, request.host)


def _check(flags: _Flags) -> None:
    """Refuse flags that do not go together, before a server or a sandbox is opened."""
    rules, forms = flags.rules, flags.emit
    if flags.study is None:
        from pgdyno.studies.advice import advised

        of_studies = {
            "--emit": bool(forms),
            "--other-server": flags.other_server,
            "--conservative": flags.conservative,
        }
        if word := next((name for name, is_on in of_studies.items() if is_on), None):
            raise UsageError(f"{word} is for --study", hint="pgdyno advise --emit FORMAT prints findings as files.")
        if not rules and not flags.all_proved:
            raise UsageError(
                "no rule was named",
                hint="pgdyno apply RULE..., --all-proved or --study last; pgdyno advise lists the rules.",
            )
        advised.require(rules, source(flags))
    elif rules or flags.all_proved or flags.rule_files or flags.window or flags.logs:
        raise UsageError(
            "--study applies the winner of a study, without rules and their options",
            hint="Apply them one after the other.",
        )
    for form in forms:
        check_format(form)
    if flags.output is not None and not forms:
        raise UsageError("--output is for --emit", hint="Name a format with --emit.")


def _study(flags: _Flags, store: Store) -> Study | None:
    from pgdyno.studies.winner import offered_by, study_of

    if flags.study is None:
        return None
    study = study_of(store, flags.study)
    offered_by(study)  # a study without a winner is refused before any server is opened
    return study


def _request(flags: _Flags, study: Study | None) -> TargetRequest:
    """Return the server that flags name, else the study's own; programs are those of the flags."""
    from dataclasses import replace

    from pgdyno.studies.winner import request_of

    named = target_request(flags)
    if study is None or names_a_server(named):
        return named
    return replace(request_of(study), restart_command=named.restart_command, sandbox_bin=named.sandbox_bin)


def _findings(flags: _Flags, target: Target, store: Store) -> Sequence[Finding]:
    from pgdyno.studies.advice import advised

    findings, _ = advised.advise_on(target, source(flags), store=store, progress=_say)
    return advised.chosen(findings, flags.rules, all_proved=flags.all_proved)


def _winner(flags: _Flags, target: Target, study: Study) -> Sequence[Finding]:
    from pgdyno.studies.winner import check_server, winner_of
    from pgdyno.targets.inspect import read_facts

    facts = read_facts(target)
    if not flags.other_server:
        check_server(study, facts)
    return (winner_of(study, facts, conservative=flags.conservative),)


def _emit(target: Target, findings: Sequence[Finding], forms: Sequence[str], folder: Path | None) -> int:
    from pgdyno.export import emit as files_of
    from pgdyno.inventory.inspection import inspect

    inventory = inspect(target)
    for form in dict.fromkeys(forms):
        emit(files_of(findings, inventory, form), form, folder)
    return ExitCode.OK


def _apply(flags: _Flags, target: Target, store: Store, findings: Sequence[Finding], host: str | None) -> int:
    from pgdyno.cli.requests.study import agree
    from pgdyno.studies.advice.accept import prepare, put_in_force

    acceptance = prepare(target, findings, force=flags.force)
    _print_plan(target, acceptance, store)
    if not acceptance.configuration:
        if flags.as_json:
            click.echo(json.dumps(_json(acceptance, None)))
        else:
            click.echo("all of it is in force already, and nothing was changed")
        return ExitCode.OK
    if flags.dry_run:
        click.echo("nothing was changed; leave out --dry-run to apply it", err=True)
        if flags.as_json:
            click.echo(json.dumps(_json(acceptance, None)))
        return ExitCode.OK
    agree(target, ask=not flags.yes)
    done = put_in_force(target, acceptance, store, announce=_say)
    if flags.as_json:
        click.echo(json.dumps(_json(acceptance, done)))
    else:
        _print_done(acceptance, done, host)
    return ExitCode.OK


def _say(text: str) -> None:
    click.echo(text, err=True)


def _print_plan(target: Target, acceptance: Acceptance, store: Store) -> None:
    from pgdyno.cli.requests.study import outage_text
    from pgdyno.studies.session.outages import expected_outage
    from pgdyno.studies.winner import ORIGIN

    lines = [f"target   {target.name}"]
    for name, value in acceptance.configuration.items():
        finding = acceptance.rule_of(name)
        how = " (restart)" if name in acceptance.restart else ""
        why = f"winner of {finding.rule}" if finding.origin == ORIGIN else f"rule {finding.rule} ({finding.state})"
        lines.append(f"set      {name}: {acceptance.before[name]} -> {value}{how}, {why}")
    for name, value in acceptance.there.items():
        lines.append(f"there    {name} = {value} is in force already")
    for finding in acceptance.findings if acceptance.configuration else ():
        if finding.risk:
            lines.append(f"risk     {finding.rule}: {finding.risk}")
    print_plan(lines)
    for command in acceptance.parts.commands:
        _say(f"by hand  {command}")  # on one line, to be copied
    if not acceptance.configuration:
        return
    words = f"one restart, for {', '.join(acceptance.restart)}" if acceptance.restart else "none: a reload"
    outage = outage_text(words, expected_outage(target, store) if acceptance.restart else None)
    undo = "pgdyno rollback SESSION: the bundle is on disk before the first change"
    print_plan((f"outage   {outage}", f"undo     {undo}"))


def _print_done(acceptance: Acceptance, done: InForce, host: str | None) -> None:
    for name, value in acceptance.configuration.items():
        click.echo(f"{name} = {value} is in force")
    there = "" if host is None else f" --host {shlex.quote(host)}"
    click.echo(f"undo: pgdyno rollback{there} {done.session}")
    linux = acceptance.configuration.linux()
    if linux:
        names = ", ".join(linux)
        click.echo(f"{names}: until the next boot; pgdyno advise --emit sysctl and pgdyno persist make it permanent")
    for line in acceptance.parts.commands:
        click.echo(f"left for you: {line}")


def _because(finding: Finding) -> dict[str, str]:
    """Return the rule that proposes a change, or the study that it won."""
    from pgdyno.studies.winner import ORIGIN

    return {"study" if finding.origin == ORIGIN else "rule": finding.rule}


def _json(acceptance: Acceptance, done: InForce | None) -> dict[str, object]:
    changes = [
        {
            **_because(acceptance.rule_of(name)),
            "knob": name,
            "from": acceptance.before[name],
            "to": value,
            "restart": name in acceptance.restart,
        }
        for name, value in acceptance.configuration.items()
    ]
    return {
        "session": None if done is None else done.session,
        "restarted": None if done is None else done.applied.restarted,
        "changes": changes,
        "in_force_already": dict(acceptance.there),
        "by_hand": list(acceptance.parts.commands),
        "undo_by_hand": list(acceptance.parts.undo),
    }
