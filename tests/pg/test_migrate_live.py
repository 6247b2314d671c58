"""13 to 18 by dump and restore: a dry run, a kill in the middle of the import, the resume, another, a window."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from fix_postgres import find_build
from made_trace import made_trace
from migration_sums import assert_adds_up
from pgdyno.cli.migrate import command
from pgdyno.migration.journal import JournalState, read_journal
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, MigrationPhase
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.accounts import load_account
from warm_program import RunningPgdyno

pytestmark = pytest.mark.pg
P = MigrationPhase
WAIT_S = 300.0
SCHEMA = """
CREATE ROLE migrate_clerk;
CREATE SCHEMA sales;
CREATE FUNCTION sales.slow(n int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(0.01); RETURN true; END $$;
CREATE TABLE sales.customer (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE sales.orders (id serial PRIMARY KEY, customer int REFERENCES sales.customer, note text);
CREATE INDEX orders_note ON sales.orders (note);
CREATE STATISTICS sales.orders_pair ON customer, note FROM sales.orders;
CREATE TABLE sales.lines (id int PRIMARY KEY, n int CHECK (sales.slow(n)));
CREATE VIEW sales.of_key AS SELECT c.id, c.name, count(*) FROM sales.customer c GROUP BY c.id;
CREATE MATERIALIZED VIEW sales.counted AS SELECT c.id, c.name, count(*) FROM sales.customer c GROUP BY c.id;
CREATE INDEX counted_name ON sales.counted (name);
CREATE FUNCTION sales.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
CREATE TRIGGER touched BEFORE INSERT ON sales.orders FOR EACH ROW EXECUTE FUNCTION sales.touch();
GRANT USAGE ON SCHEMA sales TO migrate_clerk;
GRANT SELECT ON sales.orders TO migrate_clerk;
ALTER DATABASE migrate_shop SET work_mem = '5MB';
ALTER DATABASE migrate_shop SET search_path = "$user", sales, public;
ALTER ROLE migrate_clerk SET work_mem = '6MB';
GRANT CREATE ON DATABASE migrate_shop TO migrate_clerk;
ALTER DATABASE migrate_shop OWNER TO migrate_clerk;
INSERT INTO sales.customer SELECT n, 'c' || n FROM generate_series(1, 500) AS n;
INSERT INTO sales.orders (customer, note) SELECT 1 + n % 500, md5(n::text) FROM generate_series(1, 3000) AS n;
CREATE TABLE public.item (id int PRIMARY KEY, n int NOT NULL, label text NOT NULL);
INSERT INTO public.item SELECT i, 0, 'label ' || i FROM generate_series(1, 500) AS g (i);
INSERT INTO sales.lines SELECT n, n FROM generate_series(1, 300) AS n;
SELECT lo_from_bytea(0, 'large');
"""


@pytest.fixture(scope="module")
def old(server_home: Path) -> Iterator[str]:
    """The conninfo of a database on PostgreSQL 13."""
    sandbox = Sandbox.open_or_create("migrate13", bin_dir=find_build("npm-13"), root=server_home)
    sandbox.start()
    server = sandbox.target().postgres
    server.execute("CREATE DATABASE migrate_shop")
    with psycopg.connect(server.conninfo, dbname="migrate_shop", autocommit=True) as session:
        session.execute(SCHEMA)
    yield psycopg.conninfo.make_conninfo(server.conninfo, dbname="migrate_shop")
    sandbox.destroy()


def plan_file(folder: Path, home: Path, old: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(
        f"""version = 1
[migration]
name = "shop"
source = {json.dumps(old)}
folder = {json.dumps(str(home / "dumps"))}
jobs = 2
window = "10min"
[load]
max_wal_size = "2GB"
[[phase]]
name = "import"
planned = "1min"
"""
    )
    path.chmod(0o600)
    return path


def for_account(folder: Path) -> None:
    """Make a folder of the account that programs of loads run as."""
    folder.mkdir(mode=0o700)
    with opened(TargetRequest()) as target:
        account = load_account(target)
    if account is not None:
        os.chown(folder, account.uid, account.gid)


def journal_of(home: Path) -> JournalState:
    found = [*(home / "state" / "migrations").glob("*/rehearsal.jsonl")]
    return read_journal(found[0].parent) if found else JournalState()


def in_the_import(state: JournalState) -> bool:
    """Tell whether one table is there and the slow one is under way."""
    items = {key: one.end for (phase, key), one in state.items.items() if phase is P.IMPORT}
    return items.get("sales.lines") is ItemEnd.NOT_RUN and items.get("sales.orders") is ItemEnd.DONE


def told(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False, standalone_mode=False)


def latest(home: Path) -> MigrateResult:
    with Store.open(home / "store.db") as store:
        return next(found for one in store.studies() if (found := one.told(MigrateResult)) is not None)


@pytest.mark.requirement("R-MIG-01", "R-MIG-02", "R-MIG-03", "R-MIG-06", "R-MIG-08")
def test_a_migration_is_rehearsed_killed_resumed_and_judged(
    old: str, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    plan = plan_file(tmp_path, pgdyno_home, old)
    said = told("rehearse", str(plan))
    assert not said.return_value
    assert "nothing was changed" in said.stderr
    assert "source: is only read" in said.stderr
    assert "code:   what users of the source made" in said.stderr
    assert not (pgdyno_home / "dumps").exists()
    killed = RunningPgdyno("migrate", "rehearse", str(plan), "--apply", "--yes")
    until = time.monotonic() + WAIT_S
    while not in_the_import(journal_of(pgdyno_home)):
        assert killed.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    with Store.open(pgdyno_home / "store.db") as store:
        study = store.studies()[0].id
    said = CliRunner().invoke(
        command,
        ["rehearse", str(plan), "--apply", "--yes", "--resume", study],
        catch_exceptions=False,
        standalone_mode=False,
    )
    result = latest(pgdyno_home)
    assert result.faults == ()
    assert not said.return_value
    assert (result.source_version, result.target_version, result.attempts) == ("13", "18", 2)
    attempts = {one.item: one.attempt for one in result.items if one.phase is P.IMPORT}
    assert attempts["sales.orders"] == 1
    assert attempts["sales.lines"] == 2
    assert {one.item: one.rows for one in result.items if one.phase is P.IMPORT}["sales.orders"] == 3000
    assert result.validation is not None
    assert result.validation.is_same
    assert [(one.name, one.during, one.is_reverted) for one in result.settings] == [("max_wal_size", "2GB", True)]
    assert_adds_up(result)
    assert not [*(pgdyno_home / "dumps").iterdir()]

    assert result.back is not None
    assert [one.what for one in result.back.differs] == [], "the source is as it was"

    user = str(psycopg.conninfo.conninfo_to_dict(old)["user"])
    trace = made_trace(tmp_path / "t.parquet", sessions=2, seconds=2.0, user=user, database="migrate_shop")
    copies = pgdyno_home / "copies"
    for_account(copies)
    plan.write_text(plan.read_text() + f"[replay]\ntrace = {json.dumps(str(trace))}\n")
    plan.write_text(plan.read_text() + f'[mover]\nstatistics = "transfer"\ntransfer_to = {json.dumps(str(copies))}\n')
    said = CliRunner().invoke(
        command,
        ["rehearse", str(plan), "--apply", "--yes", "--jobs", "1,2", "--window", "1s"],
        catch_exceptions=False,
        standalone_mode=False,
    )
    again = latest(pgdyno_home)
    assert said.return_value == 1
    assert again.replay is not None
    assert (again.replay.sent, again.replay.unlike) == (40, 0), "what was captured is answered on what has arrived"
    assert {*again.faults} - {again.replay.fault} == {"the window was too short"}, "a busy machine may void the replay"
    assert [one.phase for one in again.phases if one.end is ItemEnd.DONE][-1] is P.REPLAY
    assert (again.number, again.jobs, [one.jobs for one in again.earlier]) == (3, 2, [2, 1])
    assert again.earlier[0].study == study
    assert {P.TRANSFER, P.STATISTICS} <= {one.phase for one in again.phases if one.end is ItemEnd.DONE}
    assert [one.item for one in again.items if one.kind == "analyze"] == ["sales.orders"], "no dump has those of pairs"
    assert f": 1 job, max_wal_size = 2GB\nB {again.study}: 2 jobs" in said.stdout
    assert not [*copies.iterdir()]
    said = told("compare", study, again.study, "--json")
    assert {one["phase"] for one in json.loads(said.stdout)["phases"]} >= {"export", "import", "indexes"}
