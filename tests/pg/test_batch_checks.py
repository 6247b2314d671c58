"""Batch runs on a server whose owner has planted traps, and after a run that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from batch_example import chain_of
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.results.batch import CheckedResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch import checking, sql_program
from pgdyno.studies.batch.chain import Expects, JobCheck
from pgdyno.studies.batch.checking import make_check
from pgdyno.studies.batch.run import run_batch

pytestmark = pytest.mark.pg
NAME = "batch_checks"
PLANTED = f"""
CREATE SCHEMA planted;
CREATE TABLE public.sums (id int);
INSERT INTO public.sums VALUES (1), (2);
CREATE FUNCTION planted.trap() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trap was run'; END $$;
CREATE VIEW public.seen AS SELECT planted.trap() AS id;
CREATE FUNCTION planted.equal(oid, regclass) RETURNS bool LANGUAGE sql AS 'SELECT planted.trap() = 1';
CREATE OPERATOR planted.= (leftarg = oid, rightarg = regclass, function = planted.equal);
CREATE FUNCTION planted.count() RETURNS bigint LANGUAGE sql AS 'SELECT planted.trap()::bigint';
ALTER DATABASE {NAME} SET search_path = planted, pg_catalog, public;
"""


@pytest.fixture
def server(sandbox18: Sandbox) -> Iterator[Postgres]:
    postgres = sandbox18.target().postgres
    postgres.execute(f"DROP DATABASE IF EXISTS {NAME}")  # type: ignore[arg-type]  # a name of ours
    postgres.execute(f"CREATE DATABASE {NAME} TEMPLATE template0")  # type: ignore[arg-type]
    with psycopg.connect(make_conninfo(postgres.conninfo, dbname=NAME), autocommit=True) as session:
        session.execute(PLANTED.encode())
    yield postgres
    postgres.execute(f"DROP DATABASE {NAME} WITH (FORCE)")  # type: ignore[arg-type]


def test_what_is_planted_in_the_way_of_a_check_is_not_run(server: Postgres) -> None:
    def made(expects: Expects, subject: str, wanted: str = "0") -> CheckedResult:
        return make_check(server, NAME, "tag", JobCheck(expects, subject, wanted))

    for expects in (Expects.ROWS, Expects.CHECKSUM):
        refused = made(expects, "public.seen", "1")
        assert (refused.passed, "is not a table" in refused.found) == (None, True)
        assert "trap" not in made(expects, "public.sums").found
    assert made(Expects.ROWS, "public.sums", "2").passed
    found = made(Expects.CHECKSUM, "public.sums", "0")
    assert made(Expects.CHECKSUM, "public.sums", found.found).passed
    assert made(Expects.ROWS, "public.none", "2").passed is None
    assert "trap" in made(Expects.TRUE, "SELECT id = 1 FROM public.seen").found, "the author's own query is what it is"


def test_a_view_that_comes_in_the_place_of_a_checked_table_runs_nothing(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at its kind is made blind: that is the moment after the look."""
    monkeypatch.setattr(checking, "_STORED", "rpmv")
    check = JobCheck(Expects.ROWS, "public.seen", "1")
    found = make_check(server, NAME, "tag", check)
    assert (found.passed, "trap" in found.found) == (None, False)
    monkeypatch.setattr("pgdyno.contents.snapshot._TABLES_ALONE", "SELECT 1")
    found = make_check(server, NAME, "tag", check)
    assert (found.passed, "trap" in found.found, "TABLESAMPLE" in found.found) == (None, False, True)
    assert make_check(server, NAME, "tag", JobCheck(Expects.ROWS, "public.sums", "2")).passed


def test_what_the_snapshot_of_a_check_does_not_show_is_not_read(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that was made after the snapshot has a name, and no row in the catalog that says what it is."""
    monkeypatch.setattr("pgdyno.contents.snapshot._TABLES_ALONE", "SELECT 1")
    monkeypatch.setattr("pgdyno.contents.snapshot.EVERY_ROW", sql.SQL(""))
    monkeypatch.setattr(checking, "_KIND", "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s) AND false")
    found = make_check(server, NAME, "tag", JobCheck(Expects.ROWS, "public.seen", "1"))
    assert (found.passed, found.found) == (None, "there is no table public.seen")


def test_a_run_does_not_begin_beside_what_a_killed_one_has_left(server: Postgres, sandbox18: Sandbox) -> None:
    text = f'version = 1\n[chain]\nname = "c"\ndatabase = "{NAME}"\n[[process]]\nname = "load"\n'
    chain = chain_of(f'{text}[[process.job]]\nname = "copy"\nsql = "SELECT 1"\n')
    left = make_conninfo(server.conninfo, dbname=NAME, application_name="0b1f.1 load/copy")
    with psycopg.connect(left), pytest.raises(EnvironmentUnsuitable, match=r'still at work: \d+ "0b1f\.1 load/copy"'):
        run_batch(None, sandbox18.target(), None, None, chain, None, guards=None, announce=print)


def test_an_error_of_the_server_is_told_without_the_text_that_it_quotes(server: Postgres, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("ALTER ROLE app PASSWORD geheim")
    (tmp_path / "b.sql").write_text('SELECT 1 / 0 AS "password"')
    environment = {**os.environ, **server.environment(NAME)}
    said = [
        subprocess.run([sys.executable, "-m", sql_program.__name__, str(tmp_path / file)], env=environment,
                       capture_output=True, text=True, check=False)
        for file in ("a.sql", "b.sql")
    ]  # fmt: skip
    assert [one.returncode for one in said] == [sql_program.REFUSED] * 2
    assert "geheim" not in said[0].stderr
    assert said[1].stderr == "ERROR:  division by zero\n"
