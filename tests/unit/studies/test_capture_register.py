"""Other terminals know the captures of a user: which run, which were killed, and which one a name means."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capture_example import RUNNING
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.role_settings import Override
from pgdyno.studies.capture.plan import holes_of
from pgdyno.studies.capture.register import (
    CaptureFolder,
    CaptureProgress,
    CaptureState,
    find_capture,
    finish_killed,
    known_captures,
)
from pgdyno.trace.capture_record import CapturedLog, CaptureRecord, SourceEnd

GONE = ProcessIdentity(2**22, 1, "another boot")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    return tmp_path


def begun(name: str, process: ProcessIdentity | None = None, output: Path | None = None) -> CaptureFolder:
    folder = CaptureFolder.make(name, output)
    folder.tell(CaptureProgress(folder.folder, process or ProcessIdentity.own(), time.time(), bytes=7))
    folder.keep(replace(RUNNING, id=name))
    return folder


def test_a_capture_runs_has_ended_or_was_killed() -> None:
    begun("1-a")
    begun("2-b", GONE)
    ended = begun("3-c", GONE)
    ended.keep(replace(RUNNING, id="3-c", end=SourceEnd("2026-11-26T10:00:00+00:00", "time")))
    known = known_captures()
    assert [(one.record.id, one.state) for one in known] == [
        ("3-c", CaptureState.ENDED),
        ("2-b", CaptureState.KILLED),
        ("1-a", CaptureState.RUNNING),
    ]
    assert [one.left_s > 0 for one in known] == [False, False, True]
    assert known[2].progress.bytes == 7


def test_one_that_was_asked_to_stop_sees_it_and_all_of_it_is_private(home: Path) -> None:
    folder = begun("1-a", output=home / "out")
    assert not folder.is_stopped
    find_capture(None).stop()
    assert folder.is_stopped
    files = [*folder.place.iterdir(), *folder.folder.iterdir()]
    assert {path.name for path in files} == {"stop", "progress.json", "capture.json"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert folder.folder.stat().st_mode & 0o777 == folder.place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "words"),
    [("9", '"9" is no capture'), ("1", '"1" could be 2 captures'), (None, "2 captures have not ended")],
)
def test_a_name_that_means_none_or_several_is_refused(name: str | None, words: str) -> None:
    begun("1-a")
    begun("1-b")
    with pytest.raises(UsageError, match=words):
        find_capture(name)


def test_nothing_runs_where_nothing_was_begun() -> None:
    assert known_captures() == []
    with pytest.raises(UsageError, match="no capture runs"):
        find_capture(None)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b"[1]"])
def test_a_register_that_was_damaged_hides_that_one_alone(damage: bytes) -> None:
    (begun("1-a").place / "progress.json").write_bytes(damage)
    (begun("2-b").folder / "capture.json").write_bytes(damage)
    begun("3-c")
    assert [one.record.id for one in known_captures()] == ["3-c"]


def test_an_output_that_is_there_is_not_written_into(home: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        CaptureFolder.make("1-a", home)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be made"):
        CaptureFolder.make("1-a", Path("/proc/nothing/here"))
    assert known_captures() == []


def test_what_was_killed_and_is_out_of_reach_keeps_the_files_that_it_had_named() -> None:
    folder = begun("1-a", GONE)
    logs = (CapturedLog("/nowhere/log/1.csv", "csvlog"),)
    folder.keep(replace(RUNNING, id="1-a", data_directory="/nowhere", log_directory="/nowhere/log", logs=logs))
    record: CaptureRecord = finish_killed(find_capture("1-a"), lambda _text: None)
    assert record.logs == logs
    assert record.end is not None
    assert record.commits_lost is None


def test_the_commit_order_of_what_was_killed_is_lost_and_that_is_told() -> None:
    folder, told = begun("1-a", GONE), list[str]()
    (folder.folder / "commits.csv").write_text("")
    assert finish_killed(find_capture("1-a"), told.append).commits_lost == "the capture was killed"
    assert any("commit order is lost" in line for line in told)


def test_roles_that_log_less_are_named_by_the_statement_that_made_them_so() -> None:
    wanted = {"log_min_duration_statement": "0", "log_parameter_max_length": "-1"}
    found = holes_of(
        [
            Override("batch", None, "log_min_duration_statement", "-1"),
            Override(None, "app", "log_parameter_max_length", "64"),
            Override("app", None, "log_min_duration_statement", "0"),
            Override("app", None, "work_mem", "64MB"),
            Override("app", None, "lc_messages", "en_GB.UTF-8"),
            Override("batch", None, "lc_messages", "fr_FR.UTF-8"),
        ],
        wanted,
    )
    assert [line.split(":")[0] for line in found] == [
        "ALTER ROLE batch SET log_min_duration_statement = -1",
        "ALTER DATABASE app SET log_parameter_max_length = 64",
        "ALTER ROLE batch SET lc_messages = fr_FR.UTF-8",
    ]


def test_a_folder_that_was_removed_and_named_again_is_of_the_new_capture_alone(home: Path) -> None:
    shutil.rmtree(begun("1-a", GONE, home / "monday").folder)
    begun("2-b", output=home / "monday")
    assert [one.record.id for one in known_captures()] == ["2-b"]
    assert find_capture(None).state is find_capture("2-b").state is CaptureState.RUNNING
