"""A role without any right is told what it lacks; with what it is told it works, and no more was given."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fix_postgres import BUILDS, NIGHT, find_build
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.server.privileges import missing, privileges, read_role, script
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.targets.inspect import read_facts
from pgdyno.undo.apply import Session
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
ROLE = 'the "bench" role'


def as_role(postgres: Postgres, role: str) -> Postgres:
    return Postgres(make_conninfo(postgres.conninfo, user=role))


def grant(postgres: Postgres, text: str) -> None:
    """Run what the script says, as psql would."""
    database = None
    for line in text.splitlines():
        if line.startswith("\\connect"):
            database = line.partition(" ")[2].strip('"')
        else:
            postgres.execute(sql.SQL(line.partition(";")[0]), None, database)  # type: ignore[arg-type] # as a DBA does


@pytest.mark.parametrize("build", BUILDS)
def test_a_role_is_told_what_it_lacks_and_works_with_it(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"rights-{build}", bin_dir=find_build(build))
    sandbox.start()
    owner = sandbox.target().postgres
    owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(ROLE)))
    role = as_role(owner, ROLE)
    target = replace(sandbox.target(), postgres=role)
    assert {p.name for p in missing(privileges("inspect", read_role(role)))} == {"pg_monitor"}
    with pytest.raises(EnvironmentUnsuitable):
        Session.begin(target, study="test", undo_root=tmp_path / "undo")
    grant(owner, script(privileges("tune", read_role(role))))
    assert missing(privileges("tune", read_role(role))) == []
    assert script(privileges("tune", read_role(role))) == ""
    assert isinstance(read_facts(target).server.data_directory, str)
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        assert not session.apply(Configuration.of({"work_mem": "8MB"})).restarted
        assert session.apply(Configuration.of({"shared_buffers": "32MB"})).restarted
    assert not read_role(role).superuser


@pytest.mark.requirement("R-VER-13")
@pytest.mark.slow
@pytest.mark.parametrize("build", ["embedded-18", *(["debian-15"] if NIGHT else [])])
def test_bench_with_the_rights_of_bench_alone(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path, tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"bench-{build}", bin_dir=find_build(build))
    sandbox.start()
    owner = sandbox.target().postgres
    owner.execute("CREATE ROLE measurer LOGIN")
    conninfo = as_role(owner, "measurer").conninfo

    def verb(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pgdyno(*words, "--target", conninfo, PGDYNO_STORE=str(tmp_path / "store.db"))

    lacking = verb("privileges", "--for", "bench")
    assert lacking.returncode == 1, lacking.stderr
    assert 'ALTER ROLE "measurer" CREATEDB;' in lacking.stdout
    grant(owner, lacking.stdout.partition("-- for psql, as a superuser\n")[2])
    enough = verb("privileges", "--for", "bench", "--json")
    assert enough.returncode == 0, enough.stderr
    held = {p["name"]: p["held"] for p in json.loads(enough.stdout)["privileges"]}
    assert held["CREATEDB"]
    quick = ("--rate", "20", "--warmup", "2", "--measure", "3", "--foreign-cpu", "1000", "--steal", "100")
    short = ("-D", "scale=1", "--clients", "1", "--json", *quick)
    done = verb("bench", "--workload", "select-only", *short)
    # On a machine that was too busy to be steady the role has done all that it may all the same.
    assert done.returncode == 0 or json.loads(done.stdout)["state"] in ("unsteady", "disturbed"), done.stderr
    assert not missing(privileges("bench", read_role(as_role(owner, "measurer"))))
    assert missing(privileges("tune", read_role(as_role(owner, "measurer"))))


def test_a_role_that_sets_by_sql_alone_is_told_all_that_it_lacks_at_once(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, pgdyno_home: Path
) -> None:
    """The route by SQL is refused to a role that may not reload: what else is missing was told one by one."""
    sandbox = make_sandbox("rights-by-sql")
    sandbox.start()
    owner = sandbox.target().postgres
    owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(ROLE)))
    role = as_role(owner, ROLE)
    words = ("privileges", "--for", "live", "--sql-only", "--json", "--target", role.conninfo)
    lacking = run_pgdyno(*words)
    assert lacking.returncode == 1, lacking.stderr
    rights = {one["name"]: one for one in json.loads(lacking.stdout)["privileges"]}
    alters = rights["ALTER SYSTEM on each parameter"]
    assert not alters["held"]
    assert '"work_mem"' in alters["statement"]
    assert "shared_buffers" not in alters["statement"], "live restarts nothing unasked"
    told = run_pgdyno(*(word for word in words if word != "--json")).stdout
    grant(owner, told.partition("-- for psql, as a superuser\n")[2])
    assert run_pgdyno(*words).returncode == 0
    with Session.begin(open_sql_only(role.conninfo), study="test", undo_root=tmp_path / "undo") as session:
        session.apply(Configuration.of({"work_mem": "7MB"}))
        assert owner.fetch("SHOW work_mem") == [{"work_mem": "7MB"}]
