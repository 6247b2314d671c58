"""`pgdyno hammerdb`: HammerDB's own driver, where it is installed, with its result in the same store."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.outside.files import read_text


@click.command("hammerdb")
@click.option(
    "--target",
    default="",
    metavar="CONNINFO",
    help="A server, as libpq names it; its superuser.  [default: as PG* variables name it]",
)
@click.option("--warehouses", type=click.IntRange(1), default=4, show_default=True, help="Warehouses to build.")
@click.option("--users", "-c", type=click.IntRange(1), default=8, show_default=True, help="Virtual users.")
@click.option("--rampup", type=click.IntRange(0), default=1, show_default=True, help="Minutes that do not count.")
@click.option("--duration", type=click.IntRange(1), default=2, show_default=True, help="Minutes that count.")
@click.option("--database", default="tpcc", show_default=True, help="HammerDB's own database.")
@click.option("--build/--no-build", default=False, help="Build HammerDB's schema first; it must not be there yet.")
@click.option("--stored-procedures", is_flag=True, help="Call procedures instead of functions.")
@click.option("--all-warehouses", is_flag=True, help="Every user takes any warehouse.")
@click.option("--program", type=click.Path(path_type=Path), help="HammerDB's program.  [default: hammerdbcli in PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> None:
    """Run HammerDB's TPROC-C against a server and keep its NOPM and TPM as a study of kind imported.

    HammerDB makes its own role and database on that server, and nothing of pgdyno undoes that. Its figures cannot be
    compared with those of pgdyno's own tprocc load.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.server import places
    from pgdyno.server.postgres import Postgres
    from pgdyno.studies.imported.hammerdb import ImportedFile, import_hammerdb
    from pgdyno.workloads.hammerdb.driver import find_program
    from pgdyno.workloads.hammerdb.results import parse_results
    from pgdyno.workloads.hammerdb.script import HammerTest

    flags = Flags(values)
    program = find_program(flags.path("program"))
    server = Postgres(flags.choice("target"))
    named = {**_environment(), **server.parameters}
    test = HammerTest(
        host=named.get("host") or "localhost",
        port=named.get("port") or "5432",
        superuser=named.get("user") or "postgres",
        database=flags.choice("database"),
        warehouses=flags.whole("warehouses"),
        users=flags.whole("users"),
        rampup_min=flags.whole("rampup"),
        duration_min=flags.whole("duration"),
        stored_procedures=flags.on("stored_procedures"),
        all_warehouses=flags.on("all_warehouses"),
    )
    folder = places.ensure(places.state_dir() / "hammerdb")
    text = _run(program, test, folder, named.get("password") or "", build=flags.on("build"))
    imported = ImportedFile("hammerdb.log", text, parse_results(text, source=str(folder / "run.log")))
    with open_store(flags.text("store_url")) as store:
        print_result(store, import_hammerdb(store, [imported], target=server.label), flags.on("as_json"))


def _run(program: Path, test: object, folder: Path, password: str, *, build: bool) -> str:
    from pgdyno.errors import WorkloadError
    from pgdyno.workloads.hammerdb import driver, script

    assert isinstance(test, script.HammerTest), "the test comes from the flags"
    if build:
        click.echo(f"hammerdb: building {test.warehouses} warehouses", err=True)
        made, _ = driver.run_hammerdb(
            program, script.build_script(test), folder, name="build", password=password, timeout_s=86_400
        )
        if driver.BUILT not in made:
            raise WorkloadError("HammerDB did not build its schema", hint=f'See "{folder / "build.log"}".')
    profile = folder / "hdbxtprofile.log"
    profile.unlink(missing_ok=True)  # HammerDB appends
    minutes = test.rampup_min + test.duration_min
    click.echo(f"hammerdb: {test.users} users for {minutes} minutes, {test.rampup_min} of them ramp-up", err=True)
    text, cpu_s = driver.run_hammerdb(
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
