"""Two databases after a migration, the oldest version and the newest: what is missing is named, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ExitCode, Halted
from pgdyno.migration.validation import validate
from pgdyno.migration.validation.comparing import compare_databases
from pgdyno.model.results.migrate import ValidationResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
ROLES = ("validated_app", "validated_owner")
OF_ROLES = ("role", "password of role", "membership", "setting")
SEQUENCES = ("customers_id_seq", "fresh", "numbers", "orders_id_seq")
MADE = """
CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL DEFAULT 'x',
                        n int CHECK (n > 0), feels mood, many positive);
INSERT INTO customers (name, n, feels) SELECT 'name ' || n, n, 'sad' FROM generate_series(1, 3000) AS n;
CREATE TABLE orders (id serial PRIMARY KEY, customer bigint REFERENCES customers, at timestamptz);
INSERT INTO orders (customer) SELECT n FROM generate_series(1, 500) AS n;
CREATE INDEX orders_at ON orders (at DESC) WHERE customer > 5;
CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE "of parts" (part int REFERENCES parts, word text);
CREATE VIEW named AS SELECT c.name, count(*) AS n FROM customers AS c JOIN orders AS o ON o.customer = c.id
    WHERE c.n > 3 GROUP BY c.name;
CREATE VIEW alone AS SELECT customers.name, customers.n FROM customers WHERE customers.n IN (1, 2);
CREATE FUNCTION doubled(a int, OUT b int) LANGUAGE sql STABLE AS 'SELECT 2 * $1';
CREATE PROCEDURE nothing(x int) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER keeps BEFORE UPDATE OF name ON customers FOR EACH ROW EXECUTE FUNCTION kept();
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON customers FOR SELECT TO validated_app USING (name = current_user);
GRANT SELECT, INSERT ON customers TO validated_app; GRANT UPDATE (name) ON customers TO validated_app;
ALTER TABLE orders OWNER TO validated_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE validated_owner GRANT SELECT ON TABLES TO validated_app;
CREATE SEQUENCE numbers INCREMENT 3; SELECT nextval('numbers'); CREATE SEQUENCE fresh;
SELECT lo_from_bytea(40000, 'a large object')
"""


def change(server: Postgres, statements: str) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(statements)  # type: ignore[arg-type]  # texts of ours


@pytest.fixture
def pair(any_postgres: Sandbox, sandbox18: Sandbox) -> Iterator[tuple[Postgres, Postgres]]:
    """A database on each of two servers, made alike; where both are of one build, two of one server's."""
    made = []
    for server, name in ((any_postgres, "validated_a"), (sandbox18, "validated_b")):
        postgres = server.target().postgres
        change(postgres, f"DROP DATABASE IF EXISTS {name}")
        change(postgres, f"CREATE DATABASE {name} TEMPLATE template0")
        database = Postgres(make_conninfo(postgres.conninfo, dbname=name))
        for role in ROLES:
            change(database, f"DO 'BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END'")
        change(database, MADE)
        change(database, f"ALTER ROLE validated_app IN DATABASE {name} SET work_mem = '5MB'")
        made.append((postgres, name, database))
    yield made[0][2], made[1][2]
    for postgres, name, _ in made:
        change(postgres, f"DROP DATABASE {name} WITH (FORCE)")
    for postgres, *_ in made:
        for role in ROLES:
            change(postgres, f"DROP ROLE IF EXISTS {role}")


def compared(source: Postgres, target: Postgres, *, jobs: int = 1) -> ValidationResult:
    """Compare, but for roles that other tests left on the servers, which all share."""
    found = compare_databases(source, target, jobs=jobs)
    mine = [one for one in found.findings if one.topic not in OF_ROLES or one.object.startswith("validated_")]
    return replace(found, findings=tuple(mine))


def test_a_validation_ends_with_the_rehearsal_and_tells_what_it_compares(pair: tuple[Postgres, Postgres]) -> None:
    told = list[str]()
    source, target = (SimpleNamespace(postgres=one) for one in pair)
    with pytest.raises(Halted, match="--max-seconds 60"):
        validate(source, target, halt=lambda: "--max-seconds 60", tell=told.append)  # type: ignore[arg-type]
    assert told[0] == "comparing objects"


@pytest.mark.requirement("R-MIG-04")
def test_the_five_of_a_careless_migration_are_found_and_named(pair: tuple[Postgres, Postgres]) -> None:
    """A row deleted, a byte changed, a sequence behind, an index invalid, a grant missing, and no more."""
    same = compared(*pair, jobs=2)
    assert (same.findings, same.unread) == ((), ())
    assert same.compared["rows"] == 3501
    change(
        pair[1],
        """
        DELETE FROM orders WHERE id = 17;
        UPDATE customers SET name = 'nbme 2500' WHERE id = 2500;
        SELECT setval('numbers', 1, false);
        UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'orders_at'::regclass;
        REVOKE INSERT ON customers FROM validated_app
        """,
    )
    told = run_pgdyno("migrate", "validate", *(one.conninfo for one in pair), "--json")
    assert told.returncode == ExitCode.FINDINGS, told
    found = [
        (one["topic"], one["object"], one["rows"])
        for one in json.loads(told.stdout)["findings"]
        if one["topic"] not in OF_ROLES
    ]
    assert sorted(found) == [
        ("index", "public.orders_at", []),
        ("privilege", "INSERT on table public.customers to validated_app", []),
        ("rows", "public.customers", ["(2500) changed: name"]),
        ("rows", "public.orders", ["(17) missing"]),
        ("sequence", "public.numbers", []),
    ]
    lines = run_pgdyno("migrate", "validate", *(one.conninfo for one in pair), "-j", "2").stdout.splitlines()
    assert "index public.orders_at: valid expected, invalid found" in lines
    assert "sequence public.numbers: stands at 1 expected, stands at 1, not given out found" in lines
    assert "privilege INSERT on table public.customers to validated_app is missing" in lines


def test_each_kind_of_object_is_compared_by_its_definition(pair: tuple[Postgres, Postgres]) -> None:
    changes = {
        "table": "ALTER TABLE customers REPLICA IDENTITY FULL",
        "column": "ALTER TABLE customers ALTER n SET DEFAULT 4",
        "constraint": """ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey, ADD CONSTRAINT orders_customer_fkey
                         FOREIGN KEY (customer) REFERENCES customers NOT VALID""",
        "view": "CREATE OR REPLACE VIEW alone AS SELECT name, n FROM customers WHERE n IN (1, 3)",
        "function": "CREATE OR REPLACE FUNCTION doubled(a int, OUT b int) LANGUAGE sql STABLE AS 'SELECT 3 * $1'",
        "trigger": "ALTER TABLE customers DISABLE TRIGGER keeps",
        "policy": "ALTER POLICY own ON customers USING (true)",
        "type": "ALTER TYPE mood ADD VALUE 'cross'",
        "owner": "ALTER VIEW named OWNER TO validated_owner",
        "default privilege": """ALTER DEFAULT PRIVILEGES FOR ROLE validated_owner
                                REVOKE SELECT ON TABLES FROM validated_app""",
        "setting of the database": "ALTER ROLE validated_app IN DATABASE validated_b SET work_mem = '6MB'",
        "sequence": "ALTER SEQUENCE fresh CACHE 20",
        "schema": "CREATE SCHEMA more",
        "rows": "SELECT lo_put(40000, 2, 'L')",
    }
    for statement in changes.values():
        change(pair[1], statement)
    found = compared(*pair)
    named = sorted(one.topic for one in found.findings if "schema more" not in one.object)
    assert named == sorted(changes), [one.sentence for one in found.findings]


def test_what_a_user_made_in_the_place_of_the_system_s_is_not_run_with_our_rights(
    pair: tuple[Postgres, Postgres],
) -> None:
    role = "validated_app"
    for server in pair:
        change(server, f"GRANT CREATE ON SCHEMA public TO {role}")
        change(
            server,
            f"""
            SET ROLE {role};
            CREATE FUNCTION public.sprung() RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''run''; END';
            CREATE FUNCTION public.pg_get_viewdef(oid) RETURNS text LANGUAGE sql AS 'SELECT sprung()';
            CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE sql AS 'SELECT sprung()';
            CREATE VIEW public.pg_class AS SELECT public.sprung() AS relname;
            CREATE TABLE public.trap (id int DEFAULT length(public.sprung()), CHECK (public.sprung() IS NULL));
            ALTER TABLE public.trap ENABLE ROW LEVEL SECURITY;
            CREATE POLICY sprung ON public.trap USING (public.sprung() IS NULL)
            """,
        )
        change(server, f"ALTER ROLE {role} SET search_path = public, pg_catalog")
    found = compared(*pair)
    assert (found.findings, found.unread) == ((), ())


def test_what_this_role_may_not_read_is_told_as_unread(pair: tuple[Postgres, Postgres]) -> None:
    reader = "validated_reader"
    change(pair[1], f"DROP ROLE IF EXISTS {reader}; CREATE ROLE {reader} LOGIN BYPASSRLS")
    change(pair[1], f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}")
    try:
        found = compared(pair[0], Postgres(make_conninfo(pair[1].conninfo, user=reader, password="x")))
    finally:
        change(pair[1], f"DROP OWNED BY {reader}; DROP ROLE {reader}")
    assert {one.object.rpartition(" to ")[2] for one in found.findings} == {reader}
    assert found.unread == (
        "password of role: this role may not read pg_authid of the target",
        "large objects: only a superuser may read them",
        *(f"where sequence public.{name} stands: this role may not read it" for name in SEQUENCES),
    )
