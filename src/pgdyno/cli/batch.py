"""`pgdyno batch run|import|compare`: a chain of jobs, its window and its jobs against those of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FILE, Flags, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Time, Whole, max_bytes
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.main import INTERRUPTED
from pgdyno.cli.terminal.reporting import ReportFlags, emit

if TYPE_CHECKING:
    from pgdyno.model.results.batch import BatchResult
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.batch.chain import Chain

LONGEST_S = 86_400.0


@click.group("batch")
def command() -> None:
    """Run a batch chain, or read what another scheduler recorded, and compare windows and jobs.

    A chain is a TOML file of processes and jobs that wait for each other: docs/reference/batch.md.
    """


class _ChainFlags(Flags):
    chain: Path = argument("CHAIN.toml", type=FILE)


class _RunFlags(_ChainFlags, TargetFlags, JsonFlag, StoreFlag):
    apply: bool = flag("Run the jobs; without it the plan is printed and nothing is run.")
    executions: int | None = flag("Number of executions.  [default: as in the chain]", type=Whole(1, 100))
    max_seconds: float = flag("End the run after this time, restores included.", default=LONGEST_S, type=Time("s", 1))
    max_clients: int = flag("Refuse a chain with more jobs at a time than this.", default=256, type=Whole(1, 256))
    max_size: str | None = flag("Refuse to run on a larger database than this, such as 200GB.", metavar="SIZE")
    stop_file: Path | None = flag("End the run when this file exists.")
    guards: tuple[str, ...] = flag(
        "Limit at which a guard of the target ends the run, such as disk=5GB, or NAME=off.",
        "--guard",
        metavar="NAME=VALUE",
    )
    yes: bool = flag("Do not ask before running jobs on a --target.")
    report: Path | None = flag("Write the HTML report here.")


@verb("run", command)
def run(flags: _RunFlags) -> int:
    """Run the chain a number of times, restoring the data before each, and record every job.

    Prints the plan, the undo and the outage, and runs nothing without --apply. What the jobs change stays, except for
    what the chain's restore command restores. A job is a program that runs with your rights: its sessions are named by
    application_name.

    Exit code 0 where every job succeeded in every execution, 1 where one did not, 6 where the data could not be
    restored.
    """
    from pgdyno.cli.requests.study import agree, check_report_path, print_result, write_report
    from pgdyno.cli.terminal.columns import print_plan
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.studies.batch.chain import BatchOptions
    from pgdyno.studies.batch.dry_run import plan_lines
    from pgdyno.studies.batch.file import check_files
    from pgdyno.studies.batch.job_process import program_of, require_own_files
    from pgdyno.studies.batch.run import database_of, require_clients, require_room, require_size, run_batch
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts
    from pgdyno.trial.guard_settings import guard_plan

    check_report_path(flags.report)
    chain = _read(flags.chain)
    require_clients(chain, flags.max_clients)
    check_files(chain, flags.chain.name, program_of)
    require_own_files(chain)
    options = BatchOptions(flags.chain, flags.executions or chain.executions, flags.max_seconds, flags.stop_file)
    request, progress = target_request(flags), Progress()
    guards = guard_plan(flags.guards, chain.parallel)
    most = None if flags.max_size is None else max_bytes(flags.max_size)
    with opened(request) as target:
        facts, database = read_facts(target), database_of(target, chain)
        print_plan((*plan_lines(chain, options, target.name, database), f"room:   {require_room(facts)}"))
        if most is not None:
            require_size(target, database, most)
        if not flags.apply:
            progress.announce("nothing was run; add --apply to run it")
            return 0
        agree(target, f"Run the jobs on {target.name}?", ask=not flags.yes)
        with open_store(flags.store_url) as store:
            try:
                result = run_batch(
                    store, target, facts, request, chain, options,
                    guards=guards, announce=progress.announce,
                )  # fmt: skip
            except KeyboardInterrupt:
                return _interrupted(flags.as_json)
            write_report(store, result, flags.report, progress)
            print_result(store, result, flags.as_json)
    return int(result.exit_code)


class _ImportFlags(_ChainFlags, JsonFlag, StoreFlag):
    file: Path = argument("FILE.csv", type=FILE)
    label: str | None = flag("What the jobs ran on: the page shows it as the target.")


@verb("import", command)
def import_recorded(flags: _ImportFlags) -> int:
    """Read the executions that another scheduler recorded, as CSV with the columns process, job, start and end.

    Exit code 0 where every job succeeded in every execution, 1 where one did not.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.cli.terminal.files import read_text
    from pgdyno.studies.batch.keeping import keep_recorded
    from pgdyno.studies.batch.recorded import read_recorded

    chain = _read(flags.chain)
    text = read_text(flags.file, hint="Name a CSV file of recorded jobs.")
    found = read_recorded(text, chain, source=flags.file.name)
    with open_store(flags.store_url) as store:
        result = keep_recorded(store, chain, found, name=flags.file.name, text=text, target=flags.label or "")
        print_result(store, result, flags.as_json)
    return int(result.exit_code)


class _CompareFlags(_ChainFlags, ReportFlags, JsonFlag, StoreFlag):
    reference: str = argument("REFERENCE")
    study: str = argument("STUDY", default="last")


@verb("compare", command)
def compare_sides(flags: _CompareFlags) -> int:
    """Compare the executions of STUDY with those of REFERENCE, two batch studies of the store.

    Exit code 0 where every process keeps to the window of the reference, 1 where one does not, 3 where it is not
    resolved, such as with fewer than three executions.
    """
    from pgdyno.cli.requests.study import require_two_studies
    from pgdyno.studies.batch.compare_page import compare_page
    from pgdyno.studies.batch.comparing import compare
    from pgdyno.studies.batch.keeping import changed_plans
    from pgdyno.studies.batch.words import EXIT_CODES

    chain = _read(flags.chain)
    with open_store(flags.store_url) as store:
        reference, found = _result(store, flags.reference), _result(store, flags.study)
        require_two_studies(reference, found)
        plans = changed_plans(store, reference, found)
    said = compare(chain, reference, found)
    if flags.as_json:
        from pgdyno.studies.batch.compare_page import comparison_json

        click.echo(json.dumps(comparison_json(said, plans)))
    else:
        emit(compare_page(chain, reference, found, said, plans), flags.wanted, flags.output)
    return int(EXIT_CODES[said.standing])


def _interrupted(as_json: bool) -> int:
    """Say so in other words than those of a verb that puts a server back: nobody knows what the jobs changed."""
    said = "interrupted; the jobs were ended, and what they changed on the server stays"
    if as_json:
        click.echo(json.dumps({"error": {"message": said, "exit_code": INTERRUPTED}}))
    click.echo(said, err=True)
    return INTERRUPTED


def _read(path: Path) -> Chain:
    from pgdyno.studies.batch.file import parse_chain
    from pgdyno.studies.batch.job_process import read_own

    return parse_chain(read_own(path), source=path.name, folder=path.absolute().parent)


def _result(store: Store, study_id: str) -> BatchResult:
    from pgdyno.cli.requests.study import result_of
    from pgdyno.model.results.batch import BatchResult

    return result_of(store, study_id, BatchResult, "executions of a batch chain", "batch run or import")
