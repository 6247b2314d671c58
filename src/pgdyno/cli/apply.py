"""`pgdyno apply`: put findings of the advisor in force, to stay, with the way back on disk first."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from pgdyno.cli.flags import Flags
from pgdyno.cli.numbers import Time
from pgdyno.cli.options import open_store, store_option, target_options, target_request
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.accept import Acceptance, InForce
    from pgdyno.studies.advised import Source
    from pgdyno.target.target import Target

F = TypeVar("F", bound=Callable[..., object])


def source_options(function: F) -> F:
    """Add the flags that say what advice is made from."""
    from pathlib import Path

    options = [
        click.option("--rules", "rule_files", multiple=True, metavar="DIR",
                     type=click.Path(path_type=Path, file_okay=False),
                     help="A folder of rule files; may be given again."),
        click.option("--window", type=Time("s", 1),
                     help="Watch for so long.  [default: what the statistics hold since they were reset]"),
        click.option("--log", "logs", multiple=True, metavar="FILE",
                     type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="A server log; may be given again."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def source(flags: Flags) -> Source:
    """Return what advice is made from."""
    from pgdyno.studies.advised import Source

    return Source(flags.paths("rule_files"), flags.number("window"), flags.paths("logs"))


@click.command("apply")
@click.argument("rules", nargs=-1, metavar="RULE...")
@target_options
@source_options
@click.option("--all-proved", is_flag=True, help="Take every finding that was tested here and found better.")
@click.option("--dry-run", is_flag=True, help="Print the plan, the undo and the outage; change nothing.")
@click.option("--force", is_flag=True, help="Take a finding that was found worse here; never one of class X.")
@click.option("--yes", is_flag=True, help="Do not ask before changing a --target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Put what rules propose in force, and keep it.

    Settings of PostgreSQL stay in a file of pgdyno's own (or where --patroni and --sql-only keep them), Linux values
    until the next boot. `pgdyno rollback SESSION` puts everything back, byte for byte. DDL and commands are printed
    and never run. What can lose committed data is refused.
    """
    from pgdyno.studies import advised
    from pgdyno.studies.accept import prepare, put_in_force
    from pgdyno.studies.stand import opened

    flags = Flags(values)
    rules, request = flags.words("rules"), target_request(flags)
    if not rules and not flags.on("all_proved"):
        raise UsageError("no rule was named", hint="pgdyno apply RULE..., or --all-proved; pgdyno advise lists them.")
    advised.require(rules, source(flags))
    with open_store(flags.text("store_url")) as store, opened(request) as target:
        findings, _ = advised.advise_on(target, source(flags), store=store, progress=_say)
        wanted = advised.chosen(findings, rules, all_proved=flags.on("all_proved"))
        if not wanted:
            click.echo("nothing to apply: no finding was tested here and found better", err=True)
            return ExitCode.OK
        acceptance = prepare(target, wanted, force=flags.on("force"))
        _print_plan(target, acceptance, store)
        if flags.on("dry_run"):
            click.echo("nothing was changed; leave out --dry-run to apply it", err=True)
            if flags.on("as_json"):
                click.echo(json.dumps(_json(acceptance, None)))
            return ExitCode.OK
        _ask(target, ask=not flags.on("yes"))
        done = put_in_force(target, acceptance, store, announce=_say)
        if flags.on("as_json"):
            click.echo(json.dumps(_json(acceptance, done)))
        else:
            _print_done(acceptance, done, request.host)
    return ExitCode.OK


def _say(text: str) -> None:
    click.echo(text, err=True)


def _print_plan(target: Target, acceptance: Acceptance, store: Store) -> None:
    from pgdyno.cli.study import outage_text
    from pgdyno.studies.outages import expected_outage

    _say(f"target   {target.name}")
    for name, value in acceptance.configuration.items():
        finding = acceptance.rule_of(name)
        how = " (restart)" if name in acceptance.restart else ""
        _say(f"set      {name}: {acceptance.before[name]} -> {value}{how}, rule {finding.rule} ({finding.state})")
    for finding in acceptance.findings:
        if finding.risk:
            _say(f"risk     {finding.rule}: {finding.risk}")
    words = f"one restart, for {', '.join(acceptance.restart)}" if acceptance.restart else "none: a reload"
    _say(f"outage   {outage_text(words, expected_outage(target, store) if acceptance.restart else None)}")
    _say("undo     pgdyno rollback SESSION: the bundle is on disk before the first change")
    for line in acceptance.parts.commands:
        _say(f"by hand  {line}")


def _ask(target: Target, *, ask: bool) -> None:
    if target.disposable or not ask:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{target.name} is not a sandbox and there is no terminal to ask", hint="Add --yes.")
    click.confirm("Go on?", abort=True, err=True)


def _print_done(acceptance: Acceptance, done: InForce, host: str | None) -> None:
    for name, value in acceptance.configuration.items():
        click.echo(f"{name} = {value} is in force")
    there = "" if host is None else f" --host {shlex.quote(host)}"
    click.echo(f"undo: pgdyno rollback{there} {done.session}")
    linux = acceptance.configuration.linux()
    if linux:
        names = ", ".join(linux)
        click.echo(f"{names}: until the next boot; pgdyno advise --emit sysctl and pgdyno persist make it last")
    for line in acceptance.parts.commands:
        click.echo(f"left for you: {line}")


def _json(acceptance: Acceptance, done: InForce | None) -> dict[str, object]:
    changes = [
        {
            "rule": acceptance.rule_of(name).rule,
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
        "by_hand": list(acceptance.parts.commands),
        "undo_by_hand": list(acceptance.parts.undo),
    }
