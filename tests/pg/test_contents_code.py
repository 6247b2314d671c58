"""Functions in indexes, statistics and keys of partitions: planning runs them, so their tables are read by COPY."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.contents.comparing import compare_contents
from pgdyno.model.results.parts.contents import ContentsComparison
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch.chain import Expects, JobCheck
from pgdyno.studies.batch.checking import make_check

pytestmark = pytest.mark.pg
NAME, OWNER = "contents_code", "contents_code_owner"
MADE = """
CREATE ROLE {role};
GRANT ALL ON SCHEMA public TO {role};
SET ROLE {role};
CREATE FUNCTION public.kept() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
CREATE TABLE indexed (id int PRIMARY KEY, word text, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE INDEX ON indexed (word) WHERE public.kept();
INSERT INTO indexed SELECT n, E'a\\tb\\n' || n FROM generate_series(1, 500) AS n;
INSERT INTO indexed VALUES (501, NULL);
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE INDEX ON part (id) WHERE public.kept();
INSERT INTO parted VALUES (3);
CREATE TABLE plain (id int PRIMARY KEY);
"""
HARMLESS = (
    "CREATE OR REPLACE FUNCTION public.kept() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END'"
)
TRAP = HARMLESS.replace("RETURN true", "RAISE EXCEPTION ''the trap was run''")


def change(server: Postgres, statements: str) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(statements.encode())


@pytest.fixture
def pair(any_postgres: Sandbox, sandbox18: Sandbox) -> Iterator[tuple[Postgres, Postgres]]:
    """A database on each of two servers, whose owner has put a trap into them."""
    servers = [one.target().postgres for one in (any_postgres, sandbox18)]
    names = [f"{NAME}_a", f"{NAME}_b"]
    made = [Postgres(make_conninfo(one.conninfo, dbname=name)) for one, name in zip(servers, names, strict=True)]
    for server, name, database in zip(servers, names, made, strict=True):
        server.execute(f"DROP DATABASE IF EXISTS {name}")  # type: ignore[arg-type]  # names of ours
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0")  # type: ignore[arg-type]
        change(database, f"DROP ROLE IF EXISTS {OWNER}_{name[-1]}")
        change(database, MADE.replace("{role}", f"{OWNER}_{name[-1]}") + TRAP)
    yield made[0], made[1]
    for server, name in zip(servers, names, strict=True):
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]
        server.execute(f"DROP ROLE {OWNER}_{name[-1]}")  # type: ignore[arg-type]


def different(found: ContentsComparison) -> dict[str, tuple[int, int, int]]:
    return {one.table: (one.missing, one.extra, one.changed) for one in found.different}


def test_planning_would_run_it(pair: tuple[Postgres, Postgres]) -> None:
    with psycopg.connect(pair[0].conninfo) as session, pytest.raises(psycopg.errors.RaiseException, match="trap"):
        session.execute("SELECT count(*) FROM indexed")


def test_tables_with_code_of_others_are_compared_without_running_it(pair: tuple[Postgres, Postgres]) -> None:
    found = compare_contents(*pair, jobs=2)
    assert (found.is_same, found.tables, found.rows) == (True, 3, 502)
    change(pair[1], "INSERT INTO plain VALUES (1)")
    for server, rows in ((pair[0], 1), (pair[1], 2)):
        with psycopg.connect(server.conninfo, autocommit=True) as session:
            session.execute(HARMLESS)
            session.execute("DELETE FROM indexed WHERE id <= %s", [rows])
            session.execute("UPDATE part SET id = %s", [rows])
            session.execute(TRAP)
    found = compare_contents(*pair)
    assert different(found) == {"public.indexed": (1, 0, 0), "public.part": (0, 0, 1), "public.plain": (0, 1, 0)}
    (indexed,) = (one for one in found.different if one.table == "public.indexed")
    assert indexed.sentence.startswith("public.indexed: at least 1 of 500 rows differs (1 missing); none is named")
    assert f"public.kept of role {OWNER}" in indexed.note


def test_a_superusers_function_is_no_reason_to_copy(pair: tuple[Postgres, Postgres]) -> None:
    for server in pair:
        change(
            server,
            f"ALTER FUNCTION public.kept() OWNER TO CURRENT_USER; {HARMLESS}",
        )
    change(pair[1], "UPDATE indexed SET word = 'other' WHERE id = 7")
    (table,) = compare_contents(*pair).different
    assert [row.text for row in table.examples] == ["(7) changed: word"]


@pytest.mark.parametrize("table", ["public.indexed", "public.parted"])
def test_a_check_of_such_a_table_runs_nothing(table: str, pair: tuple[Postgres, Postgres]) -> None:
    for expects in (Expects.ROWS, Expects.CHECKSUM):
        found = make_check(pair[1], f"{NAME}_b", "tag", JobCheck(expects, table, "1"))
        assert found.passed is None
        assert found.found.startswith(f"{table} is not read, because that would run function public.kept of role")
    assert make_check(pair[1], f"{NAME}_b", "tag", JobCheck(Expects.ROWS, "public.plain", "0")).passed


def test_a_check_reads_no_part_that_is_a_foreign_table(pair: tuple[Postgres, Postgres]) -> None:
    change(
        pair[1],
        "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;"
        "CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (10) TO (20) SERVER nowhere",
    )
    found = make_check(pair[1], f"{NAME}_b", "tag", JobCheck(Expects.ROWS, "public.parted", "1"))
    assert (found.passed, "foreign table" in found.found) == (None, True)
