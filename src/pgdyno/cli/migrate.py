"""`pgdyno migrate rehearse|compare|validate`: a migration in timed phases, its window, and whether all arrived."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FILE, FOLDER, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Time, Whole, max_bytes
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.errors import UsageError, naming
from pgdyno.units import parse_quantity, plural

if TYPE_CHECKING:
    from pgdyno.model.results.migrate import MigrateResult
    from pgdyno.store.catalogue import Store

LONGEST_S = 172_800.0


@click.group("migrate")
def command() -> None:
    """Rehearse a migration in its phases, against its window, and say whether all of a database arrived.

    docs/reference/migrate.md has the plan's file, and what is compared.
    """


class _RehearseFlags(TargetFlags, JsonFlag, StoreFlag):
    plan: Path = argument("PLAN.toml", type=FILE)
    apply: bool = flag("Move the database; without it the plan is printed and nothing is changed.")
    source: str | None = flag("The old server and its database.  [default: as in the plan]", metavar="CONNINFO")
    folder: Path | None = flag("Folder for the dumps.  [default: as in the plan]", type=FOLDER)
    window: float | None = flag("Time within which it must end.  [default: as in the plan]", type=Time("s", 1))
    jobs: str | None = flag(
        "Number of parallel jobs; a list such as 1,2 runs one rehearsal each and compares them.  [default: the plan's]",
        metavar="N,...",
    )
    resume: str | None = flag("Continue this rehearsal, which was killed or ended.", metavar="STUDY")
    max_seconds: float = flag("End the rehearsal after this time.", default=LONGEST_S, type=Time("s", 1))
    max_clients: int = flag("Refuse more parallel jobs on each side than this.", default=64, type=Whole(1, 64))
    max_size: str | None = flag("Refuse to rehearse a larger database than this, such as 200GB.", metavar="SIZE")
    stop_file: Path | None = flag("End the rehearsal when this file exists.")
    guards: tuple[str, ...] = flag(
        "Limit at which a guard of the target ends the rehearsal, such as disk=5GB, or NAME=off.",
        "--guard",
        metavar="NAME=VALUE",
    )
    yes: bool = flag("Do not ask before a --target is changed.")
    report: Path | None = flag("Write the HTML report here.")


@verb("rehearse", command)
def rehearse(flags: _RehearseFlags) -> int:
    """Rehearse the migration of PLAN.toml: assess, move by phases, validate, and judge it against its window.

    Prints the plan, the undo and the outage, and changes nothing without --apply. The source is only read. The target
    must be proved to be another server, and be a sandbox or be in the list of servers that may be changed. Its settings
    for the load are restored however the rehearsal ends; a killed one continues item by item with --resume. A captured
    load that the plan names is replayed on the target at the end, outside of the window.

    Exit code 0 if everything arrived within the window and the replay holds, else 1.
    """
    from pgdyno.cli.requests.study import agree, check_report_path, print_result, write_report
    from pgdyno.cli.terminal.columns import print_plan
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.server.postgres import refuse_secrets
    from pgdyno.studies.batch.job_process import read_own
    from pgdyno.studies.migrate.dry_run import plan_lines
    from pgdyno.studies.migrate.file import parse_plan
    from pgdyno.studies.migrate.prepare import MigrateOptions, prepare
    from pgdyno.studies.migrate.replaying import check_replay
    from pgdyno.studies.migrate.run import run_rehearsal
    from pgdyno.studies.migrate.words import compare_lines
    from pgdyno.studies.session.opening import opened
    from pgdyno.studies.session.target_request import TargetRequest
    from pgdyno.targets.inspect import read_facts
    from pgdyno.trial.guard_settings import guard_plan

    check_report_path(flags.report)
    plan = parse_plan(
        read_own(flags.plan, hint="Name the plan of a migration; examples/migrate has one."), source=flags.plan.name
    )
    if flags.source is not None:
        refuse_secrets(flags.source, "--source")
        plan = replace(plan, source=flags.source)
    if flags.folder is not None:
        plan = replace(plan, folder=str(flags.folder.absolute()))
    all_jobs = _jobs(flags.jobs, plan.jobs)
    if max(all_jobs) > flags.max_clients:
        raise UsageError(
            f"the rehearsal has {plural(max(all_jobs), 'parallel job')}, and --max-clients is {flags.max_clients}",
            hint="Give fewer by --jobs, or a larger --max-clients.",
        )
    if flags.resume is not None and len(all_jobs) > 1:
        raise UsageError("--resume continues one rehearsal", hint="Give --jobs one number, or none.")
    most = None if flags.max_size is None else max_bytes(flags.max_size)
    request, progress = target_request(flags), Progress()
    if request.dsn is None and plan.target:
        request = replace(request, dsn=plan.target)
    results: list[MigrateResult] = []
    with ExitStack() as stack:
        with naming("--source" if flags.source is not None else f"source in {flags.plan.name}"):
            source = stack.enter_context(opened(TargetRequest(dsn=plan.source)))
        with naming(f"target in {flags.plan.name}" if request.dsn == plan.target != flags.target else "--target"):
            target = stack.enter_context(opened(request))
        facts = (read_facts(source), read_facts(target))
        first = MigrateOptions(
            flags.plan, all_jobs[0], flags.window or plan.window_s, flags.max_seconds, flags.stop_file, most,
            flags.resume,
        )  # fmt: skip
        prepared = prepare(source, target, facts, plan, first)
        print_plan((*plan_lines(prepared), *check_replay(prepared, facts)))
        if not flags.apply:
            progress.announce("nothing was changed; add --apply to rehearse it")
            return 0
        agree(target, f"Rehearse the migration on {target.name}?", ask=not flags.yes)
        store = stack.enter_context(open_store(flags.store_url))
        for jobs in all_jobs:
            options = replace(first, jobs=jobs)
            if results:
                prepared = prepare(source, target, facts, plan, options)
            result = run_rehearsal(
                store, prepared, facts, request, guards=guard_plan(flags.guards, jobs), announce=progress.announce
            )
            results.append(result)
            write_report(store, result, flags.report, progress)
            print_result(store, result, flags.as_json)
            if result.ended:  # the next number of jobs would end the same way
                break
        if len(results) > 1 and not flags.as_json:
            click.echo("\n".join(compare_lines(results[0], results[-1])))
    return max(int(one.exit_code) for one in results)


class _CompareFlags(JsonFlag, StoreFlag):
    a: str = argument("STUDY_A")
    b: str = argument("STUDY_B", default="last")


@verb("compare", command)
def compare_rehearsals(flags: _CompareFlags) -> int:
    """Compare two rehearsals phase by phase: other parallelism, other settings, another configuration."""
    from pgdyno.cli.requests.study import require_two_studies
    from pgdyno.studies.migrate.words import compare_lines, phase_pairs

    with open_store(flags.store_url) as store:
        a, b = _result(store, flags.a), _result(store, flags.b)
    require_two_studies(a, b)
    if flags.as_json:
        pairs = [
            {"phase": one.phase.value, "a_s": one.a_s, "b_s": one.b_s, "change_pct": one.change_pct}
            for one in phase_pairs(a, b)
        ]
        click.echo(json.dumps({"a": a.study, "b": b.study, "a_total_s": a.total_s, "b_total_s": b.total_s,
                               "phases": pairs}))  # fmt: skip
    else:
        click.echo("\n".join(compare_lines(a, b)))
    return 0


class _ValidateFlags(JsonFlag):
    source: str = argument("SOURCE")
    target: str = argument("TARGET")
    jobs: int = flag("Sessions on each side.", "-j", "--jobs", default=1, type=click.IntRange(1, 64))


@verb("validate", command)
def validate(flags: _ValidateFlags) -> int:
    """Compare the database TARGET with SOURCE, both as libpq names them: every object, then every row.

    Reads only: each table once, by -j sessions on each side in one snapshot. Rows, tables, indexes, constraints,
    sequences, programs, rights, extensions, collations, and of the servers roles, tablespaces and settings.

    Exit code 1 when anything differs, 3 when nothing does but not all could be read.
    """
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.cli.terminal.reporting import print_found
    from pgdyno.migration.validation.comparing import compare_databases
    from pgdyno.server.postgres import Postgres

    source, target = Postgres.reached(flags.source, "SOURCE"), Postgres.reached(flags.target, "TARGET")
    found = compare_databases(source, target, jobs=flags.jobs, tell=Progress().announce)
    print_found(found, found.lines(), as_json=flags.as_json)
    return int(found.exit_code)


class _ForecastFlags(JsonFlag, StoreFlag):
    studies: tuple[str, ...] = argument("STUDY...")
    size: str = flag("The full size, such as 500GB.")
    window: float | None = flag("Time within which it must end.", type=Time("s", 1))


@verb("forecast", command)
def forecast(flags: _ForecastFlags) -> int:
    """Say how long the full size takes, from rehearsals of smaller ones: two or more at each of two or more sizes.

    Sizes are those of the source's database. Exit code 0 where the whole 90 % interval fits into the window, 1 where
    none of it does, 3 where that is open, or nothing can be said.
    """
    from pgdyno.cli.terminal.reporting import print_found
    from pgdyno.studies.migrate.forecast import forecast_of

    with open_store(flags.store_url) as store:
        results = [_result(store, one) for one in flags.studies]
    found = forecast_of(results, parse_quantity(flags.size, "B"), flags.window)
    print_found(found, found.lines(), as_json=flags.as_json)
    return int(found.exit_code)


def _jobs(text: str | None, planned: int) -> tuple[int, ...]:
    from pgdyno.studies.migrate.file import MOST_JOBS

    if text is None:
        return (planned,)
    words = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word) <= MOST_JOBS for word in words):
        raise UsageError(f'--jobs "{text}" is not numbers from 1 to {MOST_JOBS}', hint="Write --jobs 2, or --jobs 1,2.")
    return tuple(int(word) for word in words)


def _result(store: Store, study_id: str) -> MigrateResult:
    from pgdyno.cli.requests.study import result_of
    from pgdyno.model.results.migrate import MigrateResult

    return result_of(store, study_id, MigrateResult, "rehearsal of a migration", "migrate rehearse")
