"""Who stopped a server that is down: our journal first, then the cluster's own control file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pgdyno.undo.journal import JournalRecord
from pgdyno.undo.stopped import STARTED, STOPPING, is_down_by_person, is_our_stop_open, our_restart, was_shut_down

STATES = {
    "starting up": 0, "shut down": 1, "shut down in recovery": 2, "shutting down": 3,
    "in crash recovery": 4, "in archive recovery": 5, "in production": 6,
}  # fmt: skip


def control_file(state: int, version: int = 1300) -> bytes:
    return struct.pack("=QIII", 7_000_000_000_000_000_000, version, 202007201, state) + bytes(8000)


def records(*kinds: str) -> list[JournalRecord]:
    return [JournalRecord(number, 0.0, kind, {}) for number, kind in enumerate(kinds)]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", [1300, 1700, 1800])
def test_only_a_clean_shutdown_is_one(state: str, version: int) -> None:
    assert was_shut_down(control_file(STATES[state], version)) is state.startswith("shut down")


@pytest.mark.parametrize("data", [b"", b"short", control_file(1, version=42), control_file(99), bytes(8192)])
def test_what_cannot_be_read_is_no_shutdown(data: bytes) -> None:
    assert not was_shut_down(data)


@pytest.mark.parametrize(
    ("kinds", "is_open"),
    [
        ([], False),
        (["intent", STOPPING], True),
        ([STOPPING, STARTED, "in force"], False),
        ([STOPPING, STARTED, STOPPING, "refused"], True),
        ([STOPPING, STOPPING, STARTED], False),
    ],
)
def test_a_stop_of_ours_is_open_until_its_start(kinds: list[str], is_open: bool) -> None:
    assert is_our_stop_open(records(*kinds)) is is_open


def test_a_restart_is_journalled_before_and_after() -> None:
    kinds: list[str] = []
    with our_restart(lambda kind, data: kinds.append(kind)):
        assert kinds == [STOPPING]
    assert kinds == [STOPPING, STARTED]
    with pytest.raises(RuntimeError), our_restart(lambda kind, data: kinds.append(kind)):
        raise RuntimeError("it did not start")
    assert kinds[2:] == [STOPPING]


def test_a_person_is_who_stops_cleanly_when_we_did_not(tmp_path: Path) -> None:
    assert not is_down_by_person([], tmp_path), "no control file: unknown"
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "pg_control").write_bytes(control_file(STATES["shut down"]))
    assert is_down_by_person([], tmp_path)
    assert is_down_by_person(records(STOPPING, STARTED), tmp_path)
    assert not is_down_by_person(records(STOPPING), tmp_path)
    (tmp_path / "global" / "pg_control").write_bytes(control_file(STATES["in production"]))
    assert not is_down_by_person([], tmp_path)


@pytest.mark.parametrize(("version", "is_known"), [(1299, False), (1300, True), (1999, True), (2000, False)])
def test_control_files_of_13_to_19_are_known(version: int, is_known: bool) -> None:
    assert was_shut_down(control_file(STATES["shut down"], version)) is is_known


def test_twenty_bytes_tell_the_state() -> None:
    assert was_shut_down(control_file(STATES["shut down"])[:20])
    assert not was_shut_down(control_file(STATES["shut down"])[:19])
