"""`pgdyno hammerdb`: HammerDB's own driver, where it is installed, with its result in the same store."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.outside.files import read_text
from pgdyno.units import plural


class _Flags(JsonFlag, StoreFlag):
    target: str = flag(
        "A server, as libpq names it; its superuser.  [default: as PG* variables name it]",
        default="",
        show_default=False,
        metavar="CONNINFO",
    )
    warehouses: int = flag("Warehouses to build.", default=4, type=click.IntRange(1))
    users: int = flag("Virtual users.", "-c", default=8, type=click.IntRange(1))
    rampup: int = flag("Minutes that do not count.", default=1, type=click.IntRange(0))
    duration: int = flag("Minutes that count.", default=2, type=click.IntRange(1))
    database: str = flag("HammerDB's own database.", default="tpcc")
    build: bool = flag("Build HammerDB's schema first; it must not be there yet.", "--build/--no-build")
    stored_procedures: bool = flag("Call procedures instead of functions.")
    all_warehouses: bool = flag("Every user takes any warehouse.")
    program: Path | None = flag("HammerDB's program.  [default: hammerdbcli in PATH]")


@verb("hammerdb")
def command(flags: _Flags) -> None:
    """Run HammerDB's TPROC-C against a server and keep its NOPM and TPM as a study of kind imported.

    HammerDB creates its own role and database on that server, and pgdyno does not undo that. Its figures cannot be
    compared with those of pgdyno's own tprocc load.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.server import places
    from pgdyno.server.postgres import Postgres
    from pgdyno.studies.imported.hammerdb import ImportedFile, import_hammerdb
    from pgdyno.workloads.hammerdb.results import parse_results
    from pgdyno.workloads.hammerdb.script import HammerTest, find_program

    program = find_program(flags.program)
    server = Postgres(flags.target)
    named = {**_environment(), **server.parameters}
    test = flags.into(
        HammerTest,
        host=named.get("host") or "localhost",
        port=named.get("port") or "5432",
        superuser=named.get("user") or "postgres",
        rampup_min=flags.rampup,
        duration_min=flags.duration,
    )
    folder = places.ensure(places.state_dir() / "hammerdb")
    text = _run(program, test, folder, named.get("password") or "", build=flags.build)
    imported = ImportedFile("hammerdb.log", text, parse_results(text, source=str(folder / "run.log")))
    with open_store(flags.store_url) as store:
        print_result(store, import_hammerdb(store, [imported], target=server.label), flags.as_json)


def _run(program: Path, test: object, folder: Path, password: str, *, build: bool) -> str:
    from pgdyno.errors import WorkloadError
    from pgdyno.workloads.hammerdb import script

    assert isinstance(test, script.HammerTest), "the test comes from the flags"
    if build:
        click.echo(f"hammerdb: building {test.warehouses} warehouses", err=True)
        made, _ = script.run_hammerdb(
            program, script.build_script(test), folder, name="build", password=password, timeout_s=86_400
        )
        if script.BUILT not in made:
            raise WorkloadError("HammerDB did not build its schema", hint=f'See "{folder / "build.log"}".')
    profile = folder / "hdbxtprofile.log"
    profile.unlink(missing_ok=True)  # HammerDB appends
    minutes = test.rampup_min + test.duration_min
    click.echo(
        f"hammerdb: {plural(test.users, 'user')} for {plural(minutes, 'minute')}, {test.rampup_min} of them ramp-up",
        err=True,
    )
    text, cpu_s = script.run_hammerdb(
        program,
        script.run_script(test),
        folder,
        name="run",
        password=password,
        timeout_s=60 * minutes + 2 * script.MARGIN_S,
    )
    click.echo(f"hammerdb: its driver took {cpu_s:.1f} s of CPU", err=True)
    if not profile.is_file():
        return text
    return f"{text}\n{read_text(profile, hint='It is the time profile of HammerDB.', lenient=True)}"


def _environment() -> dict[str, str]:
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    return {name: os.environ[variable] for name, variable in names.items() if os.environ.get(variable)}
