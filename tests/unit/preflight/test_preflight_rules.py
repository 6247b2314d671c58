"""Starts, I/O methods, limits, WAL volumes, standbys, overrides and files, judged from facts."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.facts import Obstacle
from pgdyno.preflight.connections import processes_and_files, processes_of, semaphores, system_v_memory
from pgdyno.preflight.io_method import io_method
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import ProcessLimits
from pgdyno.preflight.reading_server import ServerReading
from pgdyno.preflight.reading_start import StartReading, complaints_of
from pgdyno.preflight.result import Result, State
from pgdyno.preflight.server_checks import overrides, standbys, start, wal_disk, would_be_overridden
from pgdyno.routes.file_check import FileLine, FileReading
from pgdyno.server.role_settings import Override
from pgdyno.targets.overrides import Behind, lines_behind
from preflight_facts import GB, MB, UNKNOWN, host, plan, state

ALONE = ServerReading(in_recovery=False, standbys=(), io_methods=("sync", "worker", "io_uring"), wal_bytes=16 * MB)
RING = {"io_method": "io_uring"}
ORDERED = ("max_connections", "max_wal_senders", "max_worker_processes")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"max_connections": "3"}, "3 reserved connections must be less than max_connections = 3"),
        ({"max_connections": "9", "reserved_connections": "6"}, "9 reserved"),
        ({"wal_level": "minimal"}, "max_wal_senders = 10 needs wal_level"),
        ({"wal_level": "minimal", "max_wal_senders": "0", "archive_mode": "on"}, "archive_mode = on needs"),
    ],
)
def test_combinations_that_no_server_starts_with(asked: Mapping[str, str], words: str) -> None:
    result = start(plan(asked), StartReading(()))
    assert result.state is State.REFUSED
    assert words in result.sentence


def test_the_servers_own_words_and_whose_fault_they_are() -> None:
    assert start(plan(), StartReading(())).state is State.OK
    refusal = start(plan(), StartReading(('could not access file "nix"',)))
    assert (refusal.state, 'could not access file "nix"' in refusal.sentence) == (State.REFUSED, True)
    assert start(plan(), StartReading(("always",), known=True)).state is State.NOTE
    assert start(plan(), StartReading(UNKNOWN)).state is State.NOT_APPLICABLE
    assert start(plan(restart=False), StartReading(("x",))).state is State.NOT_APPLICABLE


def test_complaints_leave_notices_out() -> None:
    text = (
        '2026-11-22 00:24:18.500 GMT [18090] LOG:  skipping missing configuration file "/x/pgdyno.conf"\n'
        '2026-11-22 00:24:18.512 UTC [18090] FATAL:  unrecognized configuration parameter "nix"\n'
        "postgres: superuser_reserved_connections (3) must be less than max_connections (3)\n"
    )
    assert complaints_of(text) == (
        'unrecognized configuration parameter "nix"',
        "superuser_reserved_connections (3) must be less than max_connections (3)",
    )


def test_io_methods_that_work() -> None:
    assert io_method(plan(), ALONE, host(), UNKNOWN).state is State.OK
    assert io_method(plan({"io_method": "sync"}), ALONE, host(), UNKNOWN).state is State.OK
    assert io_method(plan(io_method=None), ALONE, host(), UNKNOWN).state is State.NOT_APPLICABLE
    assert io_method(plan(RING), ALONE, host(), 0).state is State.OK


@pytest.mark.parametrize("probe", [errno.EPERM, errno.ENOSYS, errno.ENOMEM, errno.EINVAL])
def test_a_kernel_that_refuses_io_uring(probe: int) -> None:
    result = io_method(plan(RING), ALONE, host(), probe)
    assert (result.state, result.there) == (State.REFUSED, errno.errorcode[probe])


def test_io_uring_needs_build_sysctl_files_and_locked_memory() -> None:
    plain = replace(ALONE, io_methods=("sync", "worker"))
    assert "build" in io_method(plan(RING), plain, host(), 0).sentence
    off = host(sysctl={"kernel/io_uring_disabled": "2"})
    assert "io_uring_disabled = 2" in io_method(plan(RING), ALONE, off, 0).sentence
    assert io_method(plan(RING), ALONE, host(), UNKNOWN).state is State.NOT_APPLICABLE
    crowd = io_method(plan({**RING, "max_connections": "1000"}), ALONE, host(), 0)
    assert (crowd.state, crowd.there) == (State.REFUSED, "1024 files")
    small = host(limits=ProcessLimits(None, 64 << 10, None, "the running server"))
    assert io_method(plan(RING), ALONE, small, 0).state is State.OK  # from 5.12 on, rings count as cgroup memory
    old = replace(small, sysctl={"kernel/osrelease": "5.10.0-30-amd64"})
    assert "lock" in io_method(plan(RING), ALONE, old, 0).sentence


def test_processes_and_files() -> None:
    assert processes_of(plan()) == 100 + 16 + 10 + 8 + 8
    assert processes_of(plan(autovacuum_worker_slots=None, autovacuum_max_workers="3")) == 129
    assert processes_and_files(plan(), host()).state is State.OK
    few = ProcessLimits(50, None, None, "the running server")
    assert processes_and_files(plan(), host(limits=few)).state is State.REFUSED
    full = {"fs/file-max": "20000", "fs/file-nr": "1000 0 20000"}
    note = processes_and_files(plan(), host(sysctl=full))
    assert (note.state, note.asked, note.there) == (State.NOTE, "142000 files", "19000 files")


@pytest.mark.parametrize("changes", [{"pids_limit": 100}, {"limits": ProcessLimits(1024, None, 100, "x")}])
def test_too_few_processes_is_a_note(changes: dict[str, object]) -> None:
    result = processes_and_files(plan(), host(**changes))
    assert (result.state, result.asked) == (State.NOTE, "142 processes")


def test_system_v_memory_and_semaphores() -> None:
    sysv = plan({"shared_memory_type": "sysv"})
    small = host(sysctl={"kernel/shmmax": str(32 * MB), "kernel/shmall": "9999999"})
    refused = system_v_memory(sysv, 150 * MB, small)
    assert refused.state is State.REFUSED
    assert "kernel.shmmax=157286400" in (refused.hint or "")
    assert "sysctl" not in (system_v_memory(sysv, 1 << 50, small).hint or "")
    assert system_v_memory(sysv, 30 * MB, small).state is State.OK
    assert system_v_memory(plan(), 150 * MB, small).state is State.NOT_APPLICABLE
    assert semaphores(plan(), host()).state is State.NOT_APPLICABLE
    builds = host(semaphore_sets=9, sysctl={"kernel/sem": "250 32000 100 128"})
    assert semaphores(plan(), builds).state is State.OK
    assert semaphores(plan({"max_connections": "5000"}), builds).state is State.REFUSED


@given(st.integers(80, 1 << 20), st.integers(0, 1 << 40), st.integers(0, 1 << 42))
def test_wal_that_is_let_pass_fits(most_mb: int, present: int, free: int) -> None:
    result = wal_disk(plan({"max_wal_size": f"{most_mb}MB"}), present, free)
    assert most_mb * MB - present <= free or result.state is State.REFUSED
    assert most_mb * MB * 1.1 - present > free or result.state is not State.REFUSED


def test_wal_volume() -> None:
    assert wal_disk(plan({"work_mem": "8MB"}), 0, 0).state is State.NOT_APPLICABLE
    assert wal_disk(plan({"max_wal_size": "2GB"}), UNKNOWN, GB).state is State.NOT_APPLICABLE
    assert wal_disk(plan({"max_wal_size": "2GB"}), 0, 3 * GB).state is State.NOTE
    assert wal_disk(plan({"wal_keep_size": "9GB"}), 0, 5 * GB).state is State.REFUSED


def test_standby_ordered_knobs() -> None:
    attached = replace(ALONE, standbys=("walreceiver at 10.0.0.2",))
    for value in ("50", "200"):
        result = standbys(plan({"max_connections": value}), attached, ORDERED)
        assert (result.state, result.there) == (State.REFUSED, "walreceiver at 10.0.0.2")
    assert standbys(plan({"max_connections": "100"}), attached, ORDERED).state is State.OK
    assert standbys(plan({"work_mem": "8MB"}), attached, ORDERED).state is State.OK
    assert standbys(plan({"max_connections": "50"}), ALONE, ORDERED).state is State.NOT_APPLICABLE
    recovering = replace(ALONE, in_recovery=True)
    assert standbys(plan({"max_connections": "50"}), recovering, ORDERED).state is State.REFUSED


def test_the_way_back_stays_open_with_a_standby_attached() -> None:
    raised = replace(state("max_connections", "200"), boot_val="100")
    back = replace(plan(), now={**plan().now, "max_connections": raised})
    assert standbys(back, replace(ALONE, standbys=("s",)), ORDERED).state is State.NOTE


def reading(*lines: tuple[str, int, str, str]) -> FileReading:
    rows = tuple(FileLine(file, at, name, value, True, None) for file, at, name, value in lines)
    return FileReading(rows, dict(plan().now))


def test_what_would_override_a_line_of_ours() -> None:
    before = reading(("/pg/postgresql.conf", 3, "max_connections", "50"))
    late = {"max_connections": Obstacle("is set by /pg/late.conf line 3", "Remove that line.")}
    assert would_be_overridden(["max_connections"], before, {}).state is State.OK
    assert would_be_overridden(["io_method"], before, late).state is State.OK
    refusal = would_be_overridden(["io_method", "max_connections"], before, late)
    assert (refusal.state, refusal.asked) == (State.REFUSED, "2 knobs")
    assert "max_connections is set by /pg/late.conf line 3" in refusal.sentence
    assert "Remove that line" in (refusal.hint or "")
    moved = would_be_overridden(["work_mem"], before, late, frozenset({"work_mem"}))
    assert (moved.state, "ALTER SYSTEM sets work_mem" in moved.sentence) == (State.OK, True)
    broken = FileReading((FileLine("/pg/postgresql.conf", 9, None, None, False, "syntax error"),), {})
    assert "line 9: syntax error" in would_be_overridden([], broken, {}).sentence


@pytest.mark.parametrize(
    ("rows", "behind", "names"),
    [
        ([("main.conf", 2, "jit"), ("main.conf", 7, "work_mem")], Behind(5, ()), ["work_mem"]),
        ([("main.conf", 7, "jit"), ("late.conf", 1, "work_mem")], Behind(8, (Path("/pg/late.conf"),)), ["work_mem"]),
        ([("conf.d/a.conf", 1, "jit"), ("pgdyno.conf", 1, "work_mem")], Behind(5, ()), []),
        ([("pgdyno.conf", 1, "jit"), ("conf.d/a.conf", 1, "work_mem")], Behind(5, (Path("/pg/conf.d"),)), ["work_mem"]),
    ],
)
def test_what_is_read_behind_our_file(rows: list[tuple[str, int, str]], behind: Behind, names: list[str]) -> None:
    lines = reading(*((f"/pg/{file}", number, name, "1") for file, number, name in rows))
    assert [line.name for line in lines_behind(lines, Path("/pg/main.conf"), behind)] == names


def test_a_plan_stacks_values_as_the_server_does() -> None:
    stacked: StartPlan = replace(
        plan({"max_connections": "50"}), lines={"max_connections": "70", "wal_level": "logical"}
    )
    assert (stacked.text("max_connections"), stacked.text("wal_level")) == ("50", "logical")
    assert (stacked.text("io_method"), stacked.text("nix")) == ("worker", None)
    argued = replace(stacked, now={**stacked.now, "max_connections": state("max_connections", "9", "command line")})
    assert argued.text("max_connections") == "9"
    assert plan({"shared_buffers": "1GB"}).size("shared_buffers") == GB
    assert plan({"shared_buffers": "much"}).number("shared_buffers") is None
    assert plan({"max_wal_size": "-1"}).size("max_wal_size") is None


def test_roles_and_databases_that_override() -> None:
    asked = plan({"shared_buffers": "1GB", "io_method": "sync"})

    def judged(*found: Override) -> Result:
        server = replace(ALONE, role="bench", database="own", overrides=found)
        return overrides(asked, server, ["load"])

    assert judged().state is State.OK
    assert judged(Override("bench", None, "max_connections", "9")).state is State.OK
    equal = judged(Override("bench", None, "shared_buffers", "1024MB"))
    assert equal.state is State.REFUSED, "as the session does, which finds that the value is not its own"
    assert judged(Override("other", None, "io_method", "worker")).state is State.NOTE
    assert judged(Override(None, "other", "io_method", "worker")).state is State.NOTE
    for override, words in (
        (Override("bench", None, "shared_buffers", "2GB"), "ALTER ROLE bench SET shared_buffers = 2GB"),
        (Override(None, "pgdyno_ybio", "io_method", "worker"), "ALTER DATABASE pgdyno_ybio SET io_method = worker"),
        (Override(None, "load", "io_method", "worker"), "ALTER DATABASE load SET io_method = worker"),
        (Override(None, "own", "io_method", "worker"), "ALTER DATABASE own SET"),
        (Override("bench", "load", "io_method", "worker"), "ALTER ROLE bench IN DATABASE load SET"),
        (Override(None, None, "io_method", "worker"), "ALTER ROLE ALL SET"),
    ):
        result = judged(override)
        assert result.state is State.REFUSED
        assert words in result.sentence
        assert "RESET" in (result.hint or "")
