"""`pgdyno capture`: the load that is really there, logged for a while, for a trace and a replay."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Share, Time, max_bytes
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import print_columns, print_plan
from pgdyno.errors import ExitCode, UsageError
from pgdyno.units import agreeing, bytes_text, seconds_text

if TYPE_CHECKING:
    from pgdyno.studies.capture.plan import CaptureOptions, CapturePlan
    from pgdyno.studies.capture.register import KnownCapture
    from pgdyno.targets.target import Target
    from pgdyno.trace.capture_record import CaptureRecord
    from pgdyno.undo.watch import Deadlines


class _WhatFlags(TargetFlags, JsonFlag):
    seconds: float = flag(
        "Maximum duration, such as 2h.  [default: 1h]",
        "--for",
        default=3600.0,
        type=Time("s", 1),
        metavar="TIME",
        show_default=False,
    )
    max_size: str = flag("Maximum size of the log, such as 20GB.", default="10GB", metavar="SIZE")
    style: str = flag(
        "How the server logs; jsonlog needs PostgreSQL 15, and 1.6 times the bytes.",
        default="csvlog",
        type=click.Choice(["csvlog", "jsonlog"]),
    )
    sampled: float | None = flag(
        "Log this share of the transactions: for response times, not for a replay.",
        type=Share(with_all=True),
        metavar="SHARE",
    )
    commit_order: bool = flag("Keep the order of commits and generated keys, by a temporary logical slot.")


@click.group("capture")
def command() -> None:
    """Log the load of a server for a while, restore the logging, and record what else a replay needs.

    check says what it would cost and what is in the way; start captures, in the foreground; stop and status work from
    another terminal.
    """


@verb("check", command)
def check(flags: _WhatFlags) -> int:
    """Say what a capture would switch on and cost, and what is in the way; reads only, for a few seconds.

    Exit code 6 if a capture is not possible.
    """
    from pgdyno.studies.capture.plan import plan_capture
    from pgdyno.studies.session.opening import opened

    options = _options(flags)
    with opened(target_request(flags)) as target:
        plan = plan_capture(target, options)
        if flags.as_json:
            click.echo(json.dumps(_plan_json(target, plan)))
        else:
            _print_plan(target, plan, err=False)
    return int(ExitCode.UNSUITABLE if plan.refusals else ExitCode.OK)


class _StartFlags(_WhatFlags):
    output: Path | None = flag(
        "Create this folder and copy the log into it at the end.  [default: a folder of pgdyno, no copy]",
        metavar="FOLDER",
    )
    guards: tuple[str, ...] = flag(
        "Limit at which a guard ends the capture, such as log-disk=5GB, or NAME=off.", "--guard", metavar="NAME=VALUE"
    )
    watchdog_deadline: float = flag(
        "How long the server may be silent before the watchdog restores the logging.",
        default=30.0,
        type=Time("s", 1, 3600),
    )
    dry_run: bool = flag("Print the plan, its cost and the undo; change nothing.")
    yes: bool = flag("Do not ask before changing a --target.")


@verb("start", command)
def start(flags: _StartFlags) -> int:
    """Switch on the logging of all statements, wait, and restore it.

    The change goes through an undo bundle, with a watchdog and guards; at --for or --max-size, with Ctrl-C, and
    whatever dies, the server logs as it did before. Only a reload is needed.

    Exit code 0 when it ended by time, size or `pgdyno capture stop`, 4 when a guard or somebody else's change ended it,
    6 when it is not possible, 130 after Ctrl-C. What was captured by then is good, except with 6.
    """
    from pgdyno.cli.requests.study import agree
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.studies.capture.plan import plan_capture
    from pgdyno.studies.capture.run import put_back_killed, run_capture
    from pgdyno.studies.session.opening import opened
    from pgdyno.trace.capture_record import record_text
    from pgdyno.undo.watch import Deadlines

    options = _options(flags, flags.guards, Deadlines(health_s=flags.watchdog_deadline))
    request, progress = target_request(flags), Progress()
    with opened(request) as target:
        put_back_killed(target, progress.announce, may_change=not flags.dry_run)
        plan = plan_capture(target, options)
        _print_plan(target, plan, err=True)
        plan.require()
        if flags.dry_run:
            click.echo("nothing was changed; leave out --dry-run to capture", err=True)
            if flags.as_json:
                click.echo(json.dumps(_plan_json(target, plan)))
            return ExitCode.OK
        agree(target, ask=not flags.yes)
        done = run_capture(target, plan, output=flags.output, host=request.host, announce=progress.announce)
    if flags.as_json:
        click.echo(record_text(done.record), nl=False)
    else:
        _print_record(done.folder, done.record, asks_copy=flags.output is not None)
    return done.exit_code


@verb("status", command)
def status(flags: JsonFlag) -> int:
    """List the captures of this user on this host: size, rate, time left, how far a copy is."""
    from pgdyno.model.shapes import plain
    from pgdyno.studies.capture.register import known_captures

    known = known_captures()
    if flags.as_json:
        told = [{**_known_json(one), "record": plain(one.record)} for one in known]
        click.echo(json.dumps({"captures": told}))
    elif not known:
        click.echo("this user has captured nothing on this host")
    else:
        print_columns(
            ("capture", "state", "server", "log", "a minute", "left", "ended by", "folder"),
            [_row(one) for one in known],
        )
    return ExitCode.OK


class _StopFlags(JsonFlag):
    name: str | None = argument("[CAPTURE]")


@verb("stop", command)
def stop(flags: _StopFlags) -> int:
    """End the capture that runs, or the one of this name; one that was killed gets the end of its record.

    Waits until the server logs as it did before and, where the capture has an --output, until the log is copied there.
    Ctrl-C ends the waiting alone: the copy goes on, and status says how far it is.
    """
    from pgdyno.studies.capture.register import CaptureState, find_capture, finish_killed
    from pgdyno.studies.capture.stopping import stop_capture
    from pgdyno.trace.capture_record import record_text

    known = stop_capture(find_capture(flags.name), _tell)
    record = known.record
    if known.state is CaptureState.KILLED:
        record = finish_killed(known, _tell)
    if flags.as_json:
        click.echo(record_text(record), nl=False)
    else:
        _print_record(known.progress.folder, record, asks_copy=known.asks_copy)
    return ExitCode.OK


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _options(flags: _WhatFlags, guards: Sequence[str] = (), watch: Deadlines | None = None) -> CaptureOptions:
    from pgdyno.model.guard_table import CAPTURE_GUARDS, GUARDS
    from pgdyno.studies.capture.plan import CaptureOptions
    from pgdyno.trial.guard_settings import guard_plan
    from pgdyno.undo.watch import Deadlines

    if flags.sampled == 0:
        raise UsageError("--sampled 0 logs nothing", hint="Give a share such as 10%, or leave it out.")
    if flags.sampled == 1:
        raise UsageError(
            "--sampled 100% leaves nothing out, and a sample is never replayed",
            hint="Leave --sampled out: all is logged then, and can be replayed.",
        )
    return flags.into(
        CaptureOptions,
        max_bytes=max_bytes(flags.max_size),
        guards=guard_plan(guards, 1, {**GUARDS, **CAPTURE_GUARDS}),
        watch=watch or Deadlines(),
    )


def _print_plan(target: Target, plan: CapturePlan, *, err: bool) -> None:
    rows = [("target", target.name)]
    rows += [("set", f"{name}: {plan.before(name)} -> {value} (reload)") for name, value in plan.change.items()]
    rows += [("cost", line) for line in plan.cost.lines()]
    rows.append(("disk", f'"{plan.folder.path}": {_free_text(plan)}'))
    rows.append(("limit", f"{seconds_text(plan.options.seconds)} or {bytes_text(plan.options.max_bytes)} of log"))
    rows += [("gap", line) for line in plan.holes]
    rows += [("note", line) for line in plan.warnings]
    rows += [("refused", f"{one.reason}. {one.remedy}") for one in plan.refusals]
    rows.append(("outage", "none: a reload"))
    rows.append(("undo", "at the end, by itself; after a kill by the watchdog, or pgdyno rollback --last"))
    print_plan((f"{word:8} {text}" for word, text in rows), err=err)


def _free_text(plan: CapturePlan) -> str:
    if plan.free is None:
        return "free space cannot be seen from here"
    full = plan.cost.seconds_to_fill(plan.free)
    return f"{bytes_text(plan.free)} free" + ("" if full is None else f", full after {seconds_text(full)} at this rate")


def _plan_json(target: Target, plan: CapturePlan) -> dict[str, object]:
    return {
        "target": target.name,
        "changes": [{"setting": n, "from": plan.before(n), "to": value} for n, value in plan.change.items()],
        "bytes_per_hour": plan.cost.bytes_per_hour,
        "cpu_per_s": list(plan.cost.cpu_per_s),
        "statements_per_s": plan.cost.rate.statements_per_s,
        "transactions_per_s": plan.cost.rate.transactions_per_s,
        "log_directory": str(plan.folder.path),
        "free_bytes": plan.free,
        "holes": list(plan.holes),
        "warnings": list(plan.warnings),
        "refusals": [{"reason": one.reason, "remedy": one.remedy} for one in plan.refusals],
    }


def _row(known: KnownCapture) -> tuple[str, ...]:
    from pgdyno.studies.capture.register import CaptureState
    from pgdyno.studies.capture.stopping import copy_text

    record, running = known.record, known.left_s > 0
    size = sum(log.end or 0 for log in record.logs) if record.end is not None else known.progress.bytes
    return (
        record.id,
        f"copying, {copy_text(known)}" if known.state is CaptureState.COPYING else known.state.value,
        record.target,
        bytes_text(size),
        bytes_text(60 * known.progress.bytes_per_s) if running else "-",
        seconds_text(known.left_s) if running else "-",
        "-" if record.end is None else record.end.because,
        str(known.progress.folder),
    )


def _known_json(known: KnownCapture) -> dict[str, object]:
    return {
        "capture": known.record.id,
        "state": known.state.value,
        "folder": str(known.progress.folder),
        "bytes": known.progress.bytes,
        "bytes_per_s": known.progress.bytes_per_s,
        "left_s": known.left_s,
        "to_copy": known.progress.to_copy,
        "copied": known.progress.copied,
    }


def _print_record(folder: Path, record: CaptureRecord, *, asks_copy: bool) -> None:
    assert record.end is not None
    size = sum(log.end or 0 for log in record.logs)
    files = f"{len(record.logs)} file" + ("" if len(record.logs) == 1 else "s")
    click.echo(f"captured {bytes_text(size)} in {files}, from {record.began_at} to {record.end.at}")
    click.echo(f"ended by {record.end.because}; the server logs as it did before")
    for log in record.logs:
        click.echo(f"  {folder / log.copy if log.copy else log.path}")
    if asks_copy and (left := sum(log.copy is None for log in record.logs)):
        click.echo(f"{agreeing(left, 'file', 'was', 'were')} not copied: the log stays where the server wrote it")
    if not record.is_replayable:
        click.echo("a sample of the transactions: for response times, not for a replay")
    click.echo(f"next: pgdyno trace build {shlex.quote(str(folder))} -o {record.id}.parquet")
