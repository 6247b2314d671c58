"""What the storage rules emit, done on a real server: log and table are moved, and both come back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor_case import make_case
from fix_postgres import DEBIAN_15, find_build
from pgdyno.advisor.rules.hot_tables import tablespace_ddl, tablespace_name
from pgdyno.advisor.rules.wal_direct_io import fsync_test
from pgdyno.advisor.rules.wal_placement import move_commands
from pgdyno.model.evidence import TableActivity
from pgdyno.model.inventory import Purpose
from pgdyno.sandbox.cluster import make_private_dir
from pgdyno.sandbox.sandbox import Sandbox
from storage_case import disk, place, simple_host

pytestmark = pytest.mark.pg


def run_all(sandbox: Sandbox, commands: tuple[str, ...]) -> None:
    """Run emitted commands as the server's user would, with the build's programs in the path."""
    target = sandbox.target()
    path = f"{target.bin_dir}:/usr/bin:/bin"
    env = {**dict(sandbox._build.env), "PATH": path}
    for command in commands:
        target.runner.run(["sh", "-euc", command], env=env, user=sandbox.record.os_user, cwd=Path("/"), timeout_s=120)


@pytest.mark.requirement("R-STO-03")
@pytest.mark.parametrize("folder", ["moved", "moved twice, with spaces"])
def test_the_log_is_moved_and_comes_back(folder: str, make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("walmove")
    sandbox.start()
    postgres, data = sandbox.target().postgres, sandbox.data_directory
    postgres.execute("CREATE TABLE public.kept AS SELECT generate_series(1, 1000) AS n")
    new = data.parent / folder
    there, back = move_commands(str(data), str(new))

    run_all(sandbox, there)
    assert (data / "pg_wal").resolve() == new
    postgres.execute("INSERT INTO public.kept VALUES (0)")
    assert postgres.fetch("SELECT count(*) AS n FROM public.kept")[0]["n"] == 1001
    assert any(entry.name.startswith("0000") for entry in new.iterdir())

    if "twice" in folder:  # a link is moved as a directory is: what it points to
        again, again_back = move_commands(str(data), str(new) + " again")
        run_all(sandbox, again)
        assert (data / "pg_wal").resolve() == Path(str(new) + " again")
        assert not new.exists()
        run_all(sandbox, again_back)
        assert (data / "pg_wal").is_symlink()
        assert (data / "pg_wal").resolve() == new
    run_all(sandbox, back)
    assert not (data / "pg_wal").is_symlink()
    assert postgres.fetch("SELECT count(*) AS n FROM public.kept")[0]["n"] == 1001


@pytest.mark.requirement("R-STO-07")
def test_a_table_with_odd_names_moves_with_its_indexes_and_comes_back(sandbox18: Sandbox) -> None:
    postgres = sandbox18.target().postgres
    folder = sandbox18.data_directory.parent / "hot space"
    make_private_dir(folder, sandbox18.record.os_user)
    table = TableActivity('My "Schema"', "Stock; x", "d", 1, 1, 0.9, 0.9, {'ix "1"': 0.1, "Stock; x_pkey": 0.2})
    postgres.execute('CREATE SCHEMA "My ""Schema"""')
    try:
        postgres.execute('CREATE TABLE "My ""Schema"""."Stock; x" (n int PRIMARY KEY, t text)')
        postgres.execute('CREATE INDEX "ix ""1""" ON "My ""Schema"""."Stock; x" (t)')
        change = tablespace_ddl(table, tablespace_name(table), str(folder))
        for statement in change.commands:
            postgres.execute(statement)
        assert _spaces(sandbox18) == {"Stock; x": "stock_x_ts", "Stock; x_pkey": "stock_x_ts", 'ix "1"': "stock_x_ts"}
        for statement in change.undo:
            postgres.execute(statement)
        assert set(_spaces(sandbox18).values()) == {None}
        assert not postgres.fetch("SELECT 1 FROM pg_tablespace WHERE spcname = 'stock_x_ts'")
    finally:
        postgres.execute('DROP SCHEMA "My ""Schema""" CASCADE')
        postgres.execute("DROP TABLESPACE IF EXISTS stock_x_ts")
        shutil.rmtree(folder, ignore_errors=True)


def _spaces(sandbox: Sandbox) -> dict[object, object]:
    rows = sandbox.target().postgres.fetch(
        "SELECT relname, spcname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "LEFT JOIN pg_tablespace t ON t.oid = reltablespace WHERE nspname = %s AND relkind IN ('r', 'i')",
        ['My "Schema"'],
    )
    return {row["relname"]: row["spcname"] for row in rows}


@pytest.mark.requirement("R-DIO-05")
@pytest.mark.slow
def test_pg_test_fsync_runs_as_it_is_offered(tmp_path: Path) -> None:
    find_build("debian-15")
    places = (place(Purpose.WAL, str(tmp_path), ["sda"], mount_point="/pgwal"),)
    change = fsync_test(make_case(simple_host(disk("sda"), places=places)))
    (command,) = change.commands
    from pgdyno.owner.runner import LocalRunner

    env = {"PATH": f"{DEBIAN_15}:/usr/bin:/bin"}
    done = LocalRunner().run(["sh", "-euc", command], env=env, cwd=tmp_path, timeout_s=120)
    assert "fdatasync" in done.stdout
    assert "open_datasync" in done.stdout
