"""Statements of others, hostile ones among them, planned by a superuser on a real server: nobody's code may run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow

from pgdyno.model.record import PlanRecord
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.workloads import others_plans as module
from pgdyno.workloads.others_plans import others_plans
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE

pytestmark = pytest.mark.pg

OBJECTS = """
CREATE SCHEMA shop;
CREATE FUNCTION shop.mark() RETURNS int VOLATILE LANGUAGE plpgsql AS $$
BEGIN COPY (SELECT 1) TO '{mark}'; RETURN 1; END $$;
CREATE FUNCTION shop.evil(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN shop.mark(); END $$;
CREATE FUNCTION shop.evil_equal(int, text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT shop.evil(1) = 1';
CREATE TYPE shop.mood AS ENUM ('well', 'ill');
CREATE TABLE shop.plain (id int PRIMARY KEY, mood shop.mood, said text DEFAULT now()::text);
CREATE INDEX plain_mood ON shop.plain (mood);
CREATE TABLE shop."more plain" (id int, made timestamptz);
CREATE VIEW shop.seen AS SELECT id, shop.evil(1) AS x FROM shop.plain;
CREATE TABLE shop.defaulted (a int DEFAULT shop.evil(1));
CREATE TABLE shop.made (a int, b int GENERATED ALWAYS AS (a + shop.evil(1)) STORED);
CREATE TABLE shop.checked (a int);
INSERT INTO shop.checked VALUES (1);
ALTER TABLE shop.checked ADD CHECK (a > shop.evil(1)) NOT VALID;
CREATE TABLE shop.parent (a int) PARTITION BY RANGE (a);
CREATE TABLE shop.child PARTITION OF shop.parent FOR VALUES FROM (1) TO (9);
CREATE INDEX ON shop.child ((a + shop.evil(1)));
CREATE TABLE shop.ruled (a int);
CREATE RULE r AS ON UPDATE TO shop.ruled DO ALSO SELECT shop.evil(1);
CREATE TABLE shop.hidden (a int);
ALTER TABLE shop.hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON shop.hidden USING (a > shop.evil(1));
CREATE DOMAIN shop.even AS int CHECK (VALUE % 2 = shop.evil(1) - 1);
CREATE TABLE shop.evens (a shop.even);
CREATE FUNCTION shop.😀(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN shop.mark(); END $$;
CREATE FUNCTION shop."a {long}"(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN shop.mark(); END $$;
CREATE TABLE shop.pair (a int, b int);
CREATE FUNCTION shop.alike(shop.pair, shop.pair) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT shop.evil(1) = 1';
CREATE OPERATOR shop.= (LEFTARG = shop.pair, RIGHTARG = shop.pair, FUNCTION = shop.alike);
CREATE TABLE shop.told (a int, b int);
CREATE FUNCTION shop.tell(shop.told) RETURNS json IMMUTABLE LANGUAGE sql AS 'SELECT to_json(shop.evil(1))';
CREATE CAST (shop.told AS json) WITH FUNCTION shop.tell(shop.told);
CREATE TYPE shop.hue AS ENUM ('red', 'blue');
CREATE FUNCTION shop.hues(shop.hue[], shop.hue[]) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT shop.evil(1) = 1';
CREATE OPERATOR shop.@@@ (LEFTARG = shop.hue[], RIGHTARG = shop.hue[], FUNCTION = shop.hues);
CREATE TABLE shop.cut (a int) PARTITION BY RANGE ((a + shop.evil(1)));
CREATE TABLE shop.piece PARTITION OF shop.cut FOR VALUES FROM (1) TO (9);
CREATE TABLE shop.hashed (a int) PARTITION BY HASH ((a + shop.evil(1)));
"""
ROLE = "shopper"
"""Whose statements they are."""
LONG = "x" * 61
"""With two characters before it as long as a name may be."""
PLAIN = {
    "join": "SELECT p.id, count(*) FROM plain p JOIN \"more plain\" m USING (id) WHERE p.mood = 'ill' GROUP BY p.id",
    "update": "UPDATE plain SET said = $1 WHERE id = $2",
    "insert": "INSERT INTO shop.plain (id, mood) VALUES ($1, $2)",
    "untyped": "SELECT pg_sleep($1 * $2)",
    "taken for text": "SELECT pg_sleep(least($1, $2)), coalesce($3, $4) IS NULL",
    "of no type": "SELECT id FROM plain WHERE $1 IS NULL OR id = $2",
    "own": "SELECT upper(said), lower($1) FROM shop.plain ORDER BY id LIMIT $2",
}
HOSTILE = {
    "function": "SELECT shop.evil(1) FROM plain",
    "unqualified": "SELECT id FROM plain WHERE id = evil(1)",
    "quoted": 'SELECT shop."evil"(1) FROM plain',
    "escaped": 'SELECT shop.U&"e\\0076il"(1) FROM plain',
    "view": "SELECT * FROM shop.seen",
    "default": "INSERT INTO shop.defaulted DEFAULT VALUES",
    "generated column": "UPDATE shop.made SET a = 1",
    "check": "SELECT * FROM shop.checked WHERE a > 3",
    "index of a partition": "SELECT * FROM shop.parent WHERE a = $1",
    "rule": "UPDATE shop.ruled SET a = 1",
    "policy": "SELECT * FROM shop.hidden",
    "domain": "SELECT * FROM shop.evens",
    "text of a view": "SELECT id FROM shop.plain WHERE said = table_to_xml('shop.seen', true, true, '')::text",
    "unknown table": "SELECT * FROM shop.nothing",
    "sign": "SELECT shop.😀(1)",
    "long name": 'SELECT shop."a {long} and more"(1)',
    "rows with an operator": "SELECT '(1,2)'::shop.pair = '(1,3)'::shop.pair",
    "rows with a cast": "SELECT '(1,2)'::shop.told::json",
    "rows with a cast that JSON takes": "SELECT to_json('(1,2)'::shop.told)",
    "arrays with an operator": "SELECT '{red}'::shop.hue[] OPERATOR(shop.@@@) '{blue}'::shop.hue[]",
    "array of rows with a domain": "SELECT '{\"(2)\"}'::shop._evens",
    "piece of what is cut by a function": "SELECT * FROM shop.piece WHERE a = 3",
    "row type by number": "SELECT id FROM shop.plain WHERE record_in('(2)', {evens}, -1)::text = said",
    "array by number": "SELECT id FROM shop.plain WHERE array_in('{2}', {even}, -1)::text = said",
    "domain by text": "SELECT id FROM plain WHERE pg_input_is_valid('1', 'shop.ev' || 'en')::text = said",
    "partitions by number": "SELECT id FROM shop.plain WHERE pg_get_partition_constraintdef({piece}) = said",
    "hash by number": "SELECT satisfies_hash_partition({hashed}, 2, 1, 5)",
    "two at once": "SELECT 1; COPY (SELECT 1) TO '{mark}'",
}


@pytest.fixture
def server(any_postgres: Sandbox) -> Iterator[tuple[Postgres, Path]]:
    admin, folder = any_postgres.target().postgres, any_postgres.target().directory
    assert folder is not None
    mark = Path(folder) / "hostile-mark"
    with admin.connect("postgres") as session:
        session.execute(OBJECTS.replace("{mark}", str(mark)).replace("{long}", LONG).encode())
        session.execute(f"CREATE ROLE {ROLE}; GRANT USAGE ON SCHEMA shop TO {ROLE}")
        session.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA shop TO {ROLE}")
    mark.unlink()  # what was made runs it, too
    yield admin, mark
    mark.unlink(missing_ok=True)
    with admin.connect("postgres") as session:
        session.execute(f"DROP SCHEMA shop CASCADE; DROP ROLE {ROLE}")


def plans(
    admin: Postgres, statements: dict[str, str], mark: Path, role: str = ROLE, **settings: str
) -> dict[str, PlanRecord]:
    texts = written(admin, statements, mark)
    number = admin.fetch("SELECT oid::int8 AS oid FROM pg_roles WHERE rolname = %s", [role])[0]["oid"]
    assert isinstance(number, int)
    return {
        one.statement: one for one in others_plans(admin, "postgres", texts, settings, dict.fromkeys(texts, number))
    }


def written(admin: Postgres, statements: dict[str, str], mark: Path) -> dict[str, str]:
    """Return the statements with what a user would read from the catalogues, and the mark's path."""
    with admin.connect("postgres") as session:
        row = session.execute(
            "SELECT 'shop.evens'::regtype::oid AS evens, 'shop.even'::regtype::oid AS even,"
            " 'shop.piece'::regclass::oid AS piece, 'shop.hashed'::regclass::oid AS hashed"
        ).fetchone()
    values = {"mark": mark, "long": LONG} | (row or {})
    for name, value in values.items():
        statements = {key: text.replace(f"{{{name}}}", str(value)) for key, text in statements.items()}
    return statements


def test_no_code_of_a_user_runs_where_a_superuser_plans_a_hot_statement(server: tuple[Postgres, Path]) -> None:
    admin, mark = server
    found = plans(admin, HOSTILE, mark)
    assert not mark.exists()
    assert {name: one.shape for name, one in found.items()} == dict.fromkeys(HOSTILE, UNKNOWN_SHAPE)
    for name in set(HOSTILE) - {"unknown table"}:
        assert "may run code of a user" in found[name].plan, name
    with admin.for_load("postgres").connect() as session:
        session.execute("EXPLAIN SELECT shop.evil(1)")
    assert mark.exists(), "planning it does run it"


def test_plain_statements_have_plans_that_follow_the_settings(server: tuple[Postgres, Path]) -> None:
    admin, mark = server
    found = plans(admin, PLAIN, mark)
    assert {name for name, one in found.items() if one.shape == UNKNOWN_SHAPE} == set(), found
    other = plans(admin, PLAIN, mark, enable_indexscan="off", enable_bitmapscan="off", enable_indexonlyscan="off")
    assert other["update"].shape != found["update"].shape
    assert "Seq Scan on plain" in other["update"].plan
    refused = plans(admin, PLAIN, mark, nonsense="1")
    assert {one.shape for one in refused.values()} == {UNKNOWN_SHAPE}
    assert "nonsense" in refused["update"].plan


@pytest.mark.parametrize(
    ("made", "taken", "said"),
    [
        ("CREATE OPERATOR shop.= (LEFTARG = int, RIGHTARG = text, FUNCTION = shop.evil_equal)",
         "DROP OPERATOR shop.= (int, text)", 'operator "="'),
        ("CREATE TABLE public.plain (a int)", "DROP TABLE public.plain", "its search_path is not known"),
        ("CREATE FUNCTION shop.upper(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
         "DROP FUNCTION shop.upper(text)", 'function "upper"'),
    ],
)  # fmt: skip
def test_what_a_database_has_beside_postgresqls_own_leaves_a_plan_unknown(
    server: tuple[Postgres, Path], made: str, taken: str, said: str
) -> None:
    admin, mark = server
    with admin.connect("postgres") as session:
        session.execute(made.encode())
    try:
        found = plans(admin, {"own": "SELECT upper(said) FROM plain"}, mark)
    finally:
        with admin.connect("postgres") as session:
            session.execute(taken.encode())
    assert said in found["own"].plan
    assert not mark.exists()


ESCAPES = {
    "reads who it is": "NULL",
    "takes its role back": "RESET ROLE",
    "sets another role": "SET ROLE {admin}",
    "sets the session's": "SET SESSION AUTHORIZATION DEFAULT",
    "makes itself a superuser": "ALTER ROLE shopper SUPERUSER",
    "runs a program": "COPY (SELECT 1) TO PROGRAM 'touch {mark}'",
    "writes": "CREATE TABLE shop.left_behind ()",
}


@pytest.mark.parametrize("words", ESCAPES.values(), ids=ESCAPES)
def test_what_gets_past_the_check_has_the_statement_s_own_role_and_no_way_out_of_it(
    server: tuple[Postgres, Path], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Whoever renames a function to and fro is past it every fourth time."""
    admin, mark = server
    monkeypatch.setattr(module, "foreign_code", lambda _connection, _statement: "")
    me = str(admin.fetch("SELECT current_user AS me")[0]["me"])
    words = words.replace("{mark}", str(mark)).replace("{admin}", me)
    tried = "" if words == "NULL" else f"EXECUTE $x${words}$x$;"
    with admin.connect("postgres") as session:
        before = catalogues(session)
        session.execute(
            "CREATE FUNCTION shop.escape() RETURNS int VOLATILE LANGUAGE plpgsql AS "
            f"$$ BEGIN {tried} RAISE EXCEPTION 'it was %', current_user; END $$;"
            "CREATE FUNCTION shop.quiet() RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN shop.escape(); END $$".encode()
        )
        found = plans(admin, {"one": "SELECT shop.quiet() FROM shop.plain", **PLAIN}, mark)
        said = found["one"].plan
        session.execute("DROP FUNCTION shop.quiet(), shop.escape()")
        assert catalogues(session) == before, "nothing of ours stays"
    assert not mark.exists()
    assert not admin.fetch("SELECT FROM pg_roles WHERE rolname = 'shopper' AND rolsuper")
    assert "it was shopper" in said or any(
        why in said for why in ("security-definer function", "permission denied", "must be", "read-only transaction")
    ), said
    assert (tried == "") is ("it was shopper" in said)
    assert {name for name in PLAIN if found[name].shape == UNKNOWN_SHAPE} == set(), "the others are planned"


def catalogues(session: psycopg.Connection[DictRow]) -> list[DictRow]:
    return session.execute(
        "SELECT oid, proname::text AS name FROM pg_proc WHERE oid >= 16384"
        " UNION ALL SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_toast' ORDER BY 1"
    ).fetchall()


def test_a_superuser_s_rights_are_taken_only_where_nobody_else_may_have_code(server: tuple[Postgres, Path]) -> None:
    admin, mark = server
    me = str(admin.fetch("SELECT current_user AS me")[0]["me"])
    with admin.connect("postgres") as session:
        session.execute(f"GRANT CREATE ON SCHEMA shop TO {ROLE}")
    texts = written(admin, PLAIN, mark)
    for found in (plans(admin, PLAIN, mark, role=me).values(), others_plans(admin, "postgres", texts)):
        assert {one.shape for one in found} == {UNKNOWN_SHAPE}
        assert all("may make functions here" in one.plan for one in found)
    with admin.connect("postgres") as session:
        session.execute("CREATE DATABASE alone")
    try:
        with admin.connect("alone") as session:
            session.execute("CREATE TABLE public.t (a int); REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        (alone,) = others_plans(admin, "alone", {"one": "SELECT a FROM t"})
        assert alone.plan == "Seq Scan on t"
    finally:
        with admin.connect("postgres") as session:
            session.execute("DROP DATABASE alone WITH (FORCE)")


@pytest.mark.parametrize("event", ["ddl_command_start", "ddl_command_end"])
def test_no_function_is_made_where_that_would_run_one_of_a_user(server: tuple[Postgres, Path], event: str) -> None:
    admin, mark = server
    with admin.connect("postgres") as session:
        session.execute(
            "CREATE FUNCTION shop.seen_it() RETURNS event_trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM shop.mark(); END $$;"
            f"ALTER FUNCTION shop.seen_it() OWNER TO {ROLE}; GRANT CREATE ON SCHEMA shop TO {ROLE}".encode()
        )
        session.execute(f"CREATE EVENT TRIGGER shop_sees ON {event} EXECUTE FUNCTION shop.seen_it()".encode())
        mark.unlink(missing_ok=True)
        try:
            found = plans(admin, PLAIN, mark)
            ran = mark.exists()
        finally:
            session.execute("SET session_replication_role = replica; DROP EVENT TRIGGER shop_sees")
    assert not ran
    assert {one.shape for one in found.values()} == {UNKNOWN_SHAPE}
    assert all('event trigger "shop_sees" would run a function of role "shopper"' in one.plan for one in found.values())


def test_a_session_without_every_right_plans_with_its_own(server: tuple[Postgres, Path]) -> None:
    admin, mark = server
    with admin.connect("postgres") as session:
        session.execute("CREATE ROLE shop_monitor LOGIN; GRANT pg_monitor TO shop_monitor")
        session.execute("GRANT USAGE ON SCHEMA shop TO shop_monitor; GRANT SELECT ON shop.plain TO shop_monitor")
    try:
        monitor = Postgres(make_conninfo(admin.conninfo, user="shop_monitor"))
        texts = {"one": "SELECT id FROM plain", "two": "SELECT shop.evil(1)", "three": "UPDATE plain SET said = $1"}
        found = {one.statement: one.plan for one in others_plans(monitor, "postgres", texts)}
    finally:
        with admin.connect("postgres") as session:
            session.execute("DROP OWNED BY shop_monitor; DROP ROLE shop_monitor")
    assert found["one"] == "Seq Scan on plain"
    assert "may run code of a user" in found["two"]
    assert "permission denied" in found["three"]
    assert not mark.exists()


def test_braces_of_a_statement_are_its_own(server: tuple[Postgres, Path]) -> None:
    admin, mark = server
    found = plans(admin, {"json": """SELECT id FROM plain WHERE '{"a": 1}'::jsonb IS NOT NULL"""}, mark)
    assert found["json"].shape != UNKNOWN_SHAPE, found["json"].plan
