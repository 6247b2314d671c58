"""As root, beside a server whose owner exchanges folders and files: what root does goes nowhere else, and is told."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

import fix_postgres
from fix_lair import Lair, picture
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, PgdynoError
from pgdyno.model.configuration import Configuration
from pgdyno.owner.hands import hands_of
from pgdyno.owner.pins import DirectoryChanged, Pin
from pgdyno.owner.runner import LocalRunner
from pgdyno.routes.file_route import FileRoute
from pgdyno.server import postmaster_lock
from pgdyno.targets import connect, server_log
from pgdyno.targets.connect import open_target
from pgdyno.undo import opening
from pgdyno.undo.apply import Session
from pgdyno.undo.rollback import LocalSessions

pytestmark = [
    pytest.mark.pg,
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose"),
]


def test_a_folder_replaced_by_a_link_ends_the_session_with_its_undo(lair: Lair, victim: Path, tmp_path: Path) -> None:
    undo_root, before = tmp_path / "undo", picture(victim)
    undo_root.mkdir()
    etc = lair.folder / "home" / "etc"
    away = etc.with_name("etc.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="moved", undo_root=undo_root)
    session.apply(Configuration.of({"work_mem": "8MB"}))

    def swap() -> None:
        etc.rename(away)
        etc.symlink_to(victim)

    def back() -> None:
        etc.unlink()
        away.rename(etc)

    lair.as_owner(swap)
    try:
        with pytest.raises(PgdynoError):
            session.apply(Configuration.of({"work_mem": "9MB"}))
        with pytest.raises(PgdynoError):
            session.rollback()
        assert not session.bundle.is_closed()
        assert picture(victim) == before
    finally:
        lair.as_owner(back)
    assert LocalSessions(undo_root).roll_back(session.id).is_whole
    assert picture(victim) == before


def test_another_folder_of_the_owners_is_refused_too(lair: Lair, tmp_path: Path) -> None:
    etc = lair.folder / "home" / "etc"
    away = etc.with_name("etc.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="moved", undo_root=tmp_path)

    def swap() -> None:
        etc.rename(away)
        shutil.copytree(away, etc)

    def back() -> None:
        shutil.rmtree(etc)
        away.rename(etc)

    lair.as_owner(swap)
    try:
        with pytest.raises(DirectoryChanged, match="is not the directory that it was"):
            session.apply(Configuration.of({"work_mem": "9MB"}))
    finally:
        lair.as_owner(back)
    assert session.rollback().is_whole


@pytest.mark.parametrize("to", ["root's", "another account's"])
def test_whose_rights_are_used_is_not_chosen_by_a_link(lair: Lair, victim: Path, tmp_path: Path, to: str) -> None:
    """A data directory that becomes a link to one of root's must not make root work with its own rights elsewhere."""
    leads_to = victim if to == "root's" else fix_postgres.public_dir()
    if leads_to != victim:
        os.chown(leads_to, pwd.getpwnam("daemon").pw_uid, -1)
    data, etc = lair.folder / "home" / "data", lair.folder / "home" / "etc"
    away = data.with_name("data.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="whose", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "8MB"}))

    def swap() -> None:
        data.rename(away)
        data.symlink_to(leads_to)
        etc.chmod(0o777)  # so that the other account could work there

    def back() -> None:
        data.unlink()
        away.rename(data)
        etc.chmod(0o755)

    lair.as_owner(swap)
    try:
        with pytest.raises(DirectoryChanged):
            session.bundle.hands()
        if to == "root's":
            with pytest.raises(PermissionError, match="leads to a directory of root's"):
                hands_of(data)
            with pytest.raises(EnvironmentUnsuitable):
                postmaster_lock.postmaster_pid(data)
    finally:
        lair.as_owner(back)
    assert session.rollback().is_whole


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_what_is_no_file_in_the_place_of_ours_is_refused(lair: Lair, kind: str, victim: Path, tmp_path: Path) -> None:
    planted = lair.folder / "home" / "etc" / "pgdyno.conf"

    def plant() -> None:
        if kind == "link":
            planted.symlink_to(victim / "pgdyno.conf")
        elif kind == "pipe":
            os.mkfifo(planted)
        elif kind == "folder":
            planted.mkdir()
        else:
            planted.symlink_to("/dev/zero")

    lair.as_owner(plant)
    try:
        with pytest.raises(PgdynoError):
            Session.begin(open_target(lair.target.postgres.conninfo), study="planted", undo_root=tmp_path)
        kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and victim not in path.parents]
        assert not any(b"secret of" in data for data in kept)
    finally:
        lair.as_owner(planted.rmdir if kind == "folder" else planted.unlink)


def test_the_reserve_is_a_file_that_a_backup_can_read(lair: Lair, tmp_path: Path) -> None:
    with Session.begin(open_target(lair.target.postgres.conninfo), study="backup", undo_root=tmp_path / "undo"):
        status = (lair.folder / "home" / "data" / "pgdyno.reserve").stat()
        assert (status.st_uid, status.st_gid) == (lair.account.uid, lair.account.gid)
        LocalRunner().run(["cat", str(lair.folder / "home" / "data" / "pgdyno.reserve")], user="nobody")
    assert not (lair.folder / "home" / "data" / "pgdyno.reserve").exists()


def test_the_log_is_read_with_the_owners_rights(lair: Lair, victim: Path) -> None:
    log = lair.folder / "home" / "log"
    target = open_target(lair.target.postgres.conninfo)
    assert b"database system is ready" in server_log.read_log(target, str(log), 0, 1 << 20)
    kept = log.read_bytes()
    lair.as_owner(lambda: (log.rename(log.with_suffix(".away")), log.symlink_to(victim / "pgdyno.conf")))
    try:
        with pytest.raises(EnvironmentUnsuitable):
            server_log.read_log(target, str(log), 0, 1 << 20)
    finally:
        lair.as_owner(lambda: (log.unlink(), log.with_suffix(".away").rename(log)))
    assert log.read_bytes()[: len(kept)] == kept


def test_a_log_of_roots_is_not_read_where_links_lead_there(lair: Lair, victim: Path) -> None:
    """The file that standard error went to, in a folder that is a link now, beside a data directory that is one too."""
    data, log = lair.folder / "home" / "data", lair.folder / "home" / "log"
    target = open_target(lair.target.postgres.conninfo)
    away, folder = data.with_name("data.away"), log.with_name("logs")

    def swap() -> None:
        data.rename(away)
        data.symlink_to(victim)
        folder.symlink_to(victim)

    def back() -> None:
        data.unlink()
        away.rename(data)
        folder.unlink()

    lair.as_owner(swap)
    try:
        assert server_log.owner_of(target) != 0
        with pytest.raises(PgdynoError):
            server_log.read_log(target, str(folder / "postmaster.pid"), 0, 100)
        with pytest.raises(OSError, match=r"cannot be told|ermission"):
            server_log._hands(target).read(folder / "postmaster.pid")
    finally:
        lair.as_owner(back)


def test_lock_files_in_a_folder_of_the_owner_lead_nowhere_else(lair: Lair, victim: Path) -> None:
    before = picture(victim)
    data = lair.folder / "fake"

    def plant() -> None:
        data.mkdir()
        (data / "postmaster.pid").symlink_to(victim / "postmaster.pid")

    lair.as_owner(plant)
    with pytest.raises((PgdynoError, OSError)):
        postmaster_lock.clear(data, reused=True)
    assert picture(victim) == before
    shutil.rmtree(data)


def test_a_server_cannot_claim_a_directory_that_is_not_its_own(lair: Lair) -> None:
    _, sighting = connect.look(lair.target.postgres)
    for claimed in ("/", "/root", "/etc", "/var/lib/postgresql"):
        liar = connect.Sighting(
            sighting.version_num, sighting.started_at, Path(claimed), sighting.config_file, sighting.peer
        )
        assert connect.own_directory(liar) is None
    assert hands_of(lair.folder / "home" / "data").account.uid == lair.account.uid


STEPS: dict[str, tuple[type, str]] = {
    "stage": (FileRoute, "stage"),
    "check": (FileRoute, "check"),
    "activate": (Session, "_activate"),
    "read back": (Session, "_read_back"),
}


@pytest.mark.parametrize(("folder", "step"), [*(("data", step) for step in STEPS), ("etc", "stage")])
def test_a_folder_that_goes_away_during_a_step_is_told(
    lair: Lair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, step: str
) -> None:
    """The whole class: nothing but an error of pgdyno's leaves a session, and the session goes on when it is back."""
    place = lair.folder / "home" / folder
    away = place.with_name("away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="away", undo_root=tmp_path)
    kind, name = STEPS[step]
    original = getattr(kind, name)

    def gone_before(*given: object, **named: object) -> object:
        if place.exists():
            lair.as_owner(lambda: place.rename(away))
        return original(*given, **named)

    with session:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(kind, name, gone_before)
                with pytest.raises(PgdynoError):
                    session.apply(Configuration.of({"work_mem": "9MB"}))
            with pytest.raises(PgdynoError):
                session.rollback()
        finally:
            lair.as_owner(lambda: away.rename(place))
        session.apply(Configuration.of({"work_mem": "10MB"}))
        assert session.rollback().is_whole


def _exchange(lair: Lair, back: bool = False) -> None:
    """Put a copy of the configuration folder in its place, or the original again."""
    etc = lair.folder / "home" / "etc"
    away = etc.with_name("etc.away")

    def swap() -> None:
        etc.rename(away)
        shutil.copytree(away, etc)

    def put_back() -> None:
        shutil.rmtree(etc)
        away.rename(etc)

    lair.as_owner(put_back if back else swap)


def test_images_and_pins_are_of_the_same_folder(lair: Lair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that pinned another folder than the one that it read could never be rolled back."""
    taken = opening.server_process.take

    def exchanged(*given: object) -> object:
        _exchange(lair)
        return taken(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(opening.server_process, "take", exchanged)
    try:
        session = Session.begin(open_target(lair.target.postgres.conninfo), study="pinned", undo_root=tmp_path)
    finally:
        _exchange(lair, back=True)
    with session:
        session.apply(Configuration.of({"work_mem": "8MB"}))
        assert session.rollback().is_whole


def test_a_folder_that_is_exchanged_while_a_session_begins_is_no_damage(
    lair: Lair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = opening._pins

    def exchanged(*given: object) -> tuple[Pin, ...]:
        found = pins(*given)  # type: ignore[arg-type]
        _exchange(lair)
        return found

    monkeypatch.setattr(opening, "_pins", exchanged)
    try:
        with pytest.raises(EnvironmentUnsuitable, match="is not the directory that it was") as caught:
            Session.begin(open_target(lair.target.postgres.conninfo), study="pinned", undo_root=tmp_path)
    finally:
        _exchange(lair, back=True)
    assert caught.value.exit_code is ExitCode.UNSUITABLE
    assert LocalSessions(tmp_path).sessions() == []


def test_options_that_cannot_be_read_are_no_defect(lair: Lair) -> None:
    """A quotation that is not closed, in the file that says how the server was started."""
    opts = lair.folder / "home" / "data" / "postmaster.opts"
    kept = opts.read_bytes()
    lair.as_owner(lambda: opts.write_text('/usr/bin/postgres "-D'))
    try:
        target = open_target(lair.target.postgres.conninfo)
        assert target.control is None
        assert "postmaster.opts" in (target.no_control or "")
    finally:
        lair.as_owner(lambda: opts.write_bytes(kept))
