"""SQLSTATEs by message: each as servers of every version give it."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.workloads.script_failure import state_of

pytestmark = pytest.mark.pg
DATA = """
CREATE TEMP TABLE p (i int PRIMARY KEY);
CREATE TEMP TABLE c (i int NOT NULL REFERENCES p, k int CHECK (k > 0), s varchar(3), n numeric(3, 1));
CREATE TEMP TABLE x (r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TEMP TABLE l (i int) PARTITION BY LIST (i);
CREATE TEMP SEQUENCE q;
INSERT INTO p VALUES (1), (2);
INSERT INTO c VALUES (1);
INSERT INTO x VALUES ('[1,5)');
"""
FAILING = (
    "SELECT 1/(i - 1) FROM p",
    "SELECT 1.0/(i - 1) FROM p",
    "SELECT i FROM p WHERE i = (SELECT i FROM p)",
    "INSERT INTO p VALUES (9), (9) ON CONFLICT (i) DO UPDATE SET i = 9",
    "INSERT INTO c (i, s) VALUES (1, 'long' || 'er')",
    "INSERT INTO c (i, n) VALUES (1, 1e6::numeric)",
    "SELECT i + 2147483647 FROM p",
    "SELECT i::smallint * 32767::smallint FROM p",
    "SELECT i + 9223372036854775807 FROM p",
    "SELECT ('9' || repeat('9', 20 * i))::int FROM p",
    "SELECT 'infinity'::float8 * i, exp(800 * i) FROM p",
    "SELECT ('x' || i)::int FROM p",
    "SELECT ('x' || i)::uuid FROM p",
    "SELECT ('x' || i)::date FROM p",
    "SELECT ('x' || i)::timestamptz FROM p",
    "SELECT ('x' || i)::interval FROM p",
    "SELECT ('2026-13-' || i)::date FROM p",
    "SELECT ln(i - 1) FROM p",
    "SELECT sqrt(-i) FROM p",
    "INSERT INTO p VALUES (1)",
    "INSERT INTO p VALUES (NULL)",
    "INSERT INTO c VALUES (77)",
    "DELETE FROM p WHERE i = 1",
    "INSERT INTO c VALUES (1, -1)",
    "INSERT INTO x VALUES ('[2,3)')",
    "INSERT INTO l VALUES (1)",
    "SELECT currval('q')",
    "DO $$ DECLARE n int; BEGIN SELECT i INTO STRICT n FROM p WHERE i > 7; END $$",
    "DO $$ DECLARE n int; BEGIN SELECT i INTO STRICT n FROM p; END $$",
    "SET TRANSACTION READ ONLY; CREATE TABLE never (i int)",
    "SET LOCAL ROLE pg_monitor; SELECT * FROM pg_authid",
)


@pytest.mark.parametrize("statement", FAILING)
def test_a_message_has_the_state_that_the_server_gives_it(any_postgres: Sandbox, statement: str) -> None:
    with any_postgres.target().postgres.connect() as session:
        session.pgconn.exec_(b"BEGIN;" + DATA.encode())
        with pytest.raises(psycopg.Error) as caught:
            session.execute(statement)
        message, state = caught.value.diag.message_primary, caught.value.sqlstate
        assert message is not None
        assert state_of(message) == state, message
        with pytest.raises(psycopg.Error) as caught:
            session.execute("SELECT 1")
        assert state_of(caught.value.diag.message_primary or "") == caught.value.sqlstate == "25P02"
        session.rollback()
