"""13 to 18 by logical replication: what is written meanwhile arrives, and the source is left as it was."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import find_build
from migration_sums import assert_adds_up
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.migration.movers.client_program import find_programs
from pgdyno.migration.movers.logical import LogicalReplication
from pgdyno.migration.validation import validate
from pgdyno.model.results.migrate import MigrateResult, MigrationPhase
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.store.catalogue import Store
from pgdyno.targets.accounts import load_account
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = pytest.mark.pg
WAIT_S = 120.0
NAME = "logical_shop"
MADE = """
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
CREATE TABLE orders (id serial PRIMARY KEY, customer bigint REFERENCES customers, note text);
CREATE INDEX orders_note ON orders (note);
INSERT INTO customers (name) SELECT 'c' || n FROM generate_series(1, 500) AS n;
INSERT INTO orders (customer, note) SELECT 1 + n % 500, md5(n::text) FROM generate_series(1, 2000) AS n;
"""


LOCK_WHILE_COPIED = f"""
SET LOCAL statement_timeout = '{WAIT_S:.0f}s';
DO $$ BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL) LOOP
        PERFORM pg_sleep(0.002);
    END LOOP;
    LOCK TABLE public.orders;
END $$"""
"""Waits at the server for a finished slot, which comes before the subscription: a session that asked might be late.

A slot that is being made would wait for a transaction that has a lock.
"""


class Noted:
    """What a mover told of its items."""

    def __init__(self, then: Callable[[str], None] = lambda _: None) -> None:
        self.done = set[str]()
        self.then = then

    def began(self, key: str) -> None:
        self.then(key)

    def ended(self, key: str, *, bytes: int | None = None, rows: int | None = None) -> None:
        self.done.add(key)

    def sized(self, key: str, *, rows: int) -> None: ...

    def failed(self, key: str, reason: str) -> None: ...


@pytest.fixture(scope="module")
def servers(server_home: Path) -> Iterator[tuple[Sandbox, Sandbox]]:
    old = Sandbox.open_or_create("logical13", bin_dir=find_build("npm-13"), root=server_home)
    new = Sandbox.open_or_create("logical18", root=server_home)
    for one in (old, new):
        one.start()
    yield old, new
    for one in (old, new):
        one.destroy()


@pytest.fixture
def place(servers: tuple[Sandbox, Sandbox], server_home: Path) -> MovePlace:
    old, new = servers
    source, target = old.target(), new.target()
    change(source.postgres.conninfo, f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
    change(source.postgres.conninfo, f"CREATE DATABASE {NAME}")
    change(make_conninfo(source.postgres.conninfo, dbname=NAME), MADE)
    account = load_account(target)
    folder = server_home / f"logical-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    return MovePlace(
        source=MigrationSide(source, NAME, 130_000),
        target=MigrationSide(target, NAME, 180_000),
        folder=folder,
        jobs=2,
        tag=f"pgdyno migrate test-{os.urandom(3).hex()}",
        program=find_programs([embedded_bin_dir()], 13, 18, account).path,
        account=account,
    )


def change(conninfo: str, statements: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statements)  # type: ignore[arg-type]  # texts of ours


def left_on(place: MovePlace) -> int:
    """Return how many publications and slots the source has."""
    query = (
        "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_publication)"
        " + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots) AS left"
    )
    return int(str(place.source.postgres.fetch(query)[0]["left"]))


def logical(place: MovePlace, servers: tuple[Sandbox, Sandbox]) -> None:
    """Let the source have the level that a rehearsal must not set."""
    if place.source.server.fetch("SHOW wal_level")[0]["wal_level"] != "logical":
        change(place.source.server.conninfo, "ALTER SYSTEM SET wal_level = logical")
        servers[0].stop()
        servers[0].start()


def test_a_level_below_logical_is_refused_and_not_changed(servers: tuple[Sandbox, Sandbox], place: MovePlace) -> None:
    change(place.source.server.conninfo, "ALTER SYSTEM RESET wal_level")
    servers[0].stop()
    servers[0].start()
    with pytest.raises(EnvironmentUnsuitable, match='wal_level "replica"'):
        LogicalReplication().refuse(place)
    assert left_on(place) == 0


def test_what_it_cannot_carry_is_named(servers: tuple[Sandbox, Sandbox], place: MovePlace) -> None:
    logical(place, servers)
    change(
        place.source.postgres.conninfo,
        "CREATE TABLE keyless (n int); CREATE UNLOGGED TABLE quick (id int PRIMARY KEY); SELECT lo_create(0);"
        "CREATE TABLE whole (n int); ALTER TABLE whole REPLICA IDENTITY FULL",
    )
    with pytest.raises(EnvironmentUnsuitable) as refused:
        LogicalReplication().refuse(place)
    assert "table public.keyless has neither primary key nor replica identity" in refused.value.message
    assert "table public.quick is unlogged" in refused.value.message
    assert "large objects" in refused.value.message
    assert "whole" not in refused.value.message


@pytest.mark.requirement("R-MIG-01")
def test_what_is_written_meanwhile_arrives_and_the_source_is_as_before(
    servers: tuple[Sandbox, Sandbox], place: MovePlace
) -> None:
    logical(place, servers)
    mover, done = LogicalReplication(), set[str]()
    mover.refuse(place)
    writes = {
        MigrationPhase.IMPORT: "INSERT INTO orders (customer, note) SELECT 7, 'late' FROM generate_series(1, 100)",
        MigrationPhase.CATCH_UP: "UPDATE customers SET name = 'changed' WHERE id = 3; DELETE FROM orders WHERE id = 5",
    }
    for step in mover.steps({}):
        items = mover.items(step.phase, place)
        noted = Noted(lambda _, phase=step.phase: change(place.source.postgres.conninfo, writes.pop(phase, "SELECT 1")))
        mover.run(step.phase, items, place, noted)
        assert noted.done == {one.key for one in items}
        done |= noted.done
    assert writes == {}
    assert {"public.customers", "public.orders", "sequence values"} <= done
    found = validate(place.source, place.target)
    assert (found.findings, found.unread) == ((), ()), [*found.lines()]
    assert mover.outage_s(place) is not None
    assert left_on(place) == 0
    mover.tidy(place)


def test_structures_that_change_during_the_replication_are_named_before_the_cut_over(
    servers: tuple[Sandbox, Sandbox], place: MovePlace
) -> None:
    logical(place, servers)
    mover = LogicalReplication()
    steps = {one.phase: one for one in mover.steps({})}
    for phase in (MigrationPhase.STRUCTURES, MigrationPhase.IMPORT, MigrationPhase.CATCH_UP):
        mover.run(steps[phase].phase, mover.items(phase, place), place, Noted())
    change(place.source.postgres.conninfo, "ALTER TABLE orders ADD COLUMN more int")
    try:
        with pytest.raises(EnvironmentUnsuitable, match=r"column public\.orders\.more"):
            mover.run(MigrationPhase.CUT_OVER, mover.items(MigrationPhase.CUT_OVER, place), place, Noted())
    finally:
        mover.tidy(place)
    assert left_on(place) == 0


def test_more_wal_than_allowed_ends_it(servers: tuple[Sandbox, Sandbox], place: MovePlace) -> None:
    logical(place, servers)
    mover = LogicalReplication()
    small = replace(place, options={"wal_limit": "1MB"})
    mover.run(MigrationPhase.STRUCTURES, mover.items(MigrationPhase.STRUCTURES, small), small, Noted())
    mover.run(MigrationPhase.IMPORT, mover.items(MigrationPhase.IMPORT, small), small, Noted())
    change(place.target.postgres.conninfo, "ALTER SUBSCRIPTION " + subscription(place) + " DISABLE")
    change(
        place.source.postgres.conninfo,
        "INSERT INTO orders (customer, note) SELECT 7, repeat(md5(n::text), 9) FROM generate_series(1, 9000) AS n",
    )
    with pytest.raises(EnvironmentUnsuitable, match="more than 1"):
        mover.run(MigrationPhase.CATCH_UP, mover.items(MigrationPhase.CATCH_UP, small), small, Noted())
    assert left_on(place) == 0
    mover.tidy(place)


def subscription(place: MovePlace) -> str:
    return str(place.target.postgres.fetch("SELECT subname FROM pg_catalog.pg_subscription")[0]["subname"])


def test_a_rehearsal_that_is_killed_leaves_nothing_on_the_source_and_goes_on_when_resumed(
    servers: tuple[Sandbox, Sandbox],
    place: MovePlace,
    pgdyno_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole verb: killed while tables are copied, by a lock of ours; the guard takes away what it left."""
    logical(place, servers)
    monkeypatch.setenv("PGDYNO_STORE", str(pgdyno_home / "store.db"))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f"""version = 1
[migration]
name = "shop"
mover = "logical"
source = {json.dumps(place.source.postgres.conninfo)}
folder = {json.dumps(str(pgdyno_home / "dumps"))}
window = "10min"
"""
    )
    plan.chmod(0o600)
    words = ["migrate", "rehearse", str(plan), "--apply", "--yes"]
    with psycopg.connect(place.source.postgres.conninfo) as lock:
        killed = RunningPgdyno(*words)
        lock.execute(LOCK_WHILE_COPIED)
        assert left_on(place) >= 2
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    wait_until(lambda: left_on(place) == 0)
    with Store.open(pgdyno_home / "store.db") as store:
        study = store.studies()[0].id
    leave_all_behind([*words, "--resume", study], place)
    assert left_on(place) >= 2, "who would have taken it away was killed too"
    said = run_pgdyno("cleanup", "--only", "migration", "--yes", "--json")
    assert json.loads(said.stdout)["dropped"] == [study], said
    assert left_on(place) == 0
    done = run_pgdyno(*words, "--resume", study)
    assert done.returncode == 0, done
    with Store.open(pgdyno_home / "store.db") as store:
        result = store.study(study).told(MigrateResult)
    assert result is not None
    assert result.faults == ()
    assert result.attempts == 3
    assert result.back is not None
    assert [one.what for one in result.back.differs] == [], "the source is as it was"
    assert result.total_s is not None
    assert result.outage_s is not None
    assert result.outage_s < result.total_s
    assert_adds_up(result)
    assert left_on(place) == 0


def leave_all_behind(words: list[str], place: MovePlace) -> None:
    """Kill the guard of a rehearsal, which gets another one, and then both of them, while tables are copied."""
    with psycopg.connect(place.source.postgres.conninfo) as lock:
        killed = RunningPgdyno(*words)
        lock.execute(LOCK_WHILE_COPIED)
        assert left_on(place) >= 2
        (first,) = guards_of(killed.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: guards_of(killed.pid) not in ([first], []))
        killed.send_signal(signal.SIGSTOP)
        for guard in guards_of(killed.pid):
            os.kill(guard, signal.SIGKILL)
        killed.kill()
        killed.wait()


def guards_of(pid: int) -> list[int]:
    found = list[int]()
    for one in processes.children_of(pid):
        with suppress(OSError):  # it has ended since
            if not one.has_ended and b"logical_guard" in Path(f"/proc/{one.pid}/cmdline").read_bytes():
                found.append(one.pid)
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
