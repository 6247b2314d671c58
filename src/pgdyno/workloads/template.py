"""Template databases: loaded once, marked when complete, and cloned for each trial that needs a fresh state."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.databases import clone_database, drop_database
from pgdyno.server.new_database import passing_name
from pgdyno.server.own_databases import MARK, DatabaseState, look_into, owned_state
from pgdyno.server.postgres import Postgres
from pgdyno.units import bytes_text

APPLICATION_NAME = "pgdyno load"


def template_name(data_fingerprint: str) -> str:
    """Return the name of the template with this data."""
    return f"pgdyno_{data_fingerprint}_template"


def load_name(fingerprint: str) -> str:
    """Return the name of the database that the load runs in."""
    return f"pgdyno_{fingerprint}_load"


def make_template(
    postgres: Postgres,
    name: str,
    *,
    workload: str,
    load: Callable[[], None],
    progress: Callable[[str], None],
    analysed: bool = False,
    origin: str | None = None,
) -> None:
    """Make the template if it is not there: create or copy `origin`, `load`, vacuum, analyse, checkpoint, mark.

    `name` is the template's database on `postgres`; where `origin` is None, it is empty until `load` fills it.
    `workload` is the name in its mark and in the sentences that `progress` takes.

    VACUUM freezes, so that no leftover of the load (hint bits, freezing) becomes the work of a measured window. Tables
    that `load` leaves `analysed` are not analysed again: of 4 warehouses that took a ninth of the whole load (18.6).
    Side effects on the server: CREATE DATABASE, writes in that database, VACUUM (FREEZE, ANALYZE), CHECKPOINT. Errors
    as in `Workload.prepare`.
    """
    state = owned_state(postgres, name)
    if state is DatabaseState.COMPLETE:
        progress(f"{workload}: data are there ({_size(postgres, name)})")
        return
    if state is DatabaseState.UNFINISHED:
        progress(f"{workload}: an interrupted load is dropped and done again")
        drop_database(postgres, name)
    if origin is None:
        _create(postgres, name)
        _mark(postgres, name, workload)
    else:
        progress(f"{workload}: copying database {origin}")
        with passing_name(postgres, name) as passing:
            clone_database(postgres, origin, passing)
            _mark(postgres, passing, workload)
    load()
    progress(f"{workload}: {'vacuum' if analysed else 'vacuum and analyse'}")
    postgres.execute("VACUUM (FREEZE)" if analysed else "VACUUM (FREEZE, ANALYZE)", dbname=name)
    checkpoint(postgres)
    postgres.execute("UPDATE pgdyno_workload.origin SET complete_at = now()", dbname=name)
    progress(f"{workload}: loaded ({_size(postgres, name)})")


def clone_template(postgres: Postgres, template: str, name: str) -> None:
    """Replace the load's database by a fresh clone. Refuses to replace a database that is not ours."""
    owned_state(postgres, name)
    if look_into(postgres, template).state is not DatabaseState.COMPLETE:
        raise EnvironmentUnsuitable(
            f'template database "{template}" is missing or incomplete',
            hint="Run the command again: the data are loaded before the first trial.",
        )
    clone_database(postgres, template, name)


def end_old_sessions(postgres: Postgres, name: str) -> None:
    """End the sessions of an earlier load in the database: a killed tuner leaves its pgbench running."""
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND application_name = %s",
        [name, APPLICATION_NAME],
    )


def require_createdb(postgres: Postgres) -> None:
    """Raise EnvironmentUnsuitable unless the role may create databases."""
    rows = postgres.fetch("SELECT rolname, rolcreatedb OR rolsuper AS may FROM pg_roles WHERE rolname = current_user")
    if rows and not rows[0]["may"]:
        role = sql.Identifier(str(rows[0]["rolname"])).as_string(None)
        raise EnvironmentUnsuitable(
            f"role {role} may not create databases",
            detail="A workload loads its data into databases of its own, pgdyno_*, and touches no other.",
            hint=f"Let a superuser run: ALTER ROLE {role} CREATEDB",
        )


def _create(postgres: Postgres, name: str) -> None:
    # From template0: nothing that an administrator put into template1 becomes part of a workload.
    postgres.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))


def _mark(postgres: Postgres, name: str, workload: str) -> None:
    postgres.execute(MARK, dbname=name)
    postgres.execute("INSERT INTO pgdyno_workload.origin (workload) VALUES (%s)", [workload], name)


def checkpoint(postgres: Postgres) -> None:
    """Ask for a checkpoint; a role that may not is no error, because cloning by file copy makes one anyway."""
    try:
        postgres.execute("CHECKPOINT")
    except EnvironmentUnsuitable as error:
        # Cloning by file copy makes checkpoints without this right; asking is only to have the writes done earlier.
        if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            raise


def _size(postgres: Postgres, name: str) -> str:
    size = postgres.fetch("SELECT pg_database_size(%s::text) AS bytes", [name])[0]["bytes"]
    return bytes_text(float(str(size)))
