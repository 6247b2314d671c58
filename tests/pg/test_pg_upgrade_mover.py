"""15 to 18 by pg_upgrade --link, on a copy: the source goes on, the copy is validated, stopped and marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from fix_postgres import find_build
from migration_sums import assert_adds_up
from pgdyno.cli.migrate import command
from pgdyno.model.results.migrate import FindingWeight, MigrateResult, MigrationPhase
from pgdyno.replay.copy_proof import MARKER
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store

pytestmark = pytest.mark.pg
P = MigrationPhase
NAME = "upgrade_shop"
MADE = """
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
CREATE TABLE orders (id serial PRIMARY KEY, customer bigint REFERENCES customers, note text);
CREATE UNLOGGED TABLE quick (n int);
CREATE INDEX orders_note ON orders (note);
INSERT INTO customers (name) SELECT 'c' || n FROM generate_series(1, 500) AS n;
INSERT INTO orders (customer, note) SELECT 1 + n % 500, md5(n::text) FROM generate_series(1, 2000) AS n;
DELETE FROM orders WHERE id % 7 = 0;
SELECT lo_from_bytea(0, 'large');
ALTER DATABASE upgrade_shop SET work_mem = '5MB';
"""


@pytest.fixture
def old(server_home: Path) -> Iterator[str]:
    """The conninfo of a database on PostgreSQL 15, without data checksums."""
    sandbox = Sandbox.open_or_create("upgrade15", bin_dir=find_build("debian-15"), root=server_home)
    sandbox.start()
    server = sandbox.target().postgres
    server.execute("CREATE DATABASE upgrade_shop")
    conninfo = make_conninfo(server.conninfo, dbname=NAME)
    with psycopg.connect(conninfo, autocommit=True) as session:
        session.execute(MADE)
    yield conninfo
    sandbox.destroy()


@pytest.mark.requirement("R-MIG-01")
def test_a_copy_is_upgraded_and_the_source_goes_on(
    old: str, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f"""version = 1
[migration]
name = "shop"
mover = "pg_upgrade"
source = {json.dumps(old)}
folder = {json.dumps(str(pgdyno_home / "clusters"))}
window = "30min"
[mover]
mode = "link"
afterwards = "keep"
"""
    )
    plan.chmod(0o600)
    said = CliRunner().invoke(
        command, ["rehearse", str(plan), "--apply", "--yes"], catch_exceptions=False, standalone_mode=False
    )
    with Store.open(pgdyno_home / "store.db") as store:
        result = store.studies()[0].told(MigrateResult)
    assert result is not None
    assert result.faults == (), said.output
    assert not said.return_value
    assert (result.source_version, result.target_version) == ("15", "18")
    assert "source: a base backup is taken" in said.stderr
    assert "unusable afterwards" in result.way_back
    weights = {one.topic: one.weight for one in result.assessment}
    assert weights["data checksums"] is FindingWeight.DIFFERS
    assert result.validation is not None
    assert result.validation.is_same
    assert result.validation.compared["tables"] >= 3
    keys = [one.item for one in result.items if one.phase is P.UPGRADE]
    assert keys == ["check", "pg_upgrade", "start"]
    assert result.outage_s is not None
    assert result.total_s is not None
    assert 0 < result.outage_s < result.total_s
    assert_adds_up(result)
    assert result.target_bytes
    (folder,) = (pgdyno_home / "clusters").iterdir()
    assert [one.name for one in folder.iterdir()] == ["new"]
    assert (folder / "new" / "PG_VERSION").read_text().strip() == "18"
    assert (folder / "new" / MARKER).exists()
    assert not (folder / "new" / "postmaster.pid").exists()
    with psycopg.connect(old, autocommit=True) as session:
        session.execute("INSERT INTO orders (customer, note) VALUES (1, 'later')")
        assert session.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
