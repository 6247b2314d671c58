"""What ALTER ROLE, ALTER DATABASE and PGOPTIONS make of our own session is not reported as the server's value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from advise_command import findings, run
from fix_postgres import find_build
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.pg
OVERRIDES = (
    "ALTER ROLE postgres SET work_mem = '1GB'",
    "ALTER ROLE postgres SET synchronous_commit = off",
    "ALTER DATABASE postgres SET random_page_cost = 7",
    "ALTER ROLE overridden SET work_mem = '1GB'",
)


@pytest.fixture(scope="module", params=["embedded-18", "debian-15"])
def overridden(request: pytest.FixtureRequest, server_home: Path) -> Iterator[Sandbox]:
    """A server whose roles and database have settings of their own, and whose file has one of them."""
    name = f"overridden-{request.param}"
    sandbox = Sandbox.open_or_create(name, bin_dir=find_build(request.param), root=server_home)
    sandbox.start()
    postgres = sandbox.target().postgres
    for statement in (
        "CREATE ROLE overridden LOGIN IN ROLE pg_monitor",
        "ALTER SYSTEM SET work_mem = '8MB'",
        "SELECT pg_reload_conf()",
        *OVERRIDES,
    ):
        postgres.execute(statement)
    yield sandbox
    sandbox.destroy()


def settings(home: Path, dsn: str) -> dict[str, dict[str, object]]:
    code, text, errors = run(home, "inspect", "--target", dsn, "--json")
    assert code == 0, errors
    found: dict[str, dict[str, object]] = json.loads(text)["server"]["settings"]
    return found


@pytest.mark.requirement("R-INV-10")
def test_files_and_defaults_are_the_servers_values(overridden: Sandbox, tmp_path: Path) -> None:
    dsn = make_conninfo(overridden.target().postgres.conninfo, options="-c enable_sort=off")
    found = settings(tmp_path, dsn)
    assert (found["work_mem"]["setting"], found["work_mem"]["source"]) == ("8192", "configuration file")
    assert (found["synchronous_commit"]["setting"], found["synchronous_commit"]["source"]) == ("on", "default")
    assert (found["random_page_cost"]["setting"], found["enable_sort"]["setting"]) == ("4", "on")


def test_the_page_says_whose_value_it_is(overridden: Sandbox, tmp_path: Path) -> None:
    found = findings(tmp_path, overridden.target().postgres.conninfo)
    work_mem, durable = found["work-mem"], found["synchronous-commit"]
    assert "1.17 TB" not in json.dumps(work_mem)
    assert work_mem["answer"] in ("ok", "unknown")  # whether a query spilled is not known of so young a server
    assert "server: off" not in json.dumps(durable)
    assert "off for role postgres" in str(durable["current"])


def test_a_role_that_may_not_read_files_says_unknown(overridden: Sandbox, tmp_path: Path) -> None:
    dsn = make_conninfo(overridden.target().postgres.conninfo, user="overridden")
    assert "work_mem" not in settings(tmp_path, dsn)
    found = findings(tmp_path, dsn)
    assert found["work-mem"]["answer"] == "unknown"
    assert "pg_file_settings" in str(found["work-mem"]["reason"])
    assert "work_mem" not in str(found["synchronous-commit"])
