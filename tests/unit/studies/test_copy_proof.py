"""Which servers may be replayed to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.replay.copy_proof import (
    CopyMarker,
    DirectoryIdentity,
    ReplayTarget,
    RunningServer,
    has_place,
    is_captured,
    place_doubt,
    read_marker,
    refusal,
    source_doubt,
)
from pgdyno.trace.schema import CapturedServer

SOURCE = "7300000000000000001"
HERE = DirectoryIdentity(8, 1234, "boot")
OTHER = ReplayTarget("db2", "7300000000000000009", False, False, True, HERE, None)
COPY = replace(OTHER, system_identifier=SOURCE, is_allowed=False, marker=CopyMarker(SOURCE, 8, 1234))


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
@pytest.mark.parametrize(
    ("target", "source", "why"),
    [
        (OTHER, SOURCE, None),
        (replace(OTHER, is_allowed=False), SOURCE, "not in the list"),
        (replace(OTHER, is_allowed=False, disposable=True), SOURCE, None),
        (replace(OTHER, in_recovery=True, disposable=True), SOURCE, "a standby"),
        (OTHER, None, "does not say which server"),
        (replace(OTHER, disposable=True), None, None),
        (replace(OTHER, system_identifier=None), SOURCE, "cannot be read"),
        (replace(OTHER, system_identifier=SOURCE, disposable=True), SOURCE, "or a copy without a mark"),
        (replace(OTHER, system_identifier=SOURCE), SOURCE, "or a copy without a mark"),
        (COPY, SOURCE, None),
        (COPY, None, None),
        (replace(COPY, marker=None, is_allowed=True), SOURCE, "or a copy without a mark"),
        (replace(COPY, marker=CopyMarker(SOURCE, 8, 99)), SOURCE, "or a copy without a mark"),
        (replace(COPY, marker=CopyMarker(SOURCE, 9, 1234)), SOURCE, "or a copy without a mark"),
        (replace(COPY, marker=CopyMarker("1", 8, 1234)), SOURCE, "or a copy without a mark"),
        (replace(COPY, directory=None), SOURCE, "or a copy without a mark"),
        (replace(COPY, in_recovery=True), SOURCE, "a standby"),
    ],
)
def test_a_target_is_another_server_and_named_or_it_is_refused(
    target: ReplayTarget, source: str | None, why: str | None
) -> None:
    found = refusal(target, source, "/home/x/allowed-targets")
    assert (found is None) if why is None else (found is not None and why in found[0])


BARE = replace(COPY, name="copy", marker=None)
LIVE = replace(BARE, name="production", directory=None)


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
@pytest.mark.parametrize(
    ("source", "captured", "reached", "why"),
    [
        (LIVE, SOURCE, "0/3465008", None),
        (LIVE, SOURCE, "1/0", None),
        (LIVE, None, None, None),
        (replace(LIVE, system_identifier=None), SOURCE, "1/0", "cannot be read"),
        (replace(LIVE, system_identifier="1"), SOURCE, "1/0", f"identifier 1, the source {SOURCE}"),
        (replace(LIVE, system_identifier="1"), None, "1/0", "no copy of it"),
        (replace(LIVE, in_recovery=True), SOURCE, None, "a standby"),
        (COPY, SOURCE, "1/0", "marked as a copy itself"),
        (LIVE, SOURCE, "0/3465007", "the capture ended at 0/3465008"),
        (LIVE, SOURCE, "0/FFFFFF", "the capture ended at 0/3465008"),
    ],
)
def test_only_the_captured_server_can_prove_what_is_its_copy(
    source: ReplayTarget, captured: str | None, reached: str | None, why: str | None
) -> None:
    found = source_doubt(BARE, source, captured, reached=reached, captured_until="0/3465008")
    assert (found is None) if why is None else (found is not None and why in found)
    assert source_doubt(BARE, LIVE, SOURCE, reached="0/1", captured_until="") is None


SEEN = CapturedServer("2026-11-27T10:00:00.000001+00:00", 8, 1234, "boot")
RUNS, AGAIN = SEEN.started_at, "2026-11-27T11:00:00.000000+00:00"


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
@pytest.mark.parametrize(
    ("server", "captured", "is_it", "is_doubted"),
    [
        (RunningServer(RUNS, HERE), SEEN, True, False),
        (RunningServer(RUNS, None), SEEN, True, False),
        (RunningServer(AGAIN, HERE), SEEN, True, False),
        (RunningServer(AGAIN, None), SEEN, False, True),
        (RunningServer(AGAIN, replace(HERE, inode=99)), SEEN, False, True),
        (RunningServer(AGAIN, replace(HERE, device=9)), SEEN, False, True),
        (RunningServer(AGAIN, replace(HERE, device=9, boot="next")), SEEN, False, False),
        (RunningServer(AGAIN, replace(HERE, inode=99, boot="next")), SEEN, False, True),
        (RunningServer(AGAIN, HERE), CapturedServer(RUNS), False, True),
        (RunningServer("", HERE), CapturedServer(), False, False),
    ],
)
def test_the_captured_server_is_known_by_its_start_and_its_directory(
    server: RunningServer, captured: CapturedServer, is_it: bool, is_doubted: bool
) -> None:
    assert is_captured(server, captured) is is_it
    assert (place_doubt(server, captured) is not None) is is_doubted


FAR = CapturedServer(RUNS, data_directory="/var/lib/db", address="10.0.0.5", port=5432)
THERE = RunningServer(AGAIN, None, "/var/lib/db", "10.0.0.5", 5432)


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
@pytest.mark.parametrize(
    ("source", "captured", "why"),
    [
        (THERE, FAR, None),
        (replace(THERE, started_at=RUNS, port=1), FAR, None),
        (replace(THERE, address=""), FAR, None),
        (replace(THERE, data_directory="/copy"), FAR, "its data directory is /copy, and that of what was captured was"),
        (replace(THERE, port=5433), FAR, "its port is 5433"),
        (replace(THERE, address="10.0.0.6"), FAR, "its address is 10.0.0.6"),
        (replace(THERE, data_directory=""), FAR, "nothing else that is known"),
        (replace(THERE, directory=replace(HERE, boot="next"), port=5433), replace(SEEN, port=5432), "its port is 5433"),
    ],
)
def test_a_server_out_of_reach_is_known_by_where_it_says_that_it_is(
    source: RunningServer, captured: CapturedServer, why: str | None
) -> None:
    found = place_doubt(source, captured)
    assert (found is None) if why is None else (found is not None and why in found)
    assert has_place(THERE, FAR)
    assert not has_place(replace(THERE, port=5433), FAR)
    assert not has_place(replace(THERE, address=""), replace(FAR, address="")), "each host has such a place"


def test_a_target_with_the_inode_of_the_captured_directory_may_be_it() -> None:
    """Its host was started again, and the server that is named as its source is out of reach."""
    captured = replace(FAR, address="", device=8, inode=1234, boot="boot")
    target = RunningServer(AGAIN, replace(HERE, boot="next"), "/var/lib/db", "", 5432)
    assert "the inode of what was captured" in (place_doubt(THERE, captured, target) or "")
    assert place_doubt(THERE, captured, replace(target, data_directory="/copy")) is None
    assert place_doubt(THERE, replace(captured, address="10.0.0.5"), target) is None


def test_a_marker_is_read_as_it_was_written() -> None:
    marker = CopyMarker(SOURCE, 8, 1234)
    assert read_marker(marker.text().encode()) == marker


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"nonsense", b'{"system_identifier": 1, "device": 1, "inode": 1}', b"\xff" * 9000,
     b'{"system_identifier": "1", "device": "1", "inode": true}'],
)  # fmt: skip
def test_what_is_no_marker_proves_nothing(content: bytes) -> None:
    assert read_marker(content) is None
