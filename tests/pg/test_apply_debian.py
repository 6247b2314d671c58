"""A server that is not our sandbox: no include line, configuration outside of the data directory, as Debian has it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_postgres import find_build, public_dir
from foreign_server import LONG_AGO_NS, running_foreign_server
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session

pytestmark = pytest.mark.pg


@pytest.fixture(scope="module")
def foreign() -> Iterator[Target]:
    bin_dir, home = find_build("debian-15"), public_dir()
    with running_foreign_server(bin_dir, home) as target:
        yield target
    shutil.rmtree(home)


def main_file(target: Target) -> Path:
    assert target.directory is not None
    return target.directory.parent / "etc" / "postgresql.conf"


def image(path: Path) -> tuple[bytes, int, int, int, int]:
    status = path.stat()
    return path.read_bytes(), status.st_mtime_ns, status.st_uid, status.st_gid, status.st_mode


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def test_the_main_file_is_changed_and_comes_back_exactly(foreign: Target, tmp_path: Path) -> None:
    main = main_file(foreign)
    before, settings = image(main), settings_of(foreign)
    assert before[1] == LONG_AGO_NS
    with Session.begin(foreign, study="test", undo_root=tmp_path / "undo") as session:
        assert image(main) == before
        session.apply(BASELINE)
        assert image(main) == before
        session.apply(Configuration.of({"work_mem": "8MB", "max_connections": "42"}))
        changed = image(main)
        assert changed[0].startswith(before[0])
        assert changed[0].endswith(b"include_if_exists 'pgdyno.conf'\n")
        assert changed[2:] == before[2:]
        assert settings_of(foreign)["work_mem"].sourcefile == str(main.parent / "pgdyno.conf")
        session.apply(BASELINE)
        assert snapshot.differences(settings, settings_of(foreign)) == ()
    assert image(main) == before
    assert [path.name for path in main.parent.iterdir()] == ["postgresql.conf"]
    assert snapshot.differences(settings, settings_of(foreign)) == ()


def test_undo_by_hand_with_nothing_but_a_shell(foreign: Target, tmp_path: Path) -> None:
    """Run the commands of UNDO.md as they are written."""
    main = main_file(foreign)
    before, settings = image(main), settings_of(foreign)
    session = Session.begin(foreign, study="test", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "8MB", "max_connections": "42"}))
    assert foreign.control is not None
    foreign.control.stop("immediate")
    text = (session.bundle.directory / "UNDO.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        log = tmp_path / "shell.log"
        with log.open("wb") as output:
            done = subprocess.run(["sh", "-eu", "-c", block], stdout=output, stderr=output, check=False)
        assert done.returncode == 0, log.read_text()
    foreign.postgres.wait_ready(30)
    assert image(main) == before
    assert [path.name for path in main.parent.iterdir()] == ["postgresql.conf"]
    assert snapshot.differences(settings, settings_of(foreign)) == ()
    assert session.rollback().is_whole


def test_acl_and_extended_attributes_stay_and_a_second_name_is_refused(foreign: Target, tmp_path: Path) -> None:
    main = main_file(foreign)
    rights = ((1, 6, -1), (2, 4, 65534), (4, 4, -1), (16, 4, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in rights)
    given = {"user.backup": b"daily", "system.posix_acl_access": acl}
    for name, value in given.items():
        try:
            os.setxattr(main, name, value)
        except OSError as error:
            pytest.skip(f"{name}: {error.strerror}")
    before = image(main)

    def extended() -> dict[str, bytes]:
        return {name: os.getxattr(main, name) for name in os.listxattr(main)}

    try:
        with Session.begin(foreign, study="test", undo_root=tmp_path / "undo") as session:
            session.apply(Configuration.of({"work_mem": "8MB"}))
            assert image(main)[0] != before[0]
            assert extended() == given
            text = (session.bundle.directory / "UNDO.md").read_text()
            assert "setfattr -n user.backup -v 0sZGFpbHk=" in text
        assert image(main) == before
        assert extended() == given
        second = main.with_name("second")
        second.hardlink_to(main)
        with pytest.raises(EnvironmentUnsuitable, match="has 2 names"):
            Session.begin(foreign, study="test", undo_root=tmp_path / "undo")
        second.unlink()
    finally:
        for name in given:
            os.removexattr(main, name)
        main.chmod(0o640)
