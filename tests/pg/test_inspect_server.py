"""`pgdyno inspect` on real servers: complete, with few rights, quick, and without a trace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from captured import server_of
from fix_postgres import NIGHT, find_build
from pgdyno.capture.folder import load_folder
from pgdyno.capture.server_queries import QUERIES
from pgdyno.capture.take import take_capture
from pgdyno.inventory.digest import inventory_hash
from pgdyno.inventory.inspection import inspect, inspect_capture, write_capture
from pgdyno.inventory.reading import read_inventory
from pgdyno.linux.cpu import ServerCpu
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Purpose
from pgdyno.model.shapes import plain
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect_routes import open_server
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target

pytestmark = pytest.mark.pg
SECRET = "s3cr3t-Of-Ours"
TABLES = 10_000 if NIGHT else 2_000
HIDDEN_FROM_PG_MONITOR = {"postgres/shared_memory.json", "postgres/log.json"}
"""Before 15 and before 17; both have another way."""
CATALOG = """
SELECT (SELECT array_agg((oid::text, xmin::text) ORDER BY oid) FROM pg_class)::text AS classes,
       (SELECT array_agg((oid::text, xmin::text) ORDER BY oid) FROM pg_proc)::text AS functions,
       (SELECT array_agg((setdatabase, setrole, setconfig)::text) FROM pg_db_role_setting)::text AS overrides,
       (SELECT array_agg((name, setting, source, reset_val)::text ORDER BY name) FROM pg_settings)::text AS settings
"""


def as_monitor(sandbox: Sandbox, name: str = "watcher") -> Target:
    """Return the target as a role with pg_monitor and nothing else."""
    owner = sandbox.target().postgres
    if not owner.fetch("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]):
        owner.execute(sql.SQL("CREATE ROLE {0} LOGIN; GRANT pg_monitor TO {0}").format(sql.Identifier(name)))
    return replace(sandbox.target(), postgres=Postgres(make_conninfo(owner.conninfo, user=name)))


@pytest.mark.requirement("R-INV-13", "R-INV-14", "R-INV-12", "R-INV-10", "R-INV-19")
def test_pg_monitor_sees_all_of_every_version(any_postgres: Sandbox) -> None:
    inventory = inspect(as_monitor(any_postgres))
    server, host = server_of(inventory), inventory.host
    rows = any_postgres.target().postgres.fetch("SELECT name, setting, unit, context, boot_val FROM pg_settings")
    # Every session of ours has a search_path of its own, which is not the server's.
    rows = [row for row in rows if row["name"] != "search_path"]
    assert server.settings.keys() == {row["name"] for row in rows}
    for row in rows:
        fact = server.settings[str(row["name"])]
        if row["name"] not in ("application_name", "client_encoding") and "command" not in str(row["name"]):
            assert (fact.setting, fact.unit, fact.context) == (row["setting"], row["unit"], row["context"])
    assert server.version_num == any_postgres.record.version_num
    unseen = {key: why for key, why in inventory.missing.items() if key.startswith("postgres/")}
    assert unseen.keys() <= HIDDEN_FROM_PG_MONITOR, unseen
    assert server.text("data_directory") == str(any_postgres.data_directory)
    assert isinstance(server.text("config_file"), str)
    assert server.log_files == (str(any_postgres.log_file),)
    assert not isinstance(server.databases, Unknown)
    assert all(isinstance(database.size_bytes, int) for database in server.databases)
    assert isinstance(server.uptime_s, float)
    assert (server.in_recovery, server.standbys, server.slots, server.overrides) == (False, 0, 0, {})
    data = host.place(Purpose.DATA)
    assert data is not None
    assert isinstance(data.mount_point, str)
    mount = host.mount(data.mount_point)
    assert mount is not None
    assert mount.block_size == os.statvfs(any_postgres.data_directory).f_frsize


def peak_bytes(sandbox: Sandbox) -> int:
    """Return the most memory that the postmaster has had so far; it only grows."""
    status = Path(f"/proc/{postmaster_lock.postmaster_pid(sandbox.data_directory)}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmPeak:")]
    return int(line.split()[1]) * 1024


@pytest.mark.requirement("R-KRN-14", "R-KRN-15")
def test_the_need_of_huge_pages(any_postgres: Sandbox) -> None:
    """The server's own figure since 15; VmPeak with its path everywhere, which is never less."""
    before = peak_bytes(any_postgres)
    inventory = inspect(any_postgres.target())
    server, page = server_of(inventory), inventory.host.memory.huge_page_bytes
    assert isinstance(server.peak_memory_bytes, int)
    assert server.peak_memory_file == f"/proc/{postmaster_lock.postmaster_pid(any_postgres.data_directory)}/status"
    assert before <= server.peak_memory_bytes <= peak_bytes(any_postgres)
    if server.major < 15:
        assert isinstance(server.huge_pages_needed, Unknown)
        assert "VmPeak" in server.huge_pages_needed.reason
    else:
        assert isinstance(server.huge_pages_needed, int)
        assert isinstance(server.shared_memory_bytes, int)
        assert isinstance(page, int)
        assert 0 <= server.huge_pages_needed * page - server.shared_memory_bytes < page + (1 << 20)
        assert server.peak_memory_bytes >= server.shared_memory_bytes
    assert server.huge_pages_in_use is False


@pytest.fixture
def moved(make_sandbox: Callable[..., Sandbox], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A server of Debian's 15, or the embedded 18, with pg_wal and a tablespace elsewhere, and secrets in it."""
    sandbox = make_sandbox("moved")
    sandbox.start()
    postgres = sandbox.target().postgres
    sandbox.stop()
    elsewhere = sandbox.data_directory.parent / "elsewhere"
    elsewhere.mkdir()
    wal = sandbox.data_directory / "pg_wal"
    wal.rename(elsewhere / "wal")
    wal.symlink_to(elsewhere / "wal")
    owner = sandbox.data_directory.stat()
    (elsewhere / "hot").mkdir()
    for path in (elsewhere, elsewhere / "hot"):
        os.chown(path, owner.st_uid, owner.st_gid)
    sandbox.start()
    postgres.execute(sql.SQL("CREATE TABLESPACE hot LOCATION {}").format(sql.Literal(str(elsewhere / "hot"))))
    for statement in (
        f"ALTER SYSTEM SET primary_conninfo = 'host=db2 user=repl password={SECRET}'",
        "ALTER SYSTEM SET archive_mode = on",
        f"ALTER SYSTEM SET archive_command = 'PGPASSWORD={SECRET} true %p /mnt/wal/%f'",
        f"ALTER SYSTEM SET ssl_passphrase_command = 'echo {SECRET}'",
        f"ALTER ROLE postgres SET my_extension.password = '{SECRET}'",
        "ALTER DATABASE postgres SET work_mem = '8MB'",
    ):
        postgres.execute(sql.SQL(statement))  # type: ignore[arg-type] # our own text
    sandbox.stop()
    sandbox.start()
    yield sandbox
    postgres.execute("DROP TABLESPACE hot")


@pytest.mark.requirement("R-INV-12", "R-INV-13")
def test_moved_places_and_secrets(moved: Sandbox, tmp_path: Path) -> None:
    inventory = write_capture(moved.target(), tmp_path / "capture")
    host, server = inventory.host, server_of(inventory)
    assert not isinstance(host.places, Unknown)
    places = {(place.purpose, place.name): place for place in host.places}
    rows = json.loads((tmp_path / "capture/commands/places.json").read_text())
    real = {row["purpose"]: row.get("real") for row in rows}
    elsewhere = moved.data_directory.parent / "elsewhere"
    assert real["wal"] == str(elsewhere / "wal")
    assert real["tablespace"] == str(elsewhere / "hot")
    assert {purpose for purpose, _ in places} >= {
        Purpose.DATA,
        Purpose.WAL,
        Purpose.TABLESPACE,
        Purpose.LOG,
        Purpose.BACKUP,
    }
    assert places[Purpose.BACKUP, ""].path == "/mnt/wal"
    assert isinstance(places[Purpose.BACKUP, ""].stack, Unknown)
    assert server.overrides == {
        "database postgres": {"work_mem": "8MB"},
        "role postgres": {"my_extension.password": "(left out)"},
    }
    everything = "".join(path.read_text() for path in (tmp_path / "capture").rglob("*") if path.is_file())
    assert SECRET not in everything
    assert server.settings["archive_command"].setting == "true (left out)"


@pytest.mark.requirement("R-INV-18")
def test_a_capture_is_read_as_the_live_server_was(sandbox18: Sandbox, tmp_path: Path) -> None:
    live = write_capture(sandbox18.target(), tmp_path / "capture")
    again = inspect_capture(tmp_path / "capture")
    assert inventory_hash(again) == inventory_hash(live)
    assert replace(again, origin="live") == live
    assert again.environment_name == read_facts(sandbox18.target()).environment_hash(), "as a study would keep it"
    assert inventory_hash(inspect(sandbox18.target())) == inventory_hash(live)
    capture = load_folder(tmp_path / "capture")
    text = capture.texts["commands/sysctl.txt"]
    changed = replace(
        capture, texts={**capture.texts, "commands/sysctl.txt": text.replace("vm.swappiness = ", "vm.swappiness = 1")}
    )
    assert inventory_hash(read_inventory(changed)) != inventory_hash(live)


def test_a_capture_survives_the_way_over_ssh(sandbox18: Sandbox) -> None:
    from pgdyno.capture.texts import from_json, to_json
    from pgdyno.remote import wire

    capture = take_capture(sandbox18.target())
    line = wire.to_line({"gives": plain(to_json(capture))})
    there = from_json(wire.mapping(wire.from_line(line)["gives"]), origin="ssh://db1")
    assert replace(there, origin="live") == capture


def kernel_values() -> dict[str, bytes]:
    """Return what /proc/sys holds, but for its own counters."""
    found = {}
    for folder, _, files in os.walk("/proc/sys"):
        for name in files:
            path = Path(folder, name)
            if (
                "random" in folder
                or folder == "/proc/sys/fs/quota"
                or name.endswith(("-nr", "-state", "last_pid", "_count", "stat_refresh", "sample_rate"))
            ):
                continue
            if path.name == "nr" or not os.access(path, os.R_OK):
                continue
            try:
                found[str(path)] = path.read_bytes()
            except OSError:
                continue
    return found


def test_nothing_is_changed(sandbox18: Sandbox, tmp_path: Path) -> None:
    postgres = sandbox18.target().postgres
    target = as_monitor(sandbox18)
    files = {path: path.stat().st_mtime_ns for path in sandbox18.data_directory.glob("*.conf")}
    before, changed = postgres.fetch(CATALOG), []
    for number in range(2):
        kernel = kernel_values()
        write_capture(target, tmp_path / f"capture-{number}")
        changed.append(kernel_values() != kernel)
        assert kernel
    assert postgres.fetch(CATALOG) == before
    assert not all(changed)  # another program of this machine may change one once; a capture would each time
    assert {path: path.stat().st_mtime_ns for path in sandbox18.data_directory.glob("*.conf")} == files


@pytest.fixture(scope="module")
def crowded(server_home: Path) -> Iterator[Sandbox]:
    """A server with a database of thousands of tables."""
    sandbox = Sandbox.open_or_create("crowded", bin_dir=find_build("debian-15"), root=server_home)
    sandbox.start()
    with sandbox.target().postgres.connect() as connection:
        for start in range(0, TABLES, 1000):  # in one transaction their locks would not fit
            connection.execute(
                sql.SQL(
                    "DO $$ BEGIN FOR n IN {}..{} LOOP "
                    "EXECUTE format('CREATE TABLE public.t%s (id int PRIMARY KEY)', n); END LOOP; END $$"
                ).format(sql.Literal(start), sql.Literal(start + 999))
            )
    yield sandbox
    sandbox.destroy()


@pytest.mark.slow
def test_thousands_of_tables_cost_no_query_more(
    crowded: Sandbox, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    target = as_monitor(crowded)
    sent: list[str] = []
    execute = psycopg.Connection.execute

    def counted(self: psycopg.Connection[object], query: object, *rest: object, **named: object) -> object:
        sent.append(str(query))
        return execute(self, query, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    began = time.monotonic()  # a figure for the record: a shared machine allows no limit
    inventory = inspect(target)
    seconds = time.monotonic() - began
    record_property("seconds", seconds)
    assert server_of(inventory).relations == TABLES
    assert len(sent) == len(QUERIES) + 4  # the settings, and three limits for the session
    assert {name for name in inventory.missing if name.startswith("postgres/")} <= HIDDEN_FROM_PG_MONITOR


def test_no_lock_of_others_is_waited_for(sandbox18: Sandbox) -> None:
    postgres = sandbox18.target().postgres
    with postgres.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.held (id int)")
        with connection.transaction():
            connection.execute("LOCK TABLE public.held IN ACCESS EXCLUSIVE MODE")
            inventory = inspect(as_monitor(sandbox18))
        connection.execute("DROP TABLE public.held")
    assert isinstance(server_of(inventory).relations, int)


@pytest.mark.requirement("R-INV-19")
def test_without_its_host_the_server_is_known_and_the_host_says_why_not(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    elsewhere = inspect(replace(target, local=False, cpu=ServerCpu.unavailable("the server is not on this host")))
    assert isinstance(elsewhere.host.memory.ram_bytes, Unknown)
    assert "not on this host" in elsewhere.host.memory.ram_bytes.reason
    data = elsewhere.host.place(Purpose.DATA)
    assert data is not None  # its path is the server's to tell, all else the host's
    assert isinstance(data.mount_point, Unknown)
    assert isinstance(data.stack, Unknown)
    assert server_of(elsewhere).major == 18
    by_sql = inspect(open_server(target.postgres.conninfo, sql_only=True))
    assert isinstance(by_sql.host.processor.architecture, Unknown)
    assert "--sql-only" in by_sql.host.processor.architecture.reason


def test_a_role_without_rights_is_told_what_it_may_not_see(sandbox18: Sandbox) -> None:
    owner = sandbox18.target().postgres
    owner.execute("CREATE ROLE nobody_in_particular LOGIN")
    try:
        target = replace(
            sandbox18.target(), postgres=Postgres(make_conninfo(owner.conninfo, user="nobody_in_particular"))
        )
        server = server_of(inspect(target))
        assert isinstance(server.text("data_directory"), Unknown)
        assert isinstance(server.log_files, Unknown | tuple)
        assert not isinstance(server.databases, Unknown)
    finally:
        owner.execute("DROP ROLE nobody_in_particular")
