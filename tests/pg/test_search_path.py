"""Whoever owns a database cannot have our role run what is theirs: no object of theirs stands for a system's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ConnectError
from pgdyno.inventory.inspection import inspect
from pgdyno.probes.evidence import snapshot
from pgdyno.probes.observer import Observer
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.outage import read_outage
from pgdyno.server.postgres import Postgres
from pgdyno.server.privileges import read_role
from pgdyno.targets.connect import open_target

pytestmark = pytest.mark.pg

DATABASE, ROLE = "owned_by_mallory", "mallory"
_TRAP = """
CREATE SCHEMA evil AUTHORIZATION mallory;
SET ROLE mallory;
CREATE FUNCTION evil.pwn() RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    ALTER ROLE mallory SUPERUSER; END IF;
  RETURN true; END $$;
CREATE VIEW evil.pg_settings AS SELECT * FROM pg_catalog.pg_settings WHERE evil.pwn();
CREATE VIEW evil.pg_database AS SELECT * FROM pg_catalog.pg_database WHERE evil.pwn();
CREATE VIEW evil.pg_stat_statements AS SELECT evil.pwn() AS queryid, 1 AS calls, 'x' AS query, 0 AS dbid;
CREATE VIEW public.pg_stat_statements AS SELECT * FROM evil.pg_stat_statements;
CREATE VIEW public.pg_buffercache AS SELECT evil.pwn() AS isdirty, 1 AS relfilenode;
CREATE FUNCTION public.pg_buffercache_summary(OUT buffers_dirty int, OUT buffers_used int, OUT buffers_unused int)
  LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); buffers_dirty = 1; END $$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS
  $$ SELECT pg_catalog.current_setting($1) WHERE evil.pwn() $$;
CREATE FUNCTION evil.same(name, name) RETURNS bool LANGUAGE sql AS
  $$ SELECT evil.pwn() AND $1 OPERATOR(pg_catalog.=) $2 $$;
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.same);
RESET ROLE;
ALTER DATABASE owned_by_mallory SET search_path = evil, pg_catalog, public;
"""


@pytest.fixture
def trapped(sandbox18: Sandbox) -> Iterator[Postgres]:
    """The server of a database whose owner, no superuser, waits for a superuser's session."""
    server = sandbox18.target().postgres
    server.execute(f"CREATE ROLE {ROLE}")
    server.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
    try:
        server.execute(_TRAP, None, DATABASE)
        yield Postgres(make_conninfo(server.conninfo, dbname=DATABASE))
    finally:
        server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        server.execute(f"DROP ROLE {ROLE}")


def is_caught(server: Postgres) -> bool:
    rows = server.fetch("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = 'mallory'", None, "postgres")
    return rows[0]["rolsuper"] is True


def test_no_reader_runs_what_the_owner_of_a_database_put_in_the_systems_place(trapped: Postgres) -> None:
    target = open_target(trapped.conninfo)
    inspect(target)
    read_outage(target.postgres)
    read_role(target.postgres)
    with closing(snapshot.opened(target.postgres)) as session:
        for read in (snapshot._statements, snapshot._buffers):
            with pytest.raises(LookupError, match="is not installed"):
                read(session)
    observer = Observer(target.postgres, DATABASE, database=DATABASE)
    assert "statements" in observer.read(0.0, ("database", "statements")).failures
    observer.close()
    assert not is_caught(trapped)


def test_what_the_caller_sets_by_options_is_kept(sandbox18: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    server = sandbox18.target().postgres
    ask = "SELECT current_setting('work_mem') AS one, current_setting('search_path') AS path"
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=5MB -c search_path=evil")
    assert server.fetch(ask) == [{"one": "5MB", "path": "pg_catalog,pg_temp"}]
    named = Postgres(make_conninfo(server.conninfo, options="-c work_mem=6MB"))
    assert named.fetch(ask) == [{"one": "6MB", "path": "pg_catalog,pg_temp"}]


def test_options_of_a_service_are_kept(sandbox18: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    services = tmp_path / "services"
    services.write_text("[one]\noptions=-c work_mem=7MB -c search_path=evil\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    server = Postgres(make_conninfo(sandbox18.target().postgres.conninfo, service="one"))
    ask = "SELECT current_setting('work_mem') AS one, current_setting('search_path') AS path"
    assert server.fetch(ask) == [{"one": "7MB", "path": "pg_catalog, pg_temp"}]


@pytest.mark.parametrize(("path", "is_safe"), [("evil, pg_catalog", False), ('"$user", public', True)])
def test_a_pooler_that_takes_no_options_gets_no_session_that_the_owner_misleads(
    trapped: Postgres, monkeypatch: pytest.MonkeyPatch, path: str, is_safe: bool
) -> None:
    trapped.execute(f"ALTER DATABASE {DATABASE} SET search_path = {path}", None, "postgres")
    connect = psycopg.connect

    def pooled(conninfo: str, **given: Any) -> Any:
        if "search_path" in conninfo:
            raise psycopg.OperationalError("ERROR:  unsupported startup parameter in options: search_path")
        return connect(conninfo, **given)

    monkeypatch.setattr("pgdyno.server.postgres.psycopg.connect", pooled)
    if is_safe:
        assert trapped.fetch("SELECT 1 AS one") == [{"one": 1}]
        return
    with pytest.raises(ConnectError, match="other users' objects"):
        trapped.connect()


def test_the_trap_would_work_in_the_sessions_of_a_load(trapped: Postgres) -> None:
    trapped.for_load(DATABASE).fetch("SELECT name FROM pg_settings LIMIT 1")
    assert is_caught(trapped)
