"""Files that a person names for evidence: what is none of its kind is refused by name, and a pipe is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import cast

import pytest

from advisor_case import make_host, make_server
from pgdyno.errors import UsageError
from pgdyno.model.evidence import LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import evidence_of_capture, gather
from pgdyno.targets.target import Target

DATA = Path(__file__).parents[2] / "data"
LOG = DATA / "pg-logs" / "checkpoints_pg18.log"
INVENTORY = Inventory(make_host(), make_server())


@pytest.fixture
def garbage(tmp_path: Path) -> Path:
    path = tmp_path / "garbage"
    path.write_bytes(bytes(range(256)) * 16)
    return path


def test_a_log_that_is_none_is_refused_beside_one_that_is(garbage: Path) -> None:
    with pytest.raises(UsageError, match=f'file "{garbage}" is not a server log'):
        evidence_of_capture(None, INVENTORY, logs=[LOG, garbage])
    with pytest.raises(UsageError, match=f'file "{garbage}" is not a server log'):
        evidence_of_capture(None, INVENTORY, logs=[garbage, LOG])


def test_a_packed_log_that_is_not_packed_is_refused(garbage: Path) -> None:
    packed = garbage.rename(garbage.with_name("server.log.gz"))
    with pytest.raises(UsageError, match="is not a server log"):
        evidence_of_capture(None, INVENTORY, logs=[packed])


def test_an_empty_log_says_nothing_and_is_no_slip(tmp_path: Path) -> None:
    (tmp_path / "new.log").touch()
    found = evidence_of_capture(None, INVENTORY, logs=[tmp_path / "new.log"])
    assert isinstance(found.log, Unknown)
    assert "no lines" in found.log.reason


def test_what_a_capture_holds_is_taken_as_it_is(tmp_path: Path, garbage: Path) -> None:
    (tmp_path / "logs").mkdir()
    shutil.copy(garbage, tmp_path / "logs")
    assert isinstance(evidence_of_capture(tmp_path, INVENTORY).log, Unknown)


def test_a_pipe_of_the_shell_is_read() -> None:
    """As of `--log <(ssh host cat server.log)`."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(LOG.read_bytes()[:30_000])
    try:
        found = evidence_of_capture(None, INVENTORY, logs=[Path(f"/dev/fd/{reading}")])
    finally:
        os.close(reading)
    assert isinstance(found.log, LogEvidence)
    assert found.log.lines > 10


def test_a_slip_is_told_before_a_window_is_waited_for(garbage: Path) -> None:
    with pytest.raises(UsageError, match="is not a server log"):
        gather(cast(Target, None), INVENTORY, window_s=3600, logs=[garbage])  # the target is not asked yet
