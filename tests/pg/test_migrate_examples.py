"""The examples of migrations as they are, but for the names of servers and folders, and the verbs that follow them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fix_postgres import find_build
from made_trace import INIT, made_trace
from pgdyno.cli.migrate import command
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, MigrationPhase
from pgdyno.replay.target_facts import ALLOWED
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest

pytestmark = pytest.mark.pg
EXAMPLES = Path(__file__).parents[2] / "examples" / "migrate"
READ = "unit/migration/test_migration_file.py::test_the_examples_are_read"
MADE = f"""
CREATE TABLE orders (id serial PRIMARY KEY, note text);
CREATE INDEX orders_note ON orders (note);
INSERT INTO orders (note) SELECT md5(n::text) FROM generate_series(1, 3000) AS n;
{INIT}
"""


@contextmanager
def shop(home: Path, build: str) -> Iterator[str]:
    """Yield the conninfo of database "shop" on a server of this build."""
    sandbox = Sandbox.open_or_create(f"example-{build}", bin_dir=find_build(build), root=home)
    try:
        sandbox.start()
        server = sandbox.target().postgres
        server.execute("CREATE DATABASE shop")
        conninfo = make_conninfo(server.conninfo, dbname="shop")
        with psycopg.connect(conninfo, autocommit=True) as session:
            session.execute(MADE.encode())
        yield conninfo
    finally:
        sandbox.destroy()


@pytest.fixture
def new(server_home: Path, pgdyno_home: Path) -> Iterator[str]:
    """The conninfo of a server of 18 that stands in the list of those that may be changed."""
    sandbox = Sandbox.open_or_create("example-18", root=server_home)
    try:
        sandbox.start()
        conninfo = make_conninfo(sandbox.target().postgres.conninfo, dbname="postgres")
        with opened(TargetRequest(dsn=conninfo)) as target:
            name = target.name
        listed = places.ensure(places.data_dir()) / ALLOWED
        listed.write_text(f"{name}\n")
        listed.chmod(0o600)
        yield conninfo
    finally:
        sandbox.destroy()


def example(name: str, into: Path, /, **own: str) -> Path:
    """Write an example with these keys as this machine has them, and nothing else changed."""
    text = (EXAMPLES / name).read_text()
    for key, value in own.items():
        text, count = re.subn(rf'(?m)^{key} = "[^"]*"', lambda _, k=key, v=value: f"{k} = {json.dumps(v)}", text)
        assert count == 1, key
    path = into / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def told(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False, standalone_mode=False)


def results(home: Path) -> list[MigrateResult]:
    """Return the rehearsals of the store, the newest first."""
    with Store.open(home / "store.db") as store:
        return [found for one in store.studies() if (found := one.told(MigrateResult)) is not None]


@pytest.mark.night(READ)
def test_the_shop_is_moved_compared_and_validated(
    new: str, server_home: Path, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    with shop(server_home, "npm-13") as old:
        user = str(conninfo_to_dict(old)["user"])
        trace = made_trace(tmp_path / "t.parquet", sessions=2, seconds=2.0, user=user, database="shop")
        plan = example(
            "shop.toml", tmp_path, source=old, target=new, folder=str(pgdyno_home / "dumps"), trace=str(trace)
        )
        dry = told("rehearse", str(plan))
        assert not dry.return_value
        assert "load:   maintenance_work_mem = 1GB on the target\n" in dry.stderr
        assert "put back in the phase run-time settings" in " ".join(dry.stderr.split())
        said = told("rehearse", str(plan), "--apply", "--yes", "--jobs", "1,4")
        second, first = results(pgdyno_home)
        for one in (first, second):
            own = {one.replay.fault} if one.replay is not None else set()
            assert {*one.faults} - own == set(), f"a busy machine may void the replay, and no more: {said.output}"
            assert one.replay is not None
            assert one.replay.sent == 40
            assert [setting.is_reverted for setting in one.settings] == [True] * 3

        compared = told("compare", first.study, second.study)
        assert not compared.return_value
        assert f"A {first.study}: 1 job, checkpoint_timeout = 30min, maintenance_work_mem = 1GB" in compared.stdout
        assert f"B {second.study}: 4 jobs" in compared.stdout
        assert re.search(r"^  import +[0-9.]+ m?s +[0-9.]+ m?s +[+-][0-9]+ %", compared.stdout, re.MULTILINE)

        there = make_conninfo(new, dbname="shop")
        with psycopg.connect(there, autocommit=True) as session:  # as before the replay
            session.execute("UPDATE item SET n = 0")
        assert not told("validate", old, there, "-j", "2").return_value
        with psycopg.connect(there, autocommit=True) as session:
            session.execute("DELETE FROM orders WHERE id = 77")
        wrong = told("validate", old, there)
        assert wrong.return_value == 1
        assert "(77) missing" in wrong.stdout


@pytest.mark.night(READ)
def test_the_shop_is_upgraded_on_a_copy(
    new: str, server_home: Path, pgdyno_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    with shop(server_home, "debian-15") as old:
        own = {"source": old, "target": new, "folder": str(pgdyno_home / "clusters")}
        plan = example("upgrade.toml", tmp_path, **own, old_programs=str(find_build("debian-15")))
        said = told("rehearse", str(plan), "--apply", "--yes")
        (result,) = results(pgdyno_home)
        assert result.faults == (), said.output
        assert not said.return_value
        upgrade = next(one for one in result.phases if one.phase is MigrationPhase.UPGRADE)
        assert (upgrade.end, upgrade.planned_s) == (ItemEnd.DONE, 900.0)
        assert not [*(pgdyno_home / "clusters").iterdir()], "it is dropped, as the plan says"
