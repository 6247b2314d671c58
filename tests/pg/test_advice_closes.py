"""A finding on real servers: it fires, its value is put in force, and it is gone or says what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from advise_command import findings
from calm_load import SEGMENTS
from fix_postgres import find_build
from pgdyno.sandbox.sandbox import Sandbox
from server_image import eventually

pytestmark = pytest.mark.pg
MEASURED_AT_MOST = 5
"""Times that WAL is written: in the first seconds of a busy machine it may be too uneven to tell a rate."""


def write_wal(sandbox: Sandbox, checkpoints: int) -> None:
    """Use up a segment six times a second until the log has told so often of checkpoints that come too frequently.

    And of as many that are complete, and for a fifth of checkpoint_timeout, so that its rate is that of a load.
    """
    postgres, log = sandbox.target().postgres, sandbox.log_file
    began, deadline = time.monotonic(), time.monotonic() + 120
    with postgres.connect() as session:
        while time.monotonic() < began + 6 or any(
            log.read_text().count(words) < checkpoints for words in ("too frequently", "checkpoint complete")
        ):
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            for statement in SEGMENTS.read_text().splitlines():
                session.execute(statement)  # type: ignore[call-overload]  # a text of ours
            time.sleep(1 / 6)


@pytest.mark.parametrize("build", ["embedded-18", "debian-15"])
@pytest.mark.requirement("R-PG-01")
def test_max_wal_size_closes_when_its_value_is_in_force(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"closes-{build}", bin_dir=find_build(build))
    sandbox.start()
    postgres = sandbox.target().postgres
    dsn = postgres.conninfo
    postgres.execute("CREATE TABLE public.filler (a text)")
    postgres.execute("ALTER SYSTEM SET max_wal_size = '32MB'")
    postgres.execute("ALTER SYSTEM SET checkpoint_timeout = '30s'")
    postgres.execute("SELECT pg_reload_conf()")
    for _ in range(MEASURED_AT_MOST):
        write_wal(sandbox, 5)
        before = findings(tmp_path, dsn)["max-wal-size"]
        if before["answer"] != "unknown":
            break
    assert before["answer"] == "finding", before
    (change,) = before["changes"]
    postgres.execute("CHECKPOINT")  # one that WAL has asked for already would complain behind the change
    postgres.execute(f"ALTER SYSTEM SET max_wal_size = '{change['value']}'")
    postgres.execute("SELECT pg_reload_conf()")
    changed = 'parameter "max_wal_size" changed'
    eventually(lambda: changed in sandbox.log_file.read_text().rsplit("too frequently", 1)[-1], changed)
    after = findings(tmp_path, dsn)
    assert after["max-wal-size"]["answer"] in ("ok", "unknown"), after["max-wal-size"]
    assert "max_wal_size comes first" not in str(after["checkpoint-timeout"]["reason"])
    again = findings(tmp_path, dsn)["max-wal-size"]
    assert again["answer"] == after["max-wal-size"]["answer"]
