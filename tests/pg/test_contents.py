"""Two databases compared to the row, each version with the newest: each difference is named, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.contents.comparing import compare_contents
from pgdyno.contents.row_hash import RowHash
from pgdyno.contents.table_rows import TwoSides
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, ExitCode, Halted
from pgdyno.model.results.parts.contents import ContentsComparison, RowIs
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
NAME = "contents_compared"
MADE = """
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TABLE things (id bigint PRIMARY KEY, word text, price numeric, ratio float8,
                     at timestamptz DEFAULT '2026-01-01Z', raw bytea, tags text[], feels mood, span int4range,
                     note jsonb);
INSERT INTO things (id, word, price, ratio, raw, tags, feels, span, note)
SELECT n, CASE WHEN n % 7 > 0 THEN 'üñí "q" ' || n END, n / 3.0, n / 7.0, decode('00ff', 'hex'), ARRAY['a,b', NULL],
       'sad', int4range(1, n), '{"a": 1}' FROM generate_series(1, 5000) AS n;
CREATE TABLE "odd name" ("A b" int, "c""d" text, PRIMARY KEY ("A b", "c""d"));
INSERT INTO "odd name" SELECT n, 'x' || n FROM generate_series(1, 10) AS n;
CREATE TABLE keyless (word text);
INSERT INTO keyless SELECT 'w' || n % 10 FROM generate_series(1, 100) AS n;
CREATE TABLE parts (id int PRIMARY KEY, word text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
INSERT INTO parts SELECT n, 'p' FROM generate_series(1, 50) AS n;
CREATE TABLE empty (id int PRIMARY KEY);
CREATE SEQUENCE numbers;
SELECT nextval('numbers');
"""


@pytest.fixture(scope="module", params=[1, 2], ids=["one session", "two sessions"])
def jobs(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def pair(any_postgres: Sandbox, sandbox18: Sandbox) -> Iterator[tuple[Postgres, Postgres]]:
    """A database on each of two servers, made alike."""
    made = []
    for server, name in ((any_postgres, f"{NAME}_a"), (sandbox18, f"{NAME}_b")):
        postgres = server.target().postgres
        postgres.execute(f"DROP DATABASE IF EXISTS {name}")  # type: ignore[arg-type]  # a name of ours
        postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0")  # type: ignore[arg-type]
        made.append((postgres, name, Postgres(make_conninfo(postgres.conninfo, dbname=name))))
        change(made[-1][2], MADE)
    yield made[0][2], made[1][2]
    for postgres, name, _ in made:
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def change(server: Postgres, statements: str) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(statements)  # type: ignore[arg-type]  # texts of ours


def found_of(pair: tuple[Postgres, Postgres], jobs: int = 1) -> ContentsComparison:
    return compare_contents(*pair, jobs=jobs)


def test_databases_made_alike_are_the_same_whatever_the_version(pair: tuple[Postgres, Postgres], jobs: int) -> None:
    change(pair[1], "SET timezone = 'Asia/Tokyo'; UPDATE things SET word = word WHERE id = 5")
    found = found_of(pair, jobs)
    assert list(found.lines()) == [f"database {NAME}_a: 5 tables with 5,160 rows compared, no difference"]
    assert found.exit_code is ExitCode.OK


def test_each_difference_is_found_and_named(pair: tuple[Postgres, Postgres], jobs: int) -> None:
    change(
        pair[1],
        """
        DELETE FROM things WHERE id = 17; INSERT INTO things (id) VALUES (-4);
        UPDATE things SET word = word || ' ', ratio = ratio + 1e-12 WHERE id = 2500;
        UPDATE "odd name" SET "c""d" = 'y' WHERE "A b" = 3;
        UPDATE keyless SET word = 'other' WHERE ctid = '(0,1)';
        UPDATE parts SET word = NULL WHERE id = 50;
        CREATE TABLE late (id int); ALTER TABLE empty ADD COLUMN more int;
        SELECT setval('numbers', 9)
        """,
    )
    found = found_of(pair, jobs)
    tables = {one.table: one for one in found.different}
    assert set(tables) == {"public.things", "public.odd name", "public.keyless", "public.parts_1"}
    assert {(row.key, row.what, row.columns) for row in tables["public.things"].examples} == {
        ("(17)", RowIs.MISSING, ()), ("(-4)", RowIs.EXTRA, ()), ("(2500)", RowIs.CHANGED, ("ratio", "word")),
    }  # fmt: skip
    assert [(row.key, row.what) for row in tables["public.odd name"].examples] == [
        ("(3,x3)", RowIs.MISSING), ("(3,y)", RowIs.EXTRA),
    ]  # fmt: skip
    assert (tables["public.keyless"].missing, tables["public.keyless"].extra) == (1, 1)
    assert "no primary key" in tables["public.keyless"].sentence
    assert [row.text for row in tables["public.parts_1"].examples] == ["(50) changed: word"]
    assert found.unlike == ("table public.late is only in B", "table public.empty has other columns in B: not compared")
    assert [one.sentence for one in found.sequences] == ["sequence public.numbers: 1 expected, 9 found"]
    assert found.exit_code is ExitCode.FINDINGS


def test_values_beside_null_are_told_apart_also_in_a_table_of_many_columns(pair: tuple[Postgres, Postgres]) -> None:
    names = [f"c{number}" for number in range(200)]
    for server in pair:
        change(server, f"CREATE TABLE wide (id int PRIMARY KEY, {', '.join(f'{one} text' for one in names)})")
        change(server, "INSERT INTO wide (id, c7, c150) SELECT n, 'x', 'y' FROM generate_series(1, 9) AS n")
    assert found_of(pair).is_same
    change(
        pair[1],
        """
        UPDATE wide SET c7 = NULL, c8 = 'x' WHERE id = 2; UPDATE wide SET c9 = '' WHERE id = 4;
        UPDATE wide SET c150 = NULL, c199 = 'y' WHERE id = 6
        """,
    )
    (table,) = found_of(pair).different
    assert [row.text for row in table.examples] == ["(2) changed: c7, c8", "(4) changed: c9", "(6) changed: c150, c199"]


def test_machines_of_other_byte_order_are_compared_by_a_hash_that_both_make(
    pair: tuple[Postgres, Postgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = list[RowHash]()
    monkeypatch.setattr("pgdyno.contents.comparing.PROBE", "SELECT current_database()")  # answered differently
    monkeypatch.setattr(
        "pgdyno.contents.comparing.TwoSides", lambda a, b, kind: used.append(kind) or TwoSides(a, b, kind)
    )
    assert found_of(pair).is_same
    change(pair[1], "UPDATE things SET price = price + 1 WHERE id = 4999")
    (table,) = found_of(pair).different
    assert [row.text for row in table.examples] == ["(4999) changed: price"]
    assert set(used) == {RowHash.PORTABLE}


def test_many_rows_are_counted_and_the_first_are_named(pair: tuple[Postgres, Postgres]) -> None:
    change(pair[1], "UPDATE things SET note = NULL")
    (table,) = compare_contents(*pair, examples=3).different
    assert (table.changed, len(table.examples), table.is_at_least) == (5000, 3, False)
    assert list(replace(found_of(pair), sequences=()).lines())[-1].strip() == "and 4,980 more"


def test_the_verb_names_the_rows_and_ends_with_findings(pair: tuple[Postgres, Postgres]) -> None:
    def told(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pgdyno("compare", "--data", *(one.conninfo for one in pair), *words)

    assert told().returncode == ExitCode.OK
    change(pair[1], "UPDATE things SET word = 'other' WHERE id = 7")
    found = told("--jobs", "2")
    assert (found.returncode, "  (7) changed: word" in found.stdout) == (ExitCode.FINDINGS, True), found
    assert ContentsComparison(**json.loads(told("--json").stdout)).rows == 5160


def test_code_of_a_table_s_owner_is_not_run_with_our_rights(pair: tuple[Postgres, Postgres]) -> None:
    hostile = """
        CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA public TO {role}; SET ROLE {role};
        CREATE TABLE trap (id int PRIMARY KEY); INSERT INTO trap VALUES (1);
        CREATE FUNCTION sprung(trap) RETURNS text LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''run as %%'', current_user; END';
        CREATE CAST (trap AS text) WITH FUNCTION sprung(trap) AS IMPLICIT;
        CREATE FUNCTION public.record_out(record) RETURNS cstring LANGUAGE internal AS 'record_out'
    """
    role = "contents_owner"
    for server in pair:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(f"DROP ROLE IF EXISTS {role}")  # type: ignore[arg-type]
            for statement in hostile.format(role=role).replace("%%", "%").split(";\n")[:-1]:
                connection.execute(statement)  # type: ignore[arg-type]
    try:
        with psycopg.connect(pair[0].conninfo) as connection, pytest.raises(psycopg.errors.RaiseException):
            connection.execute("SELECT t::text FROM trap AS t")
        assert found_of(pair).is_same
    finally:
        for server in pair:
            change(server, f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server is one that cannot be told to refuse views."""
    monkeypatch.setattr("pgdyno.contents.snapshot._TABLES_ALONE", "SELECT 1")


@pytest.mark.usefixtures("unguarded")
def test_a_server_that_cannot_refuse_views_is_compared_like_any_other(pair: tuple[Postgres, Postgres]) -> None:
    assert found_of(pair).is_same
    change(pair[1], "UPDATE things SET word = 'other' WHERE id = 4999; DELETE FROM keyless WHERE ctid = '(0,1)'")
    found = found_of(pair)
    assert found.rows == 5160
    assert [row.text for one in found.different for row in one.examples] == ["(4999) changed: word"]
    assert [one.missing for one in found.different if one.table == "public.keyless"] == [1]


@pytest.mark.parametrize("guard", ["the server's", "a sample"])
def test_a_view_that_comes_in_the_place_of_a_table_meanwhile_runs_nothing(
    guard: str, pair: tuple[Postgres, Postgres], request: pytest.FixtureRequest
) -> None:
    if guard == "a sample":
        request.getfixturevalue("unguarded")
    change(
        pair[1],
        """
        CREATE FUNCTION public.trap() RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the trap was run'; END $$
        """,
    )

    def exchange(told: str) -> None:
        if told == "comparing public.empty":
            change(pair[1], "DROP TABLE empty; CREATE VIEW empty AS SELECT public.trap() AS id")

    with pytest.raises(EnvironmentUnsuitable) as caught:
        compare_contents(*pair, announce=exchange)
    assert "trap" not in caught.value.one_line
    assert ("TABLESAMPLE" in caught.value.one_line) is (guard == "a sample")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ends", [Halted, KeyboardInterrupt], ids=["a bound", "Ctrl-C"])
@pytest.mark.parametrize("side", [0, 1], ids="ab")
def test_a_comparison_that_is_to_end_cancels_what_its_sessions_run(
    pair: tuple[Postgres, Postgres], jobs: int, ends: type[BaseException], side: int
) -> None:
    """However long a statement would run: here it waits for a table that somebody has locked."""

    def waits() -> bool:
        (row,) = pair[side].fetch(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return row["n"] != 0

    def halt() -> str:
        if not waits():
            return ""
        if ends is KeyboardInterrupt:
            raise KeyboardInterrupt
        return "the stop file"

    def lock(told: str) -> None:
        if told == "comparing public.things":
            holder.execute("LOCK TABLE things IN ACCESS EXCLUSIVE MODE")

    with psycopg.connect(pair[side].conninfo) as holder:
        with pytest.raises(ends, match="the stop file" if ends is Halted else None):
            compare_contents(*pair, jobs=jobs, halt=halt, announce=lock)
        assert not waits()
        holder.rollback()


def test_a_role_that_may_not_read_a_table_is_told_so(pair: tuple[Postgres, Postgres]) -> None:
    change(pair[1], "DROP ROLE IF EXISTS contents_reader; CREATE ROLE contents_reader LOGIN")
    reader = Postgres(make_conninfo(pair[1].conninfo, user="contents_reader", password="x"))
    try:
        with pytest.raises((EnvironmentUnsuitable, ConnectError), match="permission denied for table"):
            compare_contents(pair[0], reader)
    finally:
        change(pair[1], "DROP ROLE contents_reader")
