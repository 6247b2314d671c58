"""Whether the log is opened with O_DIRECT: what the rule says against the flags of the open file, on every build."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from fix_postgres import BUILDS, find_build
from pgdyno.advisor.rules.wal_direct_io import wal_is_direct
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.pg
CONFIGURATIONS = {
    "default level": {"wal_sync_method": "open_sync"},
    "minimal": {"wal_sync_method": "open_sync", "wal_level": "minimal", "max_wal_senders": "0"},
    "debug_io_direct": {"wal_sync_method": "open_sync", "debug_io_direct": "wal"},
}


@pytest.fixture
def disk_root() -> Iterator[Path]:
    """A folder that every user can enter, on a file system that takes direct I/O."""
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-direct-", dir=os.environ.get("PGDYNO_TEST_DISK", "/var/tmp")))
    folder.chmod(0o755)
    try:
        with (folder / "probe").open("wb"):
            os.close(os.open(folder / "probe", os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        shutil.rmtree(folder)
        pytest.skip(f"this file system takes no direct I/O: {error}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.requirement("R-DIO-01", "R-DIO-02", "CON-10")
@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
def test_the_open_file_has_the_flags_that_the_rule_tells(
    build: str, disk_root: Path, make_sandbox: Callable[..., Sandbox]
) -> None:
    sandbox = make_sandbox("direct", bin_dir=find_build(build), root=disk_root)
    major = sandbox.record.version_num // 10_000
    auto = sandbox.data_directory / "postgresql.auto.conf"
    seen = {}
    for name, settings in CONFIGURATIONS.items():
        if "debug_io_direct" in settings and major < 16:
            continue  # this version refuses to start with it
        auto.write_text("".join(f"{knob} = '{value}'\n" for knob, value in settings.items()))
        sandbox.start()
        flags = flags_of_the_log(sandbox)
        sandbox.stop()
        told = wal_is_direct(
            major,
            settings["wal_sync_method"],
            settings.get("wal_level", "replica"),
            settings.get("debug_io_direct", ""),
        )
        seen[name] = (told, bool(flags & os.O_DIRECT), bool(flags & os.O_SYNC))
    assert all(told == direct for told, direct, _ in seen.values()), seen
    assert all(sync for _, _, sync in seen.values()), seen
    assert any(direct for _, direct, _ in seen.values()), seen


def flags_of_the_log(sandbox: Sandbox) -> int:
    """Return the flags with which a backend that has just committed holds its WAL segment."""
    with psycopg.connect(sandbox.target().postgres.conninfo, autocommit=True) as session:
        session.execute("CREATE TABLE IF NOT EXISTS written (n int)")
        session.execute("INSERT INTO written SELECT generate_series(1, 10)")
        process = Path(f"/proc/{session.info.backend_pid}")
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                if "/pg_wal/0" in str(link.readlink()):
                    text = (process / "fdinfo" / link.name).read_text()
                    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("flags")), 8)
    raise AssertionError("the backend that has committed holds no WAL segment")
