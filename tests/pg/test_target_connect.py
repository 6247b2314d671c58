"""Targets that libpq names: found, recognised as local, restarted as they were started, refused with a reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from free_ports import free_ports
from pgdyno.control import CommandControl, PgCtl
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Unknown
from pgdyno.owner.runner import Completed, LocalRunner
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect import open_target
from pgdyno.targets.inspect import read_facts

pytestmark = pytest.mark.pg
MakeSandbox = Callable[..., Sandbox]


def test_a_local_server_is_recognised_and_may_be_restarted(any_postgres: Sandbox) -> None:
    target = open_target(any_postgres.target().postgres.conninfo)
    assert target.local
    assert not target.disposable
    assert target.directory == any_postgres.data_directory
    assert target.bin_dir.samefile(any_postgres.target().bin_dir)
    assert target.program("pgbench").is_file()
    assert isinstance(target.control, PgCtl)
    before = target.postgres.fetch("SELECT pg_postmaster_start_time() AS t")
    target.control.restart()
    assert target.postgres.fetch("SELECT pg_postmaster_start_time() AS t") != before
    assert not isinstance(target.cpu.seconds(), Unknown)


def test_every_way_to_name_it_leads_to_the_same_server(
    sandbox18: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = sandbox18.record.socket_dir
    service = tmp_path / "pg_service.conf"
    service.write_text(f"[lab]\nhost={host}\nport=5432\nuser=postgres\ndbname=postgres\n")
    names = [
        f"host=/nonexistent,{host} port=1,5432 user=postgres dbname=postgres",
        f"host={host} port=5432 user=postgres dbname=postgres",
        f"postgresql://postgres@/postgres?host={host}&port=5432",
        "service=lab",
    ]
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    targets = [open_target(name) for name in names]
    for variable, value in {"PGHOST": host, "PGPORT": "5432", "PGUSER": "postgres", "PGDATABASE": "postgres"}.items():
        monkeypatch.setenv(variable, value)
    targets += [open_target(None), open_target("")]
    assert {target.directory for target in targets} == {sandbox18.data_directory}
    assert {target.name for target in targets} == {f"postgres@{host}:5432/postgres"}


def test_a_child_program_gets_the_same_server(sandbox18: Sandbox) -> None:
    target = open_target(sandbox18.target().postgres.conninfo)
    environment = target.postgres.environment("postgres")
    out = target.runner.run(
        [str(target.program("psql")), "-XAtc", "SELECT current_database(), current_setting('cluster_name')"],
        env=environment,
        user=target.os_user,
    ).stdout
    assert out == f"postgres|pgdyno-{sandbox18.name}\n"


def test_options_of_the_command_line_survive_a_restart(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("options")
    sandbox.start()
    sandbox.stop()
    own = sandbox.target().control
    assert isinstance(own, PgCtl)
    with_options = PgCtl(
        own.runner, own.bin_dir, own.data_directory, own.log_file, own.user, options=("-c", "work_mem=5MB")
    )
    with_options.start()
    target = open_target(sandbox.target().postgres.conninfo)
    assert target.control is not None
    target.control.restart()
    assert target.postgres.fetch("SHOW work_mem") == [{"work_mem": "5MB"}]


def test_over_tcp_the_data_directory_tells_that_it_is_local(make_sandbox: MakeSandbox) -> None:
    (port,) = free_ports(1)
    sandbox = make_sandbox("tcp")
    sandbox.start()
    sandbox.stop()
    data = sandbox.data_directory
    (data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    (data / "pgdyno.conf").write_text(f"listen_addresses = '127.0.0.1'\nport = {port}\n")
    control = sandbox.target().control
    assert control is not None
    control.start()
    admin = Postgres(make_conninfo(sandbox.target().postgres.conninfo, port=port))
    admin.execute("CREATE ROLE tcp_user SUPERUSER LOGIN PASSWORD 'right'")
    target = open_target(f"postgresql://tcp_user:right@127.0.0.1:{port}/postgres")
    assert target.local
    assert target.directory == data
    assert "right" not in repr(target.postgres) + target.name + target.postgres.label
    assert target.postgres.environment()["PGPASSWORD"] == "right"
    assert read_facts(target).server.max_connections == 100
    with pytest.raises(ConnectError, match="cannot connect to") as caught:
        open_target(f"postgresql://tcp_user:wrong-secret@127.0.0.1:{port}/postgres")
    assert "wrong-secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"
    assert "password authentication failed" in (caught.value.detail or "")
    assert ".pgpass" in (caught.value.hint or "")


def test_the_version_is_told_by_the_session_that_there_was(
    any_postgres: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres, fresh = Postgres(any_postgres.target().postgres.conninfo), any_postgres.target().postgres
    postgres.fetch("SELECT 1 AS one")
    opened: list[object] = []
    connect = psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *given, **more: opened.append(given) or connect(*given, **more))
    for _ in range(2):
        assert postgres.major() == fresh.major() == any_postgres.record.version_num // 10_000
    assert len(opened) == 1, "of the server that nobody had a session with"


def test_a_restart_command_overrules(sandbox18: Sandbox) -> None:
    target = open_target(sandbox18.target().postgres.conninfo, restart_command=["systemctl", "restart", "db"])
    assert isinstance(target.control, CommandControl)
    assert target.control.is_running()


class NoPrograms(LocalRunner):
    """Runs nothing."""

    def run(self, *given: object, **named: object) -> Completed:
        raise AssertionError(given)


def test_who_only_reads_runs_no_program_and_looks_for_no_way_to_restart(sandbox18: Sandbox) -> None:
    target = open_target(sandbox18.target().postgres.conninfo, to_read=True, runner=NoPrograms())
    assert (target.control, target.no_control) == (None, "it was opened to be read")
    assert target.local
    assert (target.bin_dir / "postgres").is_file()


@pytest.mark.parametrize(
    ("dsn", "hint"),
    [
        ("host=/nonexistent dbname=x", "server runs"),
        ("host=127.0.0.1 port=1 dbname=x", "server runs"),
        ("service=nonesuch", "PGSERVICEFILE"),
        ("host=nonesuch.invalid", "host name"),
    ],
)
def test_a_server_that_is_not_there(dsn: str, hint: str) -> None:
    with pytest.raises(ConnectError, match="cannot connect") as caught:
        open_target(dsn)
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 6


def test_a_dead_server_and_a_missing_database(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("dead")
    sandbox.start()
    conninfo = sandbox.target().postgres.conninfo
    with pytest.raises(ConnectError, match="cannot connect") as caught:
        open_target(make_conninfo(conninfo, dbname="nonesuch"))
    assert 'database "nonesuch" does not exist' in (caught.value.detail or "")
    sandbox.crash()
    with pytest.raises(ConnectError):
        open_target(conninfo)


def test_text_that_libpq_cannot_read_is_a_wrong_flag() -> None:
    with pytest.raises(UsageError) as caught:
        open_target("postgresql://dba:pa%ss@db1/app")
    assert "pa%ss" not in f"{caught.value} {caught.value.detail}"


def test_a_lost_session_is_a_connect_error(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox("lost")
    sandbox.start()
    with pytest.raises(ConnectError, match="was lost"):
        sandbox.target().postgres.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def test_a_refused_statement_keeps_its_cause(sandbox18: Sandbox) -> None:
    with pytest.raises(EnvironmentUnsuitable, match='relation "nonesuch" does not exist') as caught:
        sandbox18.target().postgres.fetch("SELECT * FROM nonesuch")
    assert type(caught.value.__cause__).__name__ == "UndefinedTable"


def test_a_missing_program_names_itself(sandbox18: Sandbox) -> None:
    with pytest.raises(EnvironmentUnsuitable, match='program "pgnonesuch" was not found') as caught:
        sandbox18.target().program("pgnonesuch")
    assert "PATH" in (caught.value.hint or "")


def test_the_pinned_string_names_everything(sandbox18: Sandbox) -> None:
    target = open_target(f"host={sandbox18.record.socket_dir} user=postgres")
    assert conninfo_to_dict(target.postgres.conninfo) == {
        "host": sandbox18.record.socket_dir,
        "port": "5432",
        "user": "postgres",
        "dbname": "postgres",
    } or os.environ.get("PGDATABASE")
