"""The sandbox on real servers: made, started, crashed, cloned, kept, removed, and never shared by accident."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, UsageError
from pgdyno.linux import processes
from pgdyno.linux.cpu import CpuGroup
from pgdyno.sandbox import cluster, registry
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import databases, postmaster_lock
from server_image import eventually

pytestmark = pytest.mark.pg
MakeSandbox = Callable[..., Sandbox]


def test_runs_every_build_on_a_private_socket_with_the_defaults(any_postgres: Sandbox) -> None:
    postgres = any_postgres.target().postgres
    settings = {str(row["name"]): row for row in postgres.fetch("SELECT * FROM pg_settings")}
    assert int(str(settings["server_version_num"]["setting"])) == any_postgres.record.version_num
    assert settings["listen_addresses"]["setting"] == ""
    assert settings["shared_buffers"]["setting"] == "16384"
    assert settings["fsync"]["setting"] == "on"
    socket = Path(any_postgres.record.socket_dir)
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    changed = {name for name, row in settings.items() if str(row["sourcefile"]).endswith(cluster.SETTINGS_FILE)}
    assert {"shared_preload_libraries", "unix_socket_directories"} <= changed
    assert not changed & {"shared_buffers", "max_wal_size", "work_mem", "io_method", "autovacuum"}


def test_observes_statements_from_a_database_of_its_own(any_postgres: Sandbox) -> None:
    postgres = any_postgres.target().postgres
    assert postgres.fetch("SELECT current_database() AS name") == [{"name": databases.OBSERVER}]
    postgres.fetch("SELECT 1 AS one")
    # The server keeps the first text of all that differ in constants and column names alone: this shape is no other's.
    marker = "SELECT 4711 AS marker FROM pg_catalog.pg_range LIMIT 0"
    text = "SELECT $1 AS marker FROM pg_catalog.pg_range LIMIT $2"
    counted = f"SELECT sum(calls)::int >= 1 AS is_counted FROM public.pg_stat_statements WHERE query = '{text}'"

    def is_counted() -> bool:
        postgres.fetch(marker)
        return postgres.fetch(counted) == [{"is_counted": True}]

    # Where statements of other tests fill the counters, a new one can be given up before it is read.
    eventually(is_counted, "the statement is counted")


def test_a_start_makes_the_observers_database_where_it_is_missing(any_postgres: Sandbox) -> None:
    any_postgres.drop_database(databases.OBSERVER)
    any_postgres.start()
    rows = any_postgres.target().postgres.fetch(
        "SELECT current_database() AS name, count(*) >= 0 AS counts FROM public.pg_stat_statements"
    )
    assert rows == [{"name": databases.OBSERVER, "counts": True}]


def test_clones_by_template_even_over_a_clone_in_use(any_postgres: Sandbox) -> None:
    postgres = any_postgres.target().postgres
    any_postgres.clone_database("template1", "life_template")
    postgres.execute("CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS i", dbname="life_template")
    any_postgres.clone_database("life_template", "life_clone")
    with postgres.connect("life_clone") as session:
        session.execute("DELETE FROM public.t")
        any_postgres.clone_database("life_template", "life_clone")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    assert postgres.fetch("SELECT count(*) AS n FROM public.t", dbname="life_clone") == [{"n": 1000}]
    any_postgres.drop_database("life_clone")
    any_postgres.drop_database("life_clone")
    any_postgres.drop_database("life_template")
    assert not databases.database_exists(postgres, "life_clone")


def test_a_crash_loses_nothing_that_was_committed(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox()
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute("CREATE TABLE public.kept AS SELECT 1 AS i")
    sandbox.crash()
    assert not sandbox.is_running()
    assert processes.processes_in(sandbox.data_directory) == []
    with pytest.raises(ConnectError):
        postgres.fetch("SELECT 1")
    sandbox.start()
    assert postgres.fetch("SELECT i FROM public.kept") == [{"i": 1}]
    assert "was not properly shut down" in sandbox.log_file.read_text()


def test_destroyed_after_a_crash_leaves_no_shared_memory(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox()
    sandbox.start()
    maps = Path(f"/proc/{postmaster_lock.postmaster_pid(sandbox.data_directory)}/maps").read_text()
    segments = {Path(line.split()[5]) for line in maps.splitlines() if "/dev/shm/PostgreSQL." in line}
    assert segments
    sandbox.crash()
    sandbox.destroy()
    assert [segment for segment in segments if segment.exists()] == []


def test_recreate_starts_from_nothing_and_a_wrong_build_costs_nothing(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox()
    sandbox.start()
    sandbox.target().postgres.execute("CREATE TABLE public.gone (i int)")
    with pytest.raises(UsageError):
        sandbox.recreate(Path("/usr"))
    assert sandbox.is_running()
    sandbox.recreate()
    assert not sandbox.is_running()
    sandbox.start()
    assert sandbox.target().postgres.fetch("SELECT to_regclass('public.gone') AS name") == [{"name": None}]


def test_two_at_once_do_not_collide(make_sandbox: MakeSandbox) -> None:
    one, two = make_sandbox("one"), make_sandbox("two")
    one.start()
    two.start()
    assert one.data_directory != two.data_directory
    one.crash()
    assert two.target().postgres.fetch("SELECT 1 AS one") == [{"one": 1}]
    names = {record.name for record in registry.list_records(one.folder.parent.parent)}
    assert {"one", "two"} <= names


def test_the_same_one_twice_is_refused_by_the_holders_pid(make_sandbox: MakeSandbox) -> None:
    make_sandbox("held")
    with pytest.raises(EnvironmentUnsuitable, match=f'"held" is in use by process {os.getpid()}') as caught:
        make_sandbox("held")
    assert "--sandbox" in (caught.value.hint or "")


HOLD = """
import sys, time
from pathlib import Path
from pgdyno.sandbox.sandbox import Sandbox
sandbox = Sandbox.open_or_create("victim", root=Path(sys.argv[1]))
sandbox.start()
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_pgdyno_leaves_the_server_up_and_the_sandbox_free(
    make_sandbox: MakeSandbox, server_home: Path
) -> None:
    command = [sys.executable, "-c", HOLD, str(server_home)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(EnvironmentUnsuitable, match=f"process {holder.pid}"):
            make_sandbox("victim")
        os.killpg(os.getpgid(holder.pid), 0)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    sandbox = make_sandbox("victim")
    assert sandbox.is_running()
    before = sandbox.target().cpu.seconds()
    assert sandbox.target().postgres.fetch("SELECT 1 AS one") == [{"one": 1}]
    assert isinstance(before, float)
    sandbox.close()
    assert not make_sandbox("victim").is_running()


def test_kept_means_data_and_not_process(make_sandbox: MakeSandbox) -> None:
    first = make_sandbox("kept")
    first.start()
    first.target().postgres.execute("CREATE TABLE public.kept AS SELECT 1 AS i")
    first.close(keep=True)
    assert not first.is_running()
    second = make_sandbox("kept")
    second.start()
    assert second.target().postgres.fetch("SELECT i FROM public.kept") == [{"i": 1}]


def test_one_that_the_user_started_stays_up(make_sandbox: MakeSandbox) -> None:
    started = make_sandbox("stays")
    started.start()
    started.leave_running()
    make_sandbox("stays").close(keep=True)
    again = make_sandbox("stays")
    assert again.is_running()
    again.stop()
    again.start()
    again.close(keep=True)
    assert not again.is_running()


def test_discarded_leaves_nothing_behind(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("discarded")
    sandbox.start()
    pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
    assert pid is not None
    group = CpuGroup.holding(pid)
    sandbox.close(keep=False)
    assert not processes.alive(pid)
    assert not list(sandbox.folder.parent.glob("discarded*"))
    assert not Path(sandbox.record.socket_dir).exists()
    assert group is None or not group.path.exists()


def test_an_interrupted_making_is_made_again(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("half")
    (sandbox.folder / registry.RECORD).unlink()
    (sandbox.data_directory / "PG_VERSION").unlink()
    sandbox.close(keep=True)
    again = make_sandbox("half")
    again.start()
    assert again.is_running()


def test_a_folder_that_is_not_a_sandbox_is_left_alone(make_sandbox: MakeSandbox, server_home: Path) -> None:
    treasure = server_home / "sandboxes" / "mine" / "treasure"
    treasure.parent.mkdir(parents=True)
    treasure.write_text("gold")
    with pytest.raises(EnvironmentUnsuitable, match='holds "treasure"'):
        make_sandbox("mine")
    assert treasure.read_text() == "gold"


def test_data_of_another_major_version_are_refused(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("old")
    registry.write_record(sandbox.folder, replace(sandbox.record, version="12.1", version_num=120_001))
    sandbox.close(keep=True)
    with pytest.raises(UsageError, match=r"holds PostgreSQL 12\.1, not 18"):
        make_sandbox("old")
    registry.write_record(sandbox.folder, sandbox.record)
    make_sandbox("old")


def test_a_server_that_does_not_start_says_why(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("broken")
    (sandbox.data_directory / cluster.DROP_IN).write_text("shared_buffers = 'many'\n")
    with pytest.raises(RestartError) as caught:
        sandbox.start()
    assert 'invalid value for parameter "shared_buffers"' in (caught.value.detail or "")
    assert str(sandbox.log_file) in (caught.value.hint or "")
    (sandbox.data_directory / cluster.DROP_IN).unlink()
    sandbox.start()
    assert sandbox.is_running()


def test_a_deep_folder_gets_a_short_private_socket(make_sandbox: MakeSandbox, server_home: Path) -> None:
    deep = server_home / ("d" * 60)
    sandbox = make_sandbox("deep", root=deep)
    socket_dir = Path(sandbox.record.socket_dir)
    assert not socket_dir.is_relative_to(deep)
    sandbox.start()
    assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
    sandbox.stop()
    sandbox.stop()
    for entry in socket_dir.iterdir():
        entry.unlink()
    socket_dir.chmod(0o777)
    with pytest.raises(EnvironmentUnsuitable, match="not a private folder"):
        sandbox.start()
    socket_dir.rmdir()
    socket_dir.symlink_to(server_home)
    with pytest.raises(EnvironmentUnsuitable, match="not a private folder"):
        sandbox.start()
    socket_dir.unlink()


def test_a_folder_without_programs_is_a_wrong_flag(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no initdb, pg_ctl, postgres"):
        make_sandbox("nobin", bin_dir=tmp_path)
