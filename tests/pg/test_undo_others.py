"""What others edit and set during a session survives it: ours goes, and only ours."""

from __future__ import annotations

import re
import subprocess
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tuner_process import await_line, tuner_of

from fix_edited_server import EDIT, ENDINGS, EVERY_BUILD, RELOADED, RESTARTED, Scene
from pgdyno.cli.rollback import command
from pgdyno.control import sighup
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RestartError, RollbackError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.routes.file_change import FileChange
from pgdyno.undo import watch_record
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import UndoBundle, bundle_directories
from pgdyno.undo.restore import Restored
from server_image import UNHURRIED, eventually

pytestmark = pytest.mark.pg


@EVERY_BUILD
@ENDINGS
def test_a_line_appended_to_the_main_file_stays_in_force(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = scene.changed(RELOADED, tmp_path)
    scene.append(scene.main)
    scene.reload()
    began = scene.started_at()
    session.apply(Configuration.of({"work_mem": "9MB"}))
    restored = end(session)
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert not scene.dropin.exists()
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["work_mem"].setting == scene.settings["work_mem"].setting
    assert restored.is_whole
    assert session.bundle.is_closed()
    assert any("edited by somebody else" in note for note in restored.notes)
    assert any(note.startswith("maintenance_work_mem") for note in restored.notes)
    assert scene.started_at() == began


def test_the_watchdog_keeps_an_edit_too(scene: Scene, tmp_path: Path) -> None:
    server = types.SimpleNamespace(target=lambda: scene.target)
    with tuner_of(server, tmp_path / "undo", watch=UNHURRIED, configurations=[dict(RESTARTED)], hold=True) as tuner:  # type: ignore[arg-type]  # what it needs of a sandbox
        await_line(tuner, "applied")
        scene.append(scene.main)
        tuner.kill()
        (directory,) = bundle_directories(tmp_path / "undo")
        bundle = UndoBundle.open(directory)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(directory)}")
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["max_connections"].setting == scene.settings["max_connections"].setting


@ENDINGS
def test_lines_written_into_the_drop_in_stay_in_force(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    """They need our line in the main file, which stays for their sake, and a later configuration keeps them."""
    session = scene.changed(RELOADED, tmp_path)
    scene.append(scene.dropin)
    session.apply(Configuration.of({"work_mem": "9MB"}))
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    restored = end(session)
    assert scene.dropin.read_bytes() == EDIT
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["work_mem"].setting == scene.settings["work_mem"].setting
    assert any("stays, because settings of somebody else" in note for note in restored.notes)
    assert restored.is_whole
    with Session.begin(scene.target, study="after", undo_root=tmp_path / "undo") as after:
        after.apply(RELOADED)
    assert scene.dropin.read_bytes() == EDIT


def test_a_baseline_that_somebody_changed_is_void_and_no_damage(scene: Scene, tmp_path: Path) -> None:
    """What is measured as the baseline is the server as it was found; that it is not any more is nobody's failure."""
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(BASELINE)
        scene.append(scene.main, b"\n" + EDIT)
        scene.reload()
        with pytest.raises(ApplyError, match="maintenance_work_mem"):
            session.apply(BASELINE)
        session.apply(RELOADED)
    assert session.bundle.is_closed()
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT


def test_a_comment_above_is_no_difference(scene: Scene, tmp_path: Path) -> None:
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(RELOADED)
        scene.main.write_bytes(b"# a comment\n" + scene.main.read_bytes())
        session.apply(BASELINE)
        restored = session.rollback()
    assert scene.main.read_bytes() == b"# a comment\n" + scene.before
    assert restored.is_whole
    assert len(restored.notes) == 1


def test_by_hand_an_edit_stays_too(scene: Scene, tmp_path: Path) -> None:
    """The commands of UNDO.md, as they are written, where both files were edited."""
    session = scene.changed(RELOADED, tmp_path)
    scene.append(scene.main)
    scene.append(scene.dropin)
    text = (session.bundle.directory / "UNDO.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(["sh", "-eu", "-c", block], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert scene.dropin.read_bytes() == EDIT
    assert session.rollback().is_whole


def test_a_mode_that_somebody_set_stays(scene: Scene, tmp_path: Path) -> None:
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(RELOADED)
        before = scene.main.stat()
        scene.main.chmod(0o600)
    after = scene.main.stat()
    scene.main.chmod(0o640)
    assert scene.main.read_bytes() == scene.before
    assert after.st_mode & 0o777 == 0o600
    assert after.st_mtime_ns < before.st_mtime_ns


def test_an_edit_after_a_session_was_left_open_survives_the_hinted_rollback(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "state"
    monkeypatch.setenv("PGDYNO_HOME", str(home))
    (home / "state").mkdir(parents=True, mode=0o700)
    target = replace(scene.target, control=None)
    session = Session.begin(target, study="test", undo_root=home / "state" / "undo")
    session.apply(RELOADED)
    with monkeypatch.context() as broken:
        broken.setattr(sighup, "reload", _fail)
        with pytest.raises(RollbackError) as caught:
            session.rollback()
    assert f"pgdyno rollback {session.id}" in (caught.value.hint or "")
    scene.append(scene.main, b"\n" + EDIT)
    found = scene.main.read_bytes()
    dry = CliRunner().invoke(command, [session.id, "--dry-run"], standalone_mode=False)
    assert dry.return_value == 0
    assert "edited by somebody else since; that edit stays" in dry.stdout
    assert "maintenance_work_mem" not in [line[1:] for line in dry.stdout.splitlines() if line.strip().startswith("-")]
    assert scene.main.read_bytes() == found
    done = CliRunner().invoke(command, [session.id], standalone_mode=False)
    assert done.return_value == 0
    assert scene.main.read_bytes() == found
    assert "edited by somebody else since; that edit stays" in done.stderr
    assert session.bundle.is_closed()


def _fail(*_words: object, **_named: object) -> None:
    raise RestartError("the server did not answer")


@ENDINGS
def test_an_edit_in_the_very_moment_of_the_undo_survives(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = scene.changed(RELOADED, tmp_path)
    carry_out, edits = FileChange.carry_out, [EDIT]

    def meanwhile(change: FileChange) -> bool:
        if change.path == scene.main and edits:
            scene.append(scene.main, edits.pop())
        return carry_out(change)

    monkeypatch.setattr(FileChange, "carry_out", meanwhile)
    assert end(session).is_whole
    assert EDIT.strip() in scene.main.read_bytes()
    assert b"pgdyno.conf" not in scene.main.read_bytes()


@EVERY_BUILD
@ENDINGS
def test_a_parameter_of_an_extension_since_costs_no_restart(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = scene.changed(RELOADED, tmp_path)
    scene.target.postgres.execute("ALTER SYSTEM SET session_preload_libraries = 'auto_explain'")
    scene.reload()
    assert "auto_explain.log_min_duration" in scene.read()
    began = scene.started_at()
    restored = end(session)
    assert scene.started_at() == began
    assert restored.is_whole
    assert session.bundle.is_closed()
    assert any("auto_explain.log_min_duration was changed by somebody else" in note for note in restored.notes)
    assert scene.read()["session_preload_libraries"].setting == "auto_explain"


@EVERY_BUILD
@ENDINGS
def test_a_setting_of_somebody_else_that_waits_for_a_restart_waits_on(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = scene.changed(RELOADED, tmp_path)
    scene.target.postgres.execute("ALTER SYSTEM SET max_connections = 55")
    scene.reload()
    began = scene.started_at()
    restored = end(session)
    assert restored.is_whole
    assert scene.started_at() == began
    assert scene.read()["max_connections"].pending_restart


@EVERY_BUILD
@pytest.mark.parametrize("emptied", [False, True])
def test_a_trial_does_not_bring_into_force_what_waits_for_somebody_elses_restart(
    scene: Scene, tmp_path: Path, emptied: bool
) -> None:
    """The server would come back where nobody looks for it: the session ends, and the port waits on."""
    session = scene.changed(RELOADED, tmp_path)
    scene.append(scene.main, b"\nport = 54331\n")
    if emptied:
        scene.main.write_bytes(b"")
    began = scene.started_at()
    with pytest.raises(EnvironmentUnsuitable, match=r"bring .*port.* into force, which somebody else has changed"):
        session.apply(BASELINE if emptied else RESTARTED, restart="always")
    assert scene.read()["work_mem"].setting == "8192"
    assert session.rollback().is_whole
    assert scene.started_at() == began
    assert emptied or b"port = 54331" in scene.main.read_bytes()
    assert not emptied or scene.main.read_bytes() == scene.before


@EVERY_BUILD
def test_no_restart_into_files_that_somebody_broke(scene: Scene, tmp_path: Path) -> None:
    """Ours would need one, and the server would not come back from it: their line first."""
    session = scene.changed(RESTARTED, tmp_path)
    began = scene.started_at()
    scene.append(scene.main, b"shared_buffers = nonsense\n")
    with pytest.raises(RollbackError, match="was not restarted") as caught:
        session.rollback()
    assert f"{scene.main}" in caught.value.message
    assert scene.started_at() == began
    scene.main.write_bytes(scene.before)
    assert session.rollback().is_whole
    assert scene.read()["max_connections"].setting == scene.settings["max_connections"].setting
