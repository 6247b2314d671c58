"""What would not come into force is refused on real servers while they run on: the postmaster stays the same."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import DEBIAN_15
from pgdyno.errors import ApplyError
from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.model.configuration import Configuration
from pgdyno.owner.runner import LocalRunner
from pgdyno.preflight.examine import examine, read_io_uring
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import SharedSegment, segment_of
from pgdyno.preflight.reading_start import read_start
from pgdyno.preflight.result import Result, State
from pgdyno.routes.file_check import read_files
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
MEMORY = parse_meminfo(Path("/proc/meminfo").read_text())
ABOVE_RAM = f"{MEMORY['MemTotal'] // (1 << 30) + 2}GB"
NOT_POOLED = f"{(MEMORY.get('HugePages_Total', 0) * 2 + 512) * 2}MB"


def by_check(results: list[Result]) -> dict[str, Result]:
    return {result.check: result for result in results}


def pid_of(target: Target) -> int:
    assert target.directory is not None
    pid = postmaster_lock.postmaster_pid(target.directory)
    assert pid is not None
    return pid


def refuse(target: Target, undo_root: Path, settings: dict[str, str]) -> ApplyError:
    """Apply it: it is refused by the preflight, the postmaster stays the same, and so do its files."""
    pid = pid_of(target)
    dropin = (target.directory or Path()) / "pgdyno.conf"
    with Session.begin(target, study="test", undo_root=undo_root) as session:
        before = dropin.read_bytes() if dropin.exists() else None
        with pytest.raises(ApplyError) as caught:
            session.apply(Configuration.of(settings))
        assert (dropin.read_bytes() if dropin.exists() else None) == before
        assert pid_of(target) == pid
    assert pid_of(target) == pid
    assert caught.value.message.startswith("preflight: ")
    assert "not touched" in (caught.value.detail or "")
    assert caught.value.hint
    return caught.value


def test_every_build_refuses_what_cannot_be_had(any_postgres: Sandbox, tmp_path: Path) -> None:
    target = any_postgres.target()
    error = refuse(target, tmp_path / "undo", {"shared_buffers": ABOVE_RAM, "huge_pages": "on"})
    assert f"shared_buffers = {ABOVE_RAM}" in error.message
    assert "huge pages: huge_pages = on needs" in (error.detail or "")
    pool = refuse(target, tmp_path / "undo", {"shared_buffers": NOT_POOLED, "huge_pages": "on"})
    assert "huge_pages = on needs" in pool.message
    assert "vm.nr_hugepages=" in (pool.hint or "")
    start = refuse(target, tmp_path / "undo", {"max_connections": "3", "superuser_reserved_connections": "3"})
    assert "would not start" in start.message


def test_every_build_is_right_about_its_shared_memory(any_postgres: Sandbox, tmp_path: Path) -> None:
    """From 15 on to the megabyte, as the server counts it; before, within a twentieth of what it then maps."""
    target = any_postgres.target()
    wanted = Configuration.of({"shared_buffers": "256MB", "max_connections": "150"})
    said = by_check(examine(target, wanted))["shared memory"]
    plan = StartPlan.of(wanted, read_files(target.postgres), restart=True, dry=True)
    reading = read_start(target, plan)
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(wanted)
        segment = segment_of(Path(f"/proc/{pid_of(target)}/smaps").read_text())
        assert isinstance(segment, SharedSegment)
        if plan.major >= 15:
            (row,) = target.postgres.fetch("SELECT setting FROM pg_settings WHERE name = 'shared_memory_size'")
            assert reading.shared_memory == int(str(row["setting"])) << 20
        number, unit = (said.asked or "").split()
        assert (unit, float(number)) == ("MB", pytest.approx(segment.size_bytes / (1 << 20), rel=0.05))


def test_the_servers_own_limits_count_and_not_ours(sandbox18: Sandbox) -> None:
    """It is started again as the process that it is, whatever we are."""
    if os.geteuid() != 0:
        pytest.skip("another account could not start the programs that are asked")
    target, raised = sandbox18.target(), Configuration.of({"max_connections": "30"})
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    said = by_check(examine(target, raised))["processes and files"]
    resource.setrlimit(resource.RLIMIT_NPROC, (20, hard))
    try:
        assert by_check(examine(target, raised))["processes and files"] == said
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


@pytest.mark.requirement("R-SAF-06")
def test_a_library_that_is_missing_is_found_before_the_restart(any_postgres: Sandbox, tmp_path: Path) -> None:
    target = any_postgres.target()
    (row,) = target.postgres.fetch("SHOW server_version_num")
    if int(str(row["server_version_num"])) < 150_000:
        pytest.skip("before 15 no program loads libraries without starting the server")
    error = refuse(target, tmp_path / "undo", {"shared_preload_libraries": "no_such_library"})
    assert 'could not access file "no_such_library"' in error.message


def test_what_the_stand_in_says_of_todays_values_too_is_no_reason(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    """A library beside the data files is found by the server and not from the stand-in directory."""
    if not DEBIAN_15.is_dir():
        pytest.skip("postgresql-15 is not installed")
    sandbox = make_sandbox("beside", bin_dir=DEBIAN_15)
    sandbox.start()
    library = subprocess.run([DEBIAN_15 / "pg_config", "--pkglibdir"], capture_output=True, text=True, check=True)
    (sandbox.data_directory / "lib").mkdir()
    (sandbox.data_directory / "lib" / "beside.so").symlink_to(Path(library.stdout.strip()) / "auto_explain.so")
    sandbox.stop()
    with (sandbox.data_directory / "postgresql.conf").open("a") as main:
        main.write("shared_preload_libraries = 'lib/beside, pg_stat_statements'\n")
    sandbox.start()
    start = by_check(examine(sandbox.target(), Configuration.of({"shared_buffers": "64MB"})))["start"]
    assert start.state is State.NOTE
    assert "beside" in start.sentence
    with Session.begin(sandbox.target(), study="test", undo_root=tmp_path / "undo") as session:
        assert session.apply(Configuration.of({"shared_buffers": "64MB"})).restarted


@pytest.fixture
def attached(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> Iterator[Sandbox]:
    """A server that a physical walsender serves: pg_receivewal is to it what a standby is."""
    if not DEBIAN_15.is_dir():
        pytest.skip("postgresql-15 is not installed")
    sandbox = make_sandbox("attached", bin_dir=DEBIAN_15)
    sandbox.start()
    target = sandbox.target()
    wal = tmp_path / "wal"
    wal.mkdir()
    receiver = LocalRunner().start(
        [str(DEBIAN_15 / "pg_receivewal"), "-D", str(wal)],
        env={**target.postgres.environment(), "PGAPPNAME": "receiver"},
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
    )
    try:
        while not target.postgres.fetch("SELECT 1 AS one FROM pg_stat_replication WHERE state = 'streaming'"):
            assert receiver.poll() is None, (tmp_path / "err").read_text()
            time.sleep(0.05)
        yield sandbox
    finally:
        receiver.kill()
        receiver.wait(30)


def test_standby_ordered_knobs_stay_while_a_standby_is_attached(attached: Sandbox, tmp_path: Path) -> None:
    target = attached.target()
    for value in ("50", "200"):
        error = refuse(target, tmp_path / "undo", {"max_connections": value})
        assert "max_connections cannot be changed while a physical standby is attached (receiver)" in error.message
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(Configuration.of({"work_mem": "8MB", "max_connections": "100"}))
        # One whose primary was just restarted is away for seconds, and comes back: it is still a standby's server.
        target.postgres.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        with pytest.raises(ApplyError, match=r"max_connections cannot be changed while a physical standby .*receiver"):
            session.apply(Configuration.of({"max_connections": "200"}))


def test_a_slot_that_waits_counts(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("slots")
    sandbox.start()
    target, wanted = sandbox.target(), Configuration.of({"max_worker_processes": "12"})
    target.postgres.execute("SELECT pg_create_physical_replication_slot('waits')")
    found = by_check(examine(target, wanted))["standbys"]
    assert (found.state, found.there) == (State.REFUSED, "slot waits")
    target.postgres.execute("SELECT pg_drop_replication_slot('waits')")
    assert by_check(examine(target, wanted))["standbys"].state is State.NOT_APPLICABLE


def test_a_wal_that_cannot_fit_is_refused_on_a_reload_too(sandbox18: Sandbox, tmp_path: Path) -> None:
    error = refuse(sandbox18.target(), tmp_path / "undo", {"max_wal_size": "900TB"})
    assert "max_wal_size = 900TB" in error.message


def test_io_uring_is_asked_for_as_the_servers_user(sandbox18: Sandbox) -> None:
    """Nothing is assumed of this kernel: it grants one or it refuses with an error number."""
    errno = read_io_uring(LocalRunner(), sandbox18.target().os_user)
    assert isinstance(errno, int)
    assert errno >= 0


def test_without_a_data_directory_the_start_is_not_judged(sandbox18: Sandbox) -> None:
    target = replace(sandbox18.target(), directory=None)
    results = by_check(examine(target, Configuration.of({"shared_buffers": ABOVE_RAM})))
    assert (results["start"].state, results["shared memory"].state) == (State.NOT_APPLICABLE, State.REFUSED)


def verb(*words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(*words)


def test_the_verb_changes_nothing_and_says_all(pgdyno_home: Path, tmp_path: Path) -> None:
    conf = tmp_path / "try.conf"
    conf.write_text(f"shared_buffers = {ABOVE_RAM}\nhuge_pages = on\n")
    data = pgdyno_home / "cache" / "sandboxes" / "default" / "server" / "data"
    assert verb("sandbox", "start").returncode == 0
    pid = postmaster_lock.postmaster_pid(data)
    done = verb("preflight", str(conf), "--json")
    assert done.returncode == 1, done.stderr
    states = {row["check"]: row["state"] for row in json.loads(done.stdout)}
    assert (states["shared memory"], states["huge pages"], states["start"]) == ("refused", "refused", "ok")
    assert not (data / "pgdyno.conf").exists()
    conf.write_text("work_mem = 8MB\n")
    table = verb("preflight", str(conf))
    assert (table.returncode, "a reload is enough" in table.stdout) == (0, True)
    conf.write_text("fsync = off\n")
    assert verb("preflight", str(conf)).returncode == 2
    assert postmaster_lock.postmaster_pid(data) == pid
    assert verb("sandbox", "stop").returncode == 0
