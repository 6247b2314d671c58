"""The platforms of a run: sandboxes with their data, the load that is captured on one of them, and their end."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.owner.runner import LocalRunner
from pgdyno.owner.temporary import temporary
from pgdyno.sandbox import registry
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.server.binaries import find_build
from pgdyno.server.databases import drop_database
from pgdyno.studies.batch.job_process import read_own
from pgdyno.studies.project.run_plan import CapturedLoad, RunPlan, RunPlatform
from pgdyno.targets.accounts import load_account, server_user
from pgdyno.targets.target import Target
from pgdyno.workloads.custom import CustomData
from pgdyno.workloads.dataset import LoadSite
from pgdyno.workloads.driver_process import DriverProcess
from pgdyno.workloads.pgbench.command import find_pgbench
from pgdyno.workloads.pgbench.load import prepare_directory
from pgdyno.workloads.script import Script

Announce = Callable[[str], None]
_SLUG = 19
"""So that it, three digits and a platform's name are together a name of a sandbox: 40 characters."""


def sandbox_names(project: Path, plan: RunPlan) -> dict[str, str]:
    """Return the sandbox of each platform; two plans of one name in different folders have different ones."""
    return {one.name: _sandbox_name(project, one.name) for one in plan.platforms}


def _sandbox_name(project: Path, platform: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", project.stem.lower()).strip("-")[:_SLUG] or "project"
    return f"{slug}-{_digest(project)[:3]}-{platform}"


def _digest(project: Path) -> str:
    """Return what stands for the place of a plan, however it is named: from another folder, or through a link."""
    return hashlib.sha256(str(project.parent.resolve() / project.name).encode()).hexdigest()


def versions(plan: RunPlan, source: str) -> dict[str, str]:
    """Return the version of each platform's build. Raises UsageError with the line of one that is not there."""
    runner, found = LocalRunner(), dict[str, str]()
    for one in plan.platforms:
        try:
            found[one.name] = find_build(runner, _folder(one), server_user(runner)).version
        except PgdynoError as error:
            where = f'{source}: line {plan.lines[one.name]}: platform "{one.name}"'
            hint = "Name the folder of initdb, pg_ctl and postgres, here or by --programs NAME=DIR."
            raise UsageError(f"{where}: {error.message}", detail=error.detail, hint=hint) from error
    return found


def require_ours(project: Path, names: Mapping[str, str], made: Mapping[str, str]) -> None:
    """Raise UsageError where a sandbox of these names is there which the run did not make.

    And where the record says that it `made` one of another name: it came from elsewhere, and all in it is removed.
    """
    for platform, name in made.items():
        if name != _sandbox_name(project, platform):
            raise UsageError(
                f'the record of the run names sandbox "{name}": it is that of another plan, or of another folder',
                hint=f'Put plan and record back where they were, or take "{project.name}.run.json" away.',
            )
    for platform, name in names.items():
        if platform not in made and registry.read_record(registry.sandbox_dir(name)) is not None:
            raise UsageError(
                f'sandbox "{name}" exists already, and this run did not make it',
                hint=f"Remove it with pgdyno sandbox remove {name}, or give the plan another name.",
            )


def require_made(plan: RunPlan, names: Mapping[str, str]) -> None:
    """Raise UsageError where the sandbox of a platform is gone, or is not of the build that the plan names.

    A verb would make another one in its place, empty and of the embedded build.
    """
    for one in plan.platforms:
        found, name = registry.read_record(registry.sandbox_dir(names[one.name])), names[one.name]
        if found is None:
            raise UsageError(
                f'sandbox "{name}" of platform "{one.name}" is gone, or was never made: the run cannot continue',
                hint="Remove the other sandboxes of the run, and delete its .run.json and .run to start over.",
            )
        if found.bin_dir != (str(_folder(one)) if one.programs else None):
            raise UsageError(
                f'sandbox "{name}" was made with the programs of {found.bin_dir or "the embedded PostgreSQL"},'
                f' and platform "{one.name}" has {one.programs or "none of its own"}',
                hint="Name the programs that the run began with, here or by --programs NAME=DIR.",
            )


def make_platform(one: RunPlatform, name: str, plan: RunPlan, announce: Announce) -> str:
    """Make the sandbox `name` with its data, and return its conninfo in their database; what was there is made anew.

    `one` is the platform; `plan` says whether it gets the data, and whether the load is captured there. `announce`
    takes lines of progress.
    """
    _remove(name)
    with started(one, name) as target:
        if one.name in plan.data.platforms:
            announce(f"data of {one.name}: {plan.data.sql}")
            drop_database(target.postgres, plan.data.database)
            target.postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(plan.data.database)))
            text = read_own(plan.path(plan.data.sql))
            CustomData(0, text).load(LoadSite(target, find_pgbench(target, None), plan.data.database, announce))
        if plan.capture is not None and plan.capture.on == one.name:
            target.postgres.execute("ALTER SYSTEM SET logging_collector = on")  # in force with the next start
        return conninfo_of(target, plan.data.database)


@contextmanager
def started(one: RunPlatform, name: str) -> Iterator[Target]:
    """Give the platform's server, started; it is stopped afterwards."""
    with Sandbox.open_or_create(name, bin_dir=_folder(one)) as sandbox:
        sandbox.start()
        yield sandbox.target()


def conninfo_of(target: Target, database: str) -> str:
    """Return how a database of a server is reached."""
    return target.postgres.in_database(database).conninfo


@contextmanager
def running_load(target: Target, load: CapturedLoad, script: Path, database: str) -> Iterator[DriverProcess]:
    """Give pgbench at work with the script; it is ended afterwards.

    pgbench sends `script`, a file, to `database` on `target`. `load` has its clients, its time in seconds and its rate
    in transactions per second, 0 for no limit. Raises EnvironmentUnsuitable where pgbench fails.
    """
    account = load_account(target)
    text = Script("captured", text=read_own(script))
    argv = [str(target.program("pgbench")), "-n", "-M", "extended", *text.argument(), "-c", str(load.clients)]
    argv += ["-T", f"{load.seconds:.0f}", *(["-R", f"{load.rate:g}"] if load.rate else [])]
    with temporary("load") as made:
        folder = prepare_directory(made, account)
        text.write(folder)
        process = DriverProcess.start(
            argv,
            environment=target.postgres.environment(database, whole=account is not None),
            directory=folder,
            stdout=folder / "out",
            stderr=folder / "err",
            account=account,
        )
        try:
            yield process
            if process.exit_code:
                said = (folder / "err").read_text(errors="replace").strip().splitlines()
                raise EnvironmentUnsuitable(
                    f"pgbench failed with exit status {process.exit_code}", detail=said[-1] if said else None,
                    hint="Look at the script of [capture].",
                )  # fmt: skip
        finally:
            process.terminate()


def remove_platforms(made: dict[str, str], announce: Announce) -> None:
    """Stop and remove the sandboxes that a run made, with their data."""
    for name in made.values():
        if _remove(name):
            announce(f'sandbox "{name}" is removed')


def _remove(name: str) -> bool:
    is_there = registry.read_record(registry.sandbox_dir(name)) is not None
    if is_there:
        Sandbox.open_or_create(name).destroy()
    return is_there


def public_folder(project: Path) -> Path:
    """Return where a run keeps what other accounts work on: dumps; it is not made by this."""
    return places.cache_dir() / "projects" / _digest(project)[:10]


def _folder(one: RunPlatform) -> Path | None:
    return Path(one.programs) if one.programs else None
