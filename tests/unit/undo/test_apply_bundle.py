"""The undo bundle: complete and private before it has a name, and honest when it was damaged."""

from __future__ import annotations

import json
import os
import shlex
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable, RollbackError, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner import file_image
from pgdyno.owner.process_image import ProcessImage, capture
from pgdyno.server.snapshot import SettingState
from pgdyno.undo import bundle, rollback
from pgdyno.undo.bundle import CLOSED, UndoBundle
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.rollback import SessionState
from pgdyno.undo.server_process import Before
from pgdyno.undo.undo_alter_system import undo_commands
from pgdyno.undo.undo_text import undo_text

DEAD = ProcessIdentity(pid=1, start_ticks=-1, boot_id="an earlier boot")
WORK_MEM = SettingState(
    "work_mem", "4096", "4096", "kB", "integer", "user", "Resource Usage / Memory", "default", None, None, False
)


def make(
    root: Path,
    server: Path,
    *,
    owner: ProcessIdentity = DEAD,
    study: str = "s-1",
    at: float = 1.7e9,
    process: ProcessImage | None = None,
) -> UndoBundle:
    root.mkdir(exist_ok=True)
    captured = [file_image.capture(server / name) for name in ("pgdyno.conf", "postgresql.conf")]
    manifest = Manifest(
        id=bundle.new_id(study, at=at, undo_root=root),
        study=study,
        created_at=at,
        target="postgres@db:5432/app",
        conninfo="host=db",
        data_directory=str(server),
        main_file=str(server / "postgresql.conf"),
        bin_dir="/usr/lib/postgresql/18/bin",
        control=None,
        owner=owner,
        images=tuple(image for image, _ in captured),
    )
    contents = [data for _, data in captured]
    settings = {"work_mem": WORK_MEM}
    return UndoBundle.create(root, manifest, contents=contents, settings=settings, process=process, reserve_bytes=8192)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "postgresql.conf").write_bytes(b"port = 5432\n\xff")
    return folder


def test_it_comes_back_as_it_was_written(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    found = UndoBundle.open(made.directory)
    assert found.manifest == made.manifest
    assert found.settings() == {"work_mem": WORK_MEM}
    assert found.content_of(server / "postgresql.conf") == b"port = 5432\n\xff"
    assert found.content_of(server / "pgdyno.conf") is None
    assert not found.is_closed()


def test_only_its_owner_may_read_it(tmp_path: Path, server: Path) -> None:
    directory = make(tmp_path / "undo", server).directory
    for path in [directory, *directory.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_everything_is_synced_before_it_has_its_name(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> Path:
        inside = {path.name for path in source.rglob("*")} | {source.name}
        assert inside <= synced, inside - synced
        synced.clear()
        return real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    make(tmp_path / "undo", server)
    assert synced == {"undo"}


def test_a_failure_leaves_nothing_behind(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(EnvironmentUnsuitable, match="no space left on device") as caught:
        make(tmp_path / "undo", server)
    assert caught.value.hint
    assert list((tmp_path / "undo").iterdir()) == []


def test_a_half_made_bundle_is_not_listed_and_goes(tmp_path: Path) -> None:
    (tmp_path / ".draft-x").mkdir()
    assert rollback.list_bundles(tmp_path) == []
    with bundle.locked(tmp_path):
        assert not (tmp_path / ".draft-x").exists()


def test_names_sort_by_time_and_never_collide(tmp_path: Path, server: Path) -> None:
    names = [make(tmp_path / "undo", server, study="a b/../c", at=at).id for at in (1.7e9, 1.7e9, 1.8e9)]
    assert names == sorted(set(names))
    assert all("/" not in name for name in names)
    assert [path.name for path in bundle.bundle_directories(tmp_path / "undo")] == names[::-1]


def test_what_is_listed_tells_how_many_configurations_came_into_force(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    for kind in ("intent", "in force", "intent", "refused", "intent", "in force", "intent"):
        made.journal().append(kind, {})
    assert rollback.describe(made.directory).applied == 2


def test_the_way_back_by_hand_takes_each_file_s_own_lines_out(tmp_path: Path, server: Path) -> None:
    """Where somebody else has edited it: the include line of the main file, and the block of a drop-in."""
    made = make(tmp_path / "undo", server)
    commands = undo_text(made.manifest, made.directory).splitlines()
    (main,) = (line for line in commands if line.startswith("then sed") and line.endswith("/postgresql.conf"))
    (dropin,) = (line for line in commands if line.startswith("then sed") and line.endswith("/pgdyno.conf"))
    assert "include" in main
    assert made.id in dropin
    assert made.id not in main


def test_a_damaged_copy_is_not_restored(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    (made.directory / "files" / "1").write_bytes(b"port = 5433\n\xff")
    with pytest.raises(RollbackError, match="is damaged"):
        made.content_of(server / "postgresql.conf")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 99}'])
def test_an_unreadable_manifest_is_said_so(tmp_path: Path, server: Path, text: str) -> None:
    made = make(tmp_path / "undo", server)
    (made.directory / "manifest.json").write_text(text)
    with pytest.raises(RollbackError, match="cannot be read"):
        UndoBundle.open(made.directory)
    assert [info.state for info in rollback.list_bundles(tmp_path / "undo")] == [SessionState.UNREADABLE]
    rollback.LocalSessions(tmp_path / "undo").forget(made.id)  # restored by hand: it stands in nobody's way any more
    (info,) = rollback.list_bundles(tmp_path / "undo")
    assert (info.state, info.bundle, made.is_closed()) == (SessionState.CLOSED, None, True)
    assert info.damage
    rollback.forget(made.directory)


def test_a_session_that_is_over_stays_over_when_its_bundle_is_damaged(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    made.journal().append(CLOSED, {"by": "watchdog: gone"})
    (made.directory / "manifest.json").write_text("{")
    (info,) = rollback.list_bundles(tmp_path / "undo")
    assert (info.state, info.closed_by) == (SessionState.CLOSED, "watchdog: gone")


def test_a_bundle_of_which_nothing_can_be_read_is_forgotten_too(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    for name in ("manifest.json", "journal.jsonl"):
        (made.directory / name).write_text("not this\n")
    rollback.forget(made.directory)
    assert made.is_closed()
    assert (made.directory / bundle.DAMAGED_JOURNAL).read_text() == "not this\n"


def test_the_servers_process_is_kept_in_private(tmp_path: Path, server: Path) -> None:
    image = replace(capture(os.getpid()), environment={"TOKEN": "sesame"})
    made = make(tmp_path / "undo", server, process=image)
    assert UndoBundle.open(made.directory).process_image() == image
    holding = [path for path in made.directory.rglob("*") if path.is_file() and b"sesame" in path.read_bytes()]
    assert [path.name for path in holding] == ["process.json"]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600
    holding[0].write_text(holding[0].read_text().replace("sesame", "sesamf"))
    with pytest.raises(RollbackError, match=r"process\.json.* cannot be read"):
        made.process_image()
    assert "cannot be read" in Before.look(made, made.journal()).damage(made.journal(), restarted=True)[0]
    holding[0].unlink()
    with pytest.raises(RollbackError, match="cannot be read"):
        made.process_image()


def test_a_bundle_of_earlier_has_no_process(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    assert made.process_image() is None
    assert Before.look(made, made.journal()).damage(made.journal(), restarted=True) == ()


@pytest.mark.requirement("R-SAF-02")
@pytest.mark.parametrize("name", ["manifest.json", "settings.json"])
def test_a_flipped_byte_is_not_believed(tmp_path: Path, server: Path, name: str) -> None:
    """A digit of a mode, a port or a value makes another number, which nothing but a checksum can tell."""
    made = make(tmp_path / "undo", server)
    path = made.directory / name
    text = path.read_text()
    digit = next(at for at, sign in enumerate(text) if sign.isdigit() and text[at - 1].isdigit())
    path.write_text(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])
    json.loads(path.read_text())
    with pytest.raises(RollbackError, match="cannot be read") as caught:
        UndoBundle.open(made.directory).settings()
    assert "checksum" in (caught.value.detail or "")
    assert "UNDO.md" in (caught.value.hint or "")


def test_the_reserve_can_be_given_back_twice(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    assert (made.directory / "reserve").stat().st_blocks * 512 >= 8192
    made.release_reserve()
    made.release_reserve()
    assert not (made.directory / "reserve").exists()


def test_states(tmp_path: Path, server: Path) -> None:
    root = tmp_path / "undo"
    closed = make(root, server, at=1.0e9)
    closed.journal().append(CLOSED)
    make(root, server, at=1.1e9)
    make(root, server, at=1.2e9, owner=ProcessIdentity.own())
    states = [info.state for info in rollback.list_bundles(root)]
    assert states == [SessionState.RUNNING, SessionState.ABANDONED, SessionState.CLOSED]


def test_a_bundle_is_found_by_the_beginning_of_its_name(tmp_path: Path, server: Path) -> None:
    root = tmp_path / "undo"
    first, second = make(root, server, at=1.0e9), make(root, server, at=1.1e9)
    assert rollback.find_bundle(root, second.id[:6]).bundle is not None
    assert rollback.find_bundle(root, first.id).directory == first.directory
    for wrong in ("nosuch", "20"):
        with pytest.raises(UsageError, match=f'"{wrong}"'):
            rollback.find_bundle(root, wrong)


def test_forgetting_closes_once(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    rollback.forget(made.directory)
    rollback.forget(made.directory)
    assert made.is_closed()
    with pytest.raises(UsageError, match="is still running"):
        rollback.forget(make(tmp_path / "undo", server, owner=ProcessIdentity.own()).directory)


def test_a_person_can_read_the_settings(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    assert json.loads((made.directory / "settings.json").read_text())[0]["name"] == "work_mem"


def test_a_session_sorts_behind_all_others_after_the_clock_was_set_back(tmp_path: Path) -> None:
    (tmp_path / "20400101T000000Z-first").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / ".draft-20410101T000000Z-x").mkdir()
    second = bundle.new_id("second", at=1e9, undo_root=tmp_path)
    assert second == "20400101T000001Z-second"
    (tmp_path / second).mkdir()
    third = bundle.new_id("a", at=1e9, undo_root=tmp_path)
    (tmp_path / third).mkdir()
    names = [path.name for path in bundle.bundle_directories(tmp_path)]
    assert names.index(third) < names.index(second) < names.index("20400101T000000Z-first")


def test_a_setting_with_a_backslash_goes_back_by_sql_whatever_strings_the_server_reads() -> None:
    route = {"auto_conf": "/data/postgresql.auto.conf", "originals": [["log_line_prefix", "it's \\t"]]}
    (put,) = [line for line in undo_commands(route, "", Path("/undo/journal")) if line.startswith("put log")]
    assert shlex.split(put)[2] == "ALTER SYSTEM SET log_line_prefix = E'it''s \\\\t'"


def test_a_name_that_is_none_or_several_is_refused_with_the_number() -> None:
    names = ["20260101-a", "20260102-b", "20260102-b-2"]
    assert rollback.full_id(names, "20260102-b") == "20260102-b"
    assert rollback.full_id(names, "20260101") == "20260101-a"
    for id, words in (("x", '"x" is not a session'), ("20260102", '"20260102" could be 2 sessions')):
        with pytest.raises(UsageError, match=words):
            rollback.full_id(names, id)


@pytest.mark.parametrize(
    ("closed", "own", "alive", "refused"),
    [
        (False, False, True, True),
        (True, False, True, False),
        (False, True, True, False),
        (False, False, False, False),
    ],
)
def test_a_session_whose_process_works_on_it_is_not_rolled_back_by_another(
    monkeypatch: pytest.MonkeyPatch, closed: bool, own: bool, alive: bool, refused: bool
) -> None:
    owner = ProcessIdentity.own() if own else ProcessIdentity(99, 1, "b")
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: alive)
    monkeypatch.setattr(rollback, "restore", lambda _, **given: given["control"])
    monkeypatch.setattr(rollback.route_record, "from_record", lambda *_: None)
    monkeypatch.setattr(rollback.control_record, "from_record", lambda _, runner, postgres: (runner, postgres))
    manifest = SimpleNamespace(owner=owner, conninfo="host=db", control=None)
    made: Any = SimpleNamespace(id="s1", manifest=manifest, is_closed=lambda: closed)
    if refused:
        with pytest.raises(UsageError, match="still running as process 99"):
            rollback.rollback(made)
        return
    runner, postgres = cast(Any, rollback.rollback(made))
    assert (type(runner).__name__, type(postgres).__name__) == ("LocalRunner", "Postgres")
    given: Any = rollback.rollback(made, runner=cast(Any, "mine"), postgres=cast(Any, "this"))
    assert given == ("mine", "this")
    assert cast(Any, rollback.rollback(made, control=cast(Any, "that"))) == "that"


@pytest.mark.parametrize(
    ("local", "route", "directory", "label", "is_it"),
    [
        (True, None, "/data", "x", True),
        (True, None, "/other", "db1", False),
        (True, None, None, "db1", False),
        (False, None, "/data", "x", False),
        (False, None, None, "db1", True),
        (True, "sql", "/data", "x", False),
        (True, "sql", None, "db1", True),
    ],
)
def test_a_session_is_of_a_server_by_its_files_or_else_by_its_address(
    local: bool, route: str | None, directory: str | None, label: str, is_it: bool
) -> None:
    manifest: Any = SimpleNamespace(local=local, data_directory="/data", target="db1")
    place = None if directory is None else Path(directory)
    target: Any = SimpleNamespace(route=route, directory=place, postgres=SimpleNamespace(label=label))
    assert rollback.is_of(manifest, target) is is_it


@pytest.mark.parametrize(
    ("last", "is_kept"), [((CLOSED, {"kept": True}), True), ((CLOSED, {}), False), (("note", {"kept": True}), False)]
)
def test_a_change_was_kept_where_its_session_closed_so(
    tmp_path: Path, server: Path, last: tuple[str, dict[str, object]], is_kept: bool
) -> None:
    made = make(tmp_path / "undo", server)
    made.journal().append(*last)
    assert made.kept() == ({"kept": True} if is_kept else None)
    state = {True: SessionState.KEPT, False: SessionState.CLOSED if last[0] == CLOSED else SessionState.ABANDONED}
    assert rollback.describe(made.directory).state == state[is_kept]
    assert rollback.describe(made.directory).closed_by == ("session" if last[0] == CLOSED else None)
    rollback.forget(made.directory)
    assert made.reading().records[-1].data == ({} if last == (CLOSED, {}) else {"forgotten": True})


def test_what_was_written_is_known_while_no_record_of_the_journal_is_lost(tmp_path: Path, server: Path) -> None:
    made = make(tmp_path / "undo", server)
    assert (made.written().is_known, made.has_damaged_journal()) == (True, False)
    (made.directory / bundle.DAMAGED_JOURNAL).write_text("")
    assert (made.written().is_known, made.has_damaged_journal()) == (False, True)
    (made.directory / bundle.DAMAGED_JOURNAL).unlink()
    (made.directory / "journal.jsonl").write_text("not this\n")
    assert (made.written().is_known, made.has_damaged_journal()) == (False, True)


def test_a_third_session_of_one_second_has_the_number_three(tmp_path: Path) -> None:
    for number in ("", "-2", "-3"):
        assert bundle.new_id("s", at=1e9, undo_root=tmp_path) == f"20010909T014640Z-s{number}"
        (tmp_path / f"20010909T014640Z-s{number}").mkdir()
