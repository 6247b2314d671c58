"""What of a server's version and settings forbids a capture, and which way out is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts_from_params import make_facts
from pgdyno.studies.capture.plan import CaptureOptions, server_refusals

BIN = Path("/usr/lib/postgresql/18/bin")
ASKED = {"seconds": 60.0, "max_bytes": 1 << 30}
COLLECTS = {"logging_collector": "on"}


def reasons(major: int, changed: dict[str, str], **asked: object) -> list[str]:
    options = CaptureOptions(**ASKED, **asked)  # type: ignore[arg-type]  # fields by name
    return [one.reason for one in server_refusals(BIN, make_facts(major, changed=changed), options)]


@pytest.mark.parametrize("major", [13, 18])
def test_a_server_with_a_collector_takes_a_reload(major: int) -> None:
    assert reasons(major, COLLECTS) == []


def test_without_a_collector_the_command_that_proves_it_comes_before_the_restart() -> None:
    (found,) = server_refusals(BIN, make_facts(18), CaptureOptions(**ASKED))  # type: ignore[arg-type]  # as above
    assert found.reason.startswith("logging_collector is off")
    proof, _, restart = found.remedy.partition("; then ")
    assert f"{BIN}/postgres -D " in proof
    assert "restart the server" in restart


@pytest.mark.parametrize(("major", "refused"), [(14, True), (15, False)])
def test_jsonlog_is_there_from_15_on(major: int, *, refused: bool) -> None:
    assert bool(reasons(major, COLLECTS, style="jsonlog")) is refused


def test_an_order_of_commits_needs_logical_wal() -> None:
    assert reasons(18, {**COLLECTS, "wal_level": "logical"}, commit_order=True) == []
    (found,) = reasons(18, COLLECTS, commit_order=True)
    assert found.startswith("--commit-order needs wal_level = logical, it is replica")


@pytest.mark.parametrize(("language", "refused"), [("de_DE.UTF-8", True), ("en_US.UTF-8", False), ("C.UTF-8", False)])
def test_a_log_that_no_trace_could_be_built_of_is_not_captured(language: str, *, refused: bool) -> None:
    found = reasons(18, {**COLLECTS, "lc_messages": language})
    assert found == ([f"lc_messages is {language}: no trace can be built of a log that is not in English"] * refused)
