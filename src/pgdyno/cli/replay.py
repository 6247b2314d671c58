"""`pgdyno replay`: a captured load, sent to another server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, two_sides, verb
from pgdyno.cli.arguments.numbers import Finite, Time, Whole
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.errors import ExitCode, UsageError, naming
from pgdyno.model.trial import SPEEDS
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.units import agreeing, plural, seconds_text

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.studies.replay.options import ReplayOptions
    from pgdyno.studies.replay.run import Ready
    from pgdyno.targets.target import Target
    from pgdyno.trace.engine.tally import RunTally

CLOCKS = ("schedule", "think")
ORDERS = ("session", "table", "row")
ENGINES = ("compiled", "python")
_TELL_S = 10.0
_TWO_NAMES = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^"=\s][^=]*?))\s*=\s*(?:"((?:[^"]|"")+)"|([^"\s].*?))\s*', re.DOTALL)


class _Flags(TargetFlags, JsonFlag, StoreFlag):
    trace: Path = argument("TRACE")
    speed: float | None = flag(
        "Speed of the replay, as a multiple of the captured one.  [default: 1]", type=Finite(*SPEEDS)
    )
    level: float | None = flag(
        "Replay at this percentage of production load, from the level that the trace states.",
        type=Finite(0, min_open=True),
        metavar="PERCENT",
    )
    clock: str = flag(
        "When a statement is due: at its captured time, or after its captured pause.",
        default="schedule",
        type=click.Choice(CLOCKS),
    )
    order: str = flag(
        "Make statements wait for earlier writes of other sessions to the same table or row.",
        default="session",
        type=click.Choice(ORDERS),
    )
    output: Path | None = flag(
        "Folder of the outcome, which must not exist yet.  [default: TRACE-TIME.outcome]", metavar="FOLDER"
    )
    processes: int = flag("Number of engine processes that share the sessions.", default=1, type=Whole(1, 64))
    engine: str | None = flag(
        "Which engine sends the statements.  [default: compiled where possible]", type=click.Choice(ENGINES)
    )
    max_seconds: float | None = flag(
        "End the run after this time.  [default: twice the schedule and a minute]", type=Time("s", 1)
    )
    stop_file: Path | None = flag("End the run when this file exists.")
    pause_file: Path | None = flag("Pause the run while this file exists; a run that was paused does not count.")
    user_words: tuple[str, ...] = flag(
        "Open sessions of a captured role as another; may be given again.", "--user-map", metavar="OLD=NEW"
    )
    database_words: tuple[str, ...] = flag(
        "Open sessions of a captured database in another; may be given again.", "--database-map", metavar="OLD=NEW"
    )
    stand_in: str | None = flag(
        (
            "A superuser of the target who opens sessions of roles without a password here: the load could "
            "take its rights."
        ),
        metavar="ROLE",
    )
    error_limit: float = flag(
        "A run with more differing answers than this does not count; fixed when it starts.",
        default=1.0,
        type=Finite(0, 100),
        metavar="PERCENT",
    )
    guards: tuple[str, ...] = flag(
        "Limit at which a guard of the target ends the run, such as disk=5GB, or NAME=off.",
        "--guard",
        metavar="NAME=VALUE",
    )
    source_identifier: str | None = flag(
        "System identifier of the source, if the trace does not have it.", metavar="ID"
    )
    source: str | None = flag(
        "Prove that the target is not this source, and mark it as a copy to replay to.",
        "--mark-copy",
        metavar="CONNINFO",
    )
    data_of: str | None = flag(
        "Compare the data at the end with this server's, which holds what should be there.", metavar="CONNINFO"
    )
    restore: str | None = flag(
        (
            "Restore the target's state before each run: directory:PATH, basebackup:CONNINFO, "
            "template:DATABASE=NAME or command:ARGV."
        ),
        metavar="WAY",
    )
    runs: int = flag("Runs of each side; a verdict needs at least 3.", default=1, type=Whole(1, 100))
    versus: str | None = flag("A second target, the new one; runs alternate between the two.", metavar="CONNINFO")
    versus_set: tuple[str, ...] = flag(
        "A setting of the sessions of the new side, on the same target; may be given again.", metavar="NAME=VALUE"
    )
    check: bool = flag("Prepare each distinct statement on the target, execute none, list what would fail.")
    dry_run: bool = flag("Print what would be sent where; send nothing.")
    yes: bool = flag("Do not ask before loading a --target.")
    report: Path | None = flag("Write the HTML report here.")


@verb("replay")
def command(flags: _Flags) -> int:
    """Send the statements of TRACE to another server, session by session, each when it is due.

    Never to its source: a server with the source's system identifier is refused unless it carries the mark of a copy
    (--mark-copy), any other unless it is a sandbox or is in the list of targets. What the statements change stays,
    unless --restore restores the state before each run. With --versus or --versus-set, runs of an old and a new side
    alternate, and are compared.

    Exit code 0 for a run that counts, 3 for one that does not, with the reason: its injector was late, it was paused,
    statements were not sent, or more answers differ than --error-limit; of two sides 1 where the new one is worse, 3
    where nothing can be told; 1 where --check found what would fail; 4 where a guard ended the run; 6 for a target
    that is refused or not suitable.
    """
    from pgdyno.cli.requests.study import agree, check_report_path, print_result, write_report
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.replay.exchange import finish_all_left
    from pgdyno.studies.replay.run import prepare, replay
    from pgdyno.studies.replay.slips import require_known, require_new, require_no_stop
    from pgdyno.studies.session.opening import opened
    from pgdyno.trace.gates import Order

    check_report_path(flags.report)
    options, request, progress = _options(flags), target_request(flags), Progress()
    if options.order is not Order.SESSION and options.processes > 1:
        raise UsageError(
            f"--order {options.order} and --processes {options.processes} cannot be used together",
            hint="An engine knows its own sessions only: leave one of them out.",
        )
    is_several = bool(flags.restore or flags.versus or flags.versus_set or flags.runs > 1)
    if not (flags.check or is_several):
        require_new([options.output])
        require_no_stop(options)
    if not (flags.check or flags.dry_run):
        finish_all_left(progress.announce)  # what a kill left down could not be opened
    with opened(request) as target:
        if flags.source is not None:
            _mark(target, flags.source, options, progress)
        if is_several:
            return _rounds(flags, target, request, options, progress)
        ready = prepare(target, options)
        require_known(options, ready.asked)
        _plan(ready, options, progress)
        if flags.check:
            return _check(ready, options, as_json=flags.as_json)
        if flags.dry_run:
            progress.announce("nothing was sent; leave out --dry-run to send it")
            if flags.as_json:
                click.echo(json.dumps(_plan_json(ready, options)))
            return 0
        agree(ready.target, f"Send the load to {ready.target.name}?", ask=not flags.yes)
        store = open_store(flags.store_url)
        result = replay(store, ready, request, options, announce=progress.announce, tell=_teller(progress, ready))
    write_report(store, result, flags.report, progress)
    print_result(store, result, flags.as_json)
    return int(result.exit_code)


def _rounds(flags: _Flags, target: Target, request: TargetRequest, options: ReplayOptions, progress: Progress) -> int:
    """Replay from the same state each time, and compare the sides where there are two."""
    from contextlib import ExitStack
    from dataclasses import replace

    from pgdyno.cli.requests.study import agree, print_result, told_json, write_report
    from pgdyno.replay.restore import restore_of
    from pgdyno.studies.replay.rounds import NEW, OLD, ReplayArm, check_rounds, check_settings, rounds_json, run_rounds
    from pgdyno.studies.session.opening import opened

    if flags.check:
        raise UsageError("--check examines one target as it is", hint="Use it without --restore, --runs and --versus.")
    if flags.versus and flags.versus_set:
        raise UsageError(
            "--versus and --versus-set cannot be used together",
            hint="Change one thing at a time, or make the setting on the second target.",
        )
    restore = None if flags.restore is None else restore_of(flags.restore)
    with ExitStack() as stack:
        sides = [ReplayArm(OLD, target, request, options)]
        if flags.versus:
            other = TargetRequest(dsn=flags.versus)
            sides.append(ReplayArm(NEW, stack.enter_context(opened(other)), other, options))
        if flags.versus_set:
            settings = _map(flags.versus_set, "--versus-set")
            check_settings(target, settings)
            sides.append(ReplayArm(NEW, target, request, replace(options, settings=settings)))
        if restore is None and len(sides) * flags.runs > 1:
            progress.announce("no --restore: each run begins with what the one before it left")
        check_rounds(sides, flags.runs, restore)
        for name in dict.fromkeys(side.target.name for side in sides):
            if restore is not None:
                progress.announce(f'before each run the state of "{name}" is restored by {restore.words}')
        if flags.dry_run:
            progress.announce("nothing was sent; leave out --dry-run to send it")
            if flags.as_json:
                targets = {side.name: side.target.name for side in sides}
                told = {"targets": targets, "runs": flags.runs, "restore": None if restore is None else restore.words}
                click.echo(json.dumps(told))
            return 0
        for one in {side.target.name: side.target for side in sides}.values():
            first = "" if restore is None else "Replace the data there, and s"
            agree(one, f"{first or 'S'}end the load to {one.name}?", ask=not flags.yes)
        store = open_store(flags.store_url)
        found = run_rounds(
            store, sides, flags.runs, restore, announce=progress.announce, teller=lambda ready: _teller(progress, ready)
        )
    if flags.as_json and (found.pairs or len(found.results) > 1):
        click.echo(json.dumps(rounds_json(found, [told_json(store, result) for result in found.results])))
    else:
        for result in found.results:
            print_result(store, result, flags.as_json)
    write_report(store, found.results[-1], flags.report, progress)
    return int(found.exit_code)


def _options(flags: _Flags) -> ReplayOptions:
    from pgdyno.studies.replay.options import ReplayOptions, level_speed
    from pgdyno.studies.replay.run import whole_meta
    from pgdyno.studies.replay.slips import require_watched
    from pgdyno.trace.engine.plan import Clock
    from pgdyno.trace.gates import Order
    from pgdyno.trial.guard_settings import guard_plan

    speed, level, guards = flags.speed, flags.level, guard_plan(flags.guards, 1)
    require_watched(guards)
    meta = whole_meta(flags.trace)  # before a sandbox is made or a server asked
    if speed is not None and level is not None:
        raise UsageError(
            "--speed and --level cannot be used together", hint="A level is a speed, by the trace's own level."
        )
    if level is not None:
        speed = level_speed(level, meta.captured_level)
    output = flags.output or flags.trace.parent / f"{flags.trace.stem}-{time.strftime('%Y%m%d-%H%M%S')}.outcome"
    return flags.into(
        ReplayOptions,
        output=output,
        speed=1.0 if speed is None else speed,
        clock=Clock(flags.clock),
        order=Order(flags.order),
        users=_map(flags.user_words, "--user-map"),
        databases=_map(flags.database_words, "--database-map"),
        error_limit_percent=flags.error_limit,
        guards=guards,
    )


def _map(words: tuple[str, ...], flag: str) -> dict[str, str]:
    found = dict[str, str]()
    for word in words:
        old, new = _names(word) or two_sides(word, flag, "OLD=NEW", f"{flag} app=app_test")
        if found.setdefault(old, new) != new:
            raise UsageError(f'{flag} names "{old}" twice: {found[old]} and {new}', hint="Leave one of them out.")
    return found


def _names(word: str) -> tuple[str, str] | None:
    """Return both names of a map, which may stand in quotes as they do in SQL; None where it is not two names."""
    found = _TWO_NAMES.fullmatch(word)
    if found is None:
        return None
    old, plain_old, new, plain_new = found.groups()
    return plain_old or old.replace('""', '"'), plain_new or new.replace('""', '"')


def _mark(target: Target, source: str, options: ReplayOptions, progress: Progress) -> None:
    from pgdyno.replay.target_facts import identify, mark_copy
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts
    from pgdyno.trace.parquet import read_meta

    meta = read_meta(options.trace)
    captured = meta.system_identifier or options.source_identifier
    with naming("--mark-copy"), opened(TargetRequest(dsn=source)) as other:
        known = identify(target, read_facts(target))
        mark_copy(known, target, other, captured, meta.captured_until, meta.captured_server)
    progress.announce(f'"{target.name}" is not the same server as "{other.name}", and is now marked as a copy')


def _plan(ready: Ready, options: ReplayOptions, progress: Progress) -> None:
    from pgdyno.trace.whole import missing_words

    meta, announce = ready.meta, progress.announce
    announce(
        f"{plural(meta.statements, 'statement')} of {meta.sessions:,} sessions, "
        f"{ready.asked.most_sessions:,} of them at one "
        f'time, would be sent to "{ready.target.name}" in {seconds_text(ready.seconds)}'
    )
    announce(f"sent by {ready.engine}")
    if refused := sum(meta.refused.values()):
        announce(
            f"{agreeing(refused, 'statement', 'is', 'are')} never sent: pgdyno trace show {options.trace} says why"
        )
    for words in missing_words(meta):
        announce(f"the trace lacks {words}")
    if ready.stood_for:
        announce(
            f"{options.stand_in} opens the sessions of {', '.join(ready.stood_for)}, whose passwords are not known, "
            "and takes on each role by SET SESSION AUTHORIZATION: without the settings that ALTER ROLE gave it"
        )
    announce("what they change stays changed; the outcome goes to " + str(options.output))


def _plan_json(ready: Ready, options: ReplayOptions) -> dict[str, object]:
    from pgdyno.trace.whole import missing_words

    return {
        "target": ready.target.name,
        "statements": ready.meta.statements,
        "refused": dict(ready.meta.refused),
        "missing": missing_words(ready.meta),
        "sessions": ready.meta.sessions,
        "most_sessions": ready.asked.most_sessions,
        "seconds": ready.seconds,
        "engine": ready.engine,
        "roles_without_password": list(ready.unknown),
        "roles_by_stand_in": list(ready.stood_for),
        "output": str(options.output),
    }


def _check(ready: Ready, options: ReplayOptions, *, as_json: bool) -> int:
    from pgdyno.cli.terminal.reporting import print_found
    from pgdyno.studies.replay.check import check, lines_of

    checked = check(options.trace, ready.plan)
    print_found(checked, lines_of(checked), as_json=as_json)
    return int(ExitCode.FINDINGS if checked.failing else ExitCode.OK)


def _teller(progress: Progress, ready: Ready) -> Callable[[RunTally], None]:
    """Say every few seconds how far a run is, and when it pauses and goes on."""
    from pgdyno.studies.replay.words import pause_text

    told, was_paused = 0.0, False

    def tell(tally: RunTally) -> None:
        nonlocal told, was_paused
        if time.monotonic() - told < _TELL_S and tally.is_paused is was_paused:
            return
        told, was_paused = time.monotonic(), tally.is_paused
        left, paused = max(ready.seconds - tally.schedule_us / 1e6, 0), pause_text(*tally.resting)
        progress.announce(
            f"{plural(tally.sent, 'statement')} sent; {tally.errors:,} answered differently than captured; "
            f"{tally.open_sessions:,} sessions; latest {tally.late_us / 1000:,.1f} ms by the injector; "
            f"{paused}{'; ' if paused else ''}{seconds_text(left)} left"
        )

    return tell
