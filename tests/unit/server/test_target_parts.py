"""The pure parts of the target: versions, options, units, mounts, folders, names and locks."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.control import CommandControl, PgCtl, detect
from pgdyno.errors import EnvironmentUnsuitable, RestartError, UsageError
from pgdyno.linux import cpu
from pgdyno.linux.cgroups import CgroupTree
from pgdyno.owner.runner import Completed, LocalRunner, command_failed
from pgdyno.sandbox import cluster, registry
from pgdyno.sandbox.registry import SandboxLock, SandboxRecord
from pgdyno.server import places
from pgdyno.server.binaries import find_build, parse_version
from pgdyno.server.postgres import Postgres


@pytest.mark.parametrize(
    ("text", "number", "version"),
    [
        ("postgres (PostgreSQL) 18.6", 180_006, "18.6"),
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", 150_018, "15.18"),
        ("postgres (PostgreSQL) 19beta2", 190_000, "19"),
        ("initdb (PostgreSQL) 13.23", 130_023, "13.23"),
    ],
)
def test_versions(text: str, number: int, version: str) -> None:
    assert parse_version(text) == (number, version)


def test_another_program_has_no_version() -> None:
    with pytest.raises(EnvironmentUnsuitable, match="not a version of PostgreSQL"):
        parse_version("mysqld  Ver 9.1.0")


def test_programs_that_do_not_run_are_refused_with_the_reason(tmp_path: Path) -> None:
    for name in ("initdb", "pg_ctl", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'libicu.so: cannot open' >&2\nexit 127\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(EnvironmentUnsuitable, match="does not run") as caught:
        find_build(LocalRunner(), tmp_path)
    assert "libicu" in (caught.value.detail or "")


def test_a_build_that_is_too_old_is_refused(tmp_path: Path) -> None:
    for name in ("initdb", "pg_ctl", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 12.22'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UsageError, match=r"12\.22 .* is too old"):
        find_build(LocalRunner(), tmp_path)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('/usr/lib/postgresql/15/bin/postgres "-D" "/data"\n', ()),
        ('/usr/bin/postgres "-D" "/my data" "-c" "config_file=/etc/my conf"\n', ("-c", "config_file=/etc/my conf")),
        ('/usr/bin/postgres "-D/data" "-p" "5433"\n', ("-p", "5433")),
        ("/usr/bin/postgres\n", ()),
    ],
)
def test_the_options_that_a_server_was_started_with(text: str, options: tuple[str, ...]) -> None:
    assert detect.start_options(text) == options


@pytest.mark.parametrize(
    ("server", "own", "unit"),
    [
        ("0::/system.slice/postgresql-18.service\n", "0::/user.slice\n", "postgresql-18.service"),
        (
            "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n",
            "0::/\n",
            "postgresql@15-main.service",
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice\n", "0::/\n", None),
        ("0::/system.slice/ci.service\n", "0::/system.slice/ci.service\n", None),
        ("0::/\n", "0::/\n", None),
        ("1:name=systemd:/system.slice/pg.service\n0::/system.slice/pg.service\n", "0::/\n", "pg.service"),
    ],
)
def test_who_manages_the_server(server: str, own: str, unit: str | None) -> None:
    assert detect.systemd_unit(server, own) == unit


HYBRID = (
    "20 1 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "21 1 0:2 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    "22 1 0:3 /docker/abc /sys/fs/cgroup/my\\040tree rw - cgroup2 cgroup2 rw\n"
    "23 1 0:4 / /proc rw - proc proc rw\n"
)


def test_only_trees_that_count_without_scheduling_are_used() -> None:
    assert cpu.accounting_trees(HYBRID) == [
        CgroupTree(2, Path("/sys/fs/cgroup/my tree"), "/docker/abc"),
        CgroupTree(1, Path("/sys/fs/cgroup/cpuacct"), "/", frozenset({"rw", "cpuacct"})),
    ]


def test_our_own_group_is_found_below_the_mount() -> None:
    two, one = cpu.accounting_trees(HYBRID)
    text = "4:cpu,cpuacct:/x\n3:cpuacct:/a/b\n0::/docker/abc/job\n"
    assert cpu.own_group(two, "self", text) == Path("/sys/fs/cgroup/my tree/job")
    assert cpu.own_group(one, "self", "3:cpuacct:/a/b\n") == Path("/sys/fs/cgroup/cpuacct/a/b")


def test_home_puts_every_folder_below_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    assert {places.cache_dir(), places.data_dir(), places.state_dir()} == {
        tmp_path / "cache",
        tmp_path / "data",
        tmp_path / "state",
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGDYNO_HOME", "here")
    assert places.data_dir() == tmp_path / "here" / "data"


def test_without_home_the_rules_of_xdg_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PGDYNO_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for kind in ("CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    assert places.cache_dir() == tmp_path / "CACHE" / "pgdyno"
    assert places.data_dir() == tmp_path / "DATA" / "pgdyno"
    assert places.state_dir() == tmp_path / "STATE" / "pgdyno"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert places.cache_dir() == Path("/var/cache/pgdyno")


def test_ensure_sets_the_mode_of_what_it_makes_only(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir(mode=0o750)
    previous = os.umask(0o077)
    try:
        places.ensure(old / "new" / "newer", places.PUBLIC)
    finally:
        os.umask(previous)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (old, old / "new", old / "new" / "newer")] == [0o750, 0o755, 0o755]
    assert stat.S_IMODE(places.ensure(old / "private").stat().st_mode) == 0o700


def test_the_home_of_root_can_be_entered_whichever_verb_makes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    home = tmp_path / "above" / "home"
    monkeypatch.setenv("PGDYNO_HOME", str(home))
    places.ensure(places.data_dir())
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (home.parent, home, home / "data")]
    assert modes == [0o755, 0o755, 0o700]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "of a user"))
    places.ensure(places.data_dir())
    assert stat.S_IMODE((tmp_path / "of a user").stat().st_mode) == 0o700


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as write(2) does: without a file's name


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("pathlib.Path.write_text", lambda folder: registry.write_record(folder, RECORD)),
        ("os.pwrite", lambda folder: SandboxLock("a", folder).acquire()),
        ("os.open", lambda folder: cluster.write_settings(folder, "a", folder)),
    ],
    ids=["record", "lock", "settings"],
)
def test_a_full_disk_is_named(
    call: str, act: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(call, full_disk)
    with pytest.raises(EnvironmentUnsuitable, match=f'folder "{tmp_path}.*" has no room left') as caught:
        act(tmp_path)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f'Free some space on the disk of "{tmp_path}')
    assert "PGDYNO_HOME" in caught.value.hint


@pytest.mark.parametrize("blocks_left", [100, 10_000])
def test_an_error_beside_a_full_disk_says_to_make_room(
    blocks_left: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=blocks_left, f_frsize=4096))
    with pytest.raises(RestartError) as caught, places.telling_full(tmp_path):
        raise RestartError("the server did not start", hint="Read its log.")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f'Free some space on the disk of "{tmp_path}"') == (blocks_left == 100)


def test_ensure_names_the_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnsuitable, match=f'folder "{tmp_path}/file/below" cannot be written') as caught:
        places.ensure(tmp_path / "file" / "below")
    assert "PGDYNO_HOME" in (caught.value.hint or "")
    with pytest.raises(EnvironmentUnsuitable):
        places.ensure(tmp_path / "file")


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 41, "a b", "a\n"])
def test_names_that_could_lead_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        registry.sandbox_dir(name, tmp_path)


RECORD = SandboxRecord("a", None, "18.6", 180_006, None, "/run", 1.0)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert registry.read_record(tmp_path) is None
    registry.write_record(tmp_path, RECORD)
    assert registry.read_record(tmp_path) == RECORD
    assert [entry.name for entry in tmp_path.iterdir()] == [registry.RECORD]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": "a", "colour": "blue"}'])
def test_a_damaged_record_is_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / registry.RECORD).write_text(text)
    with pytest.raises(EnvironmentUnsuitable, match="is damaged"):
        registry.read_record(tmp_path)


def test_the_list_has_complete_sandboxes_only(tmp_path: Path) -> None:
    assert registry.list_records(tmp_path) == []
    for name in ("b", "a", "half"):
        places.ensure(registry.sandbox_dir(name, tmp_path))
        if name != "half":
            registry.write_record(registry.sandbox_dir(name, tmp_path), RECORD)
    assert len(registry.list_records(tmp_path)) == 2
    with pytest.raises(UsageError, match='"half" does not exist'):
        registry.record_of("half", tmp_path)


def test_a_lock_is_exclusive_and_comes_back(tmp_path: Path) -> None:
    first, second = SandboxLock("a", tmp_path), SandboxLock("a", tmp_path)
    first.acquire()
    with pytest.raises(EnvironmentUnsuitable, match=f"process {os.getpid()}"):
        second.acquire()
    assert first.held
    assert not second.held
    first.release(delete=True)
    assert not list((tmp_path / "sandboxes").iterdir())
    second.acquire()
    with pytest.raises(EnvironmentUnsuitable):
        first.acquire()
    second.release()


def test_a_lock_whose_file_was_deleted_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sandboxes" / "a.lock"
    attempts = []

    def flock_after_a_release_elsewhere(fd: int, operation: int) -> None:
        attempts.append(fd)
        if len(attempts) == 1:
            path.unlink()

    monkeypatch.setattr("fcntl.flock", flock_after_a_release_elsewhere)
    lock = SandboxLock("a", tmp_path)
    lock.acquire()
    assert len(attempts) == 2
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_long_socket_path_moves_to_a_short_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    short = Path("/home/u/.cache/pgdyno/sandboxes/default/server")
    assert cluster.choose_socket_dir(short) == short / "run"
    deep = tmp_path / ("d" * 90) / "server"
    chosen = cluster.choose_socket_dir(deep)
    assert chosen == cluster.choose_socket_dir(deep)
    assert len(os.fsencode(chosen / ".s.PGSQL.5432")) <= 107
    assert chosen != cluster.choose_socket_dir(deep.parent / "other")
    monkeypatch.setattr("tempfile.tempdir", "/" + "t" * 100)
    with pytest.raises(EnvironmentUnsuitable, match="longer than 107 bytes"):
        cluster.choose_socket_dir(deep)


def test_settings_are_quoted_and_replace_a_planted_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / cluster.SETTINGS_FILE).symlink_to(victim)
    cluster.write_settings(tmp_path, "a", Path("/it's here"))
    assert victim.read_text() == "precious"
    text = (tmp_path / cluster.SETTINGS_FILE).read_text()
    assert "unix_socket_directories = '/it''s here'\n" in text
    assert "listen_addresses = ''\n" in text
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [cluster.SETTINGS_FILE, "victim"]


def test_a_failed_command_says_how_and_why() -> None:
    error = command_failed(Completed(("initdb", "-D", "x"), 1, "out", "\n".join(map(str, range(20)))))
    assert error.message == '"initdb" failed with exit status 1'
    assert (error.detail or "").splitlines() == [str(n) for n in range(12, 20)]
    assert "signal 9" in command_failed(Completed(("x",), -9, "", "")).message


def test_wrong_stop_modes_and_commands_are_usage_errors(tmp_path: Path) -> None:
    control = PgCtl(LocalRunner(), tmp_path, tmp_path, tmp_path / "log")
    with pytest.raises(UsageError, match="smart, fast, immediate"):
        control.stop("hard")
    postgres = Postgres("host=/nonexistent dbname=x")
    with pytest.raises(UsageError, match="is empty"):
        CommandControl((), LocalRunner(), postgres)
    with pytest.raises(RestartError, match="only restart") as caught:
        CommandControl(("systemctl", "restart", "pg"), LocalRunner(), postgres).stop()
    assert "{action}" in (caught.value.hint or "")


def test_a_command_that_fails_or_does_not_bring_the_server_up(tmp_path: Path) -> None:
    postgres = Postgres("host=/nonexistent dbname=x")
    with pytest.raises(RestartError, match='cannot restart the server: program "nonesuch-x" was not found'):
        CommandControl(("nonesuch-x",), LocalRunner(), postgres).restart()
    with pytest.raises(RestartError, match="cannot start the server") as caught:
        CommandControl(("sh", "-c", "echo broken >&2; exit 3"), LocalRunner(), postgres).start()
    assert caught.value.detail == "broken"
    now = iter(range(0, 1000, 100))
    with pytest.raises(RestartError, match="did not come up within 60 s"):
        CommandControl(("true",), LocalRunner(), postgres, timeout_s=60, clock=lambda: next(now)).restart()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked whose its folders are")
@pytest.mark.parametrize(
    ("spoil", "is_refused"),
    [
        (lambda home, _: os.chown(home, 65534, 65534), True),
        (lambda home, part: os.chown(home / part, 65534, 65534), True),
        (lambda home, _: home.chmod(0o777), True),
        (lambda home, _: home.chmod(0o1777), False),
        (lambda home, _: home.chmod(0o755), False),
        (lambda home, part: (home / part).rmdir(), False),
    ],
)
@pytest.mark.parametrize(
    ("part", "found", "said"),
    [
        ("state", places.state_dir, "cannot keep the state of root's sessions"),
        ("cache", places.cache_dir, "cannot hold root's sandboxes"),
    ],
)
def test_root_keeps_its_undo_and_sandboxes_where_only_root_can_change_them(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    spoil: Callable[[Path, str], object],
    is_refused: bool,
    part: str,
    found: Callable[[], Path],
    said: str,
) -> None:
    (tmp_path / "home" / part).mkdir(parents=True)
    spoil(tmp_path / "home", part)
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    if not is_refused:
        assert found() == tmp_path / "home" / part
        return
    with pytest.raises(EnvironmentUnsuitable, match=said):
        found()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked whose its folders are")
def test_a_link_of_somebody_elses_leads_root_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "link"))
    assert places.state_dir() == tmp_path / "link" / "state"
    os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
    with pytest.raises(EnvironmentUnsuitable):
        places.state_dir()
