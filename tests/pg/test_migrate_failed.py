"""A rehearsal that cannot be, or fails: refused before anything begins, or told once, with its settings put back."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import make_conninfo

from pgdyno.cli.migrate import command
from pgdyno.errors import UsageError
from pgdyno.migration.movers.client_program import refused_compression
from pgdyno.model.results.migrate import MigrateResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.store.catalogue import Store

pytestmark = pytest.mark.pg
BROKEN = """
CREATE TABLE orphan (id int);
SET allow_system_table_mods = on;
UPDATE pg_class SET relowner = 99999 WHERE relname = 'orphan';
"""
"""A table of a role that is gone, which no pg_dump takes."""
PLAN = """\
version = 1
[migration]
name = "fails"
source = {source}
folder = {folder}
[mover]
{mover}
[load]
maintenance_work_mem = "99MB"
"""


def test_a_compression_is_asked_of_the_program_itself() -> None:
    pg_dump = str(embedded_bin_dir() / "pg_dump")
    assert refused_compression(pg_dump, "1", None) == ""
    assert "compression" in refused_compression(pg_dump, "squeeze:9", None)


def test_what_ends_a_rehearsal_is_told_once_and_its_settings_are_put_back(
    server_home: Path, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    plan = tmp_path / "plan.toml"
    other = Sandbox.open_or_create("failing", root=server_home)
    try:
        other.start()
        server = other.target().postgres
        server.execute("CREATE DATABASE failing_shop")
        conninfo = make_conninfo(server.conninfo, dbname="failing_shop")
        with psycopg.connect(conninfo, autocommit=True) as session:
            session.execute(BROKEN)
        folder = json.dumps(str(pgdyno_home / "dumps"))

        def rehearsed(mover: str) -> Result:
            plan.write_text(PLAN.format(source=json.dumps(conninfo), folder=folder, mover=mover))
            plan.chmod(0o600)
            return CliRunner().invoke(command, ["rehearse", str(plan), "--apply", "--yes"], standalone_mode=False)

        refused = rehearsed('compress = "squeeze:9"')
        assert isinstance(refused.exception, UsageError)
        assert "squeeze:9" in refused.exception.message
        assert not (pgdyno_home / "store.db").exists(), "nothing was begun"
        assert rehearsed("").exception is None
        with Store.open(pgdyno_home / "store.db") as store:
            result = store.studies()[0].told(MigrateResult)
    finally:
        other.destroy()
    assert result is not None
    (fault,) = (one for one in result.faults if "OID 99999" in one)
    assert fault.startswith("phase export failed: ")
    assert [(one.name, one.during, one.is_reverted) for one in result.settings] == [
        ("maintenance_work_mem", "99MB", True)
    ]
    assert not any("in force" in one for one in result.faults)
