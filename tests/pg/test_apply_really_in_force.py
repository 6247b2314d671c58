"""What was read back is also at work: I/O workers run, pages are mapped, and what overrides is named by its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import BUILDS, find_build
from pgdyno.control import PgCtl
from pgdyno.errors import ApplyError
from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import effectiveness, postmaster_lock, snapshot
from pgdyno.server.effectiveness import Observed
from pgdyno.targets import in_force
from pgdyno.undo.apply import Session

pytestmark = pytest.mark.pg


def test_the_io_method_is_seen_at_work(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        for method in ("worker", "sync"):
            wanted = Configuration.of({"io_method": method})
            session.apply(wanted)
            dropin = sandbox18.data_directory / "pgdyno.conf"
            with target.postgres.connect() as connection:
                settings = snapshot.read_settings(connection, label="test")
                assert in_force.shortfalls(target, connection, wanted, settings, dropin) == []
                # the other one is in force in name alone
                lie = {"io_method": replace(settings["io_method"], setting="worker")}
                lies = in_force.shortfalls(
                    target, connection, Configuration.of({"io_method": "worker"}), lie, dropin, sleep=lambda _: None
                )
            assert ("no I/O worker runs" in "".join(lies)) is (method == "sync")


def test_the_kernel_tells_of_the_postmaster(any_postgres: Sandbox) -> None:
    pid = postmaster_lock.postmaster_pid(any_postgres.data_directory)
    assert pid is not None
    assert processes.huge_pages_mapped(pid) is not None
    assert in_force.io_rings(pid) == 0
    assert "-D" in in_force.arguments_of(pid)
    assert processes.huge_pages_mapped(2**22 + 1) is None


@pytest.mark.parametrize("build", BUILDS)
def test_an_argument_is_named(make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str) -> None:
    sandbox = make_sandbox(f"arguments-{build}", bin_dir=find_build(build))
    sandbox.start()
    control = sandbox.target().control
    assert isinstance(control, PgCtl)
    control = replace(control, options=("-S", "6144"))
    control.restart()
    target = replace(sandbox.target(), control=control)
    with (
        Session.begin(target, study="test", undo_root=tmp_path / "undo") as session,
        pytest.raises(ApplyError, match=r"overridden by the argument -S 6144 of the server") as caught,
    ):
        session.apply(Configuration.of({"work_mem": "8MB"}), restart="always")
    assert caught.value.exit_code == 4


def test_a_later_include_is_named_with_file_and_line(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("later-include")
    late = sandbox.data_directory / "late.conf"
    late.write_text("# of somebody else\nwork_mem = 6MB\n")
    with (sandbox.data_directory / "postgresql.conf").open("a") as main:
        main.write("include 'late.conf'\n")
    sandbox.start()
    with (
        Session.begin(sandbox.target(), study="test", undo_root=tmp_path / "undo") as session,
        pytest.raises(ApplyError, match=r"overridden by .*late\.conf line 2"),
    ):
        session.apply(Configuration.of({"work_mem": "8MB"}))


@pytest.mark.parametrize("build", ["embedded-18", "debian-15"])
def test_role_and_database_are_named_as_they_were_set(make_sandbox: Callable[..., Sandbox], build: str) -> None:
    sandbox = make_sandbox(f"named-{build}", bin_dir=find_build(build))
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute('CREATE DATABASE "Load"')
    postgres.execute("""ALTER ROLE postgres IN DATABASE "Load" SET work_mem = '6MB'""")
    with postgres.connect("Load") as connection:
        state = snapshot.read_settings(connection, label="test")["work_mem"]
        observed = Observed(role=connection.info.user, database=connection.info.dbname)
    (sentence,) = effectiveness.shortfalls(
        Configuration.of({"work_mem": "8MB"}), {"work_mem": state}, Path("/x"), observed
    )
    assert 'ALTER ROLE postgres IN DATABASE "Load" SET' in sentence
