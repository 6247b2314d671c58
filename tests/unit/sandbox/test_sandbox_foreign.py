"""A sandbox of another user is never opened, listed or locked: its record names programs that would be run."""

from __future__ import annotations

import json
import os

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox import registry
from pgdyno.sandbox.registry import SandboxLock, SandboxRecord, list_records, read_record, write_record

STRANGER = 54321
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file another user's")


@pytest.fixture
def folder(tmp_path):
    made = registry.sandbox_dir("default", tmp_path)
    made.mkdir(parents=True)
    write_record(made, SandboxRecord("default", "/home/stranger/bin", "18.0", 180000, None, "/tmp/s", 1.0))
    assert read_record(made) is not None
    return made


@pytest.mark.parametrize("what", ["sandboxes", "sandbox", "record"])
def test_what_is_another_users_is_refused(folder, tmp_path, what):
    place = {"sandboxes": folder.parent, "sandbox": folder, "record": folder / registry.RECORD}[what]
    os.chown(place, STRANGER, STRANGER)
    with pytest.raises(EnvironmentUnsuitable, match=f"belongs to user id {STRANGER}"):
        read_record(folder)
    with pytest.raises(EnvironmentUnsuitable):
        list_records(tmp_path)
    if what == "sandboxes":
        with pytest.raises(EnvironmentUnsuitable):
            SandboxLock("default", tmp_path)
        assert not (folder.parent / "default.lock").exists()


def test_a_link_to_ones_own_record_is_judged_by_itself(folder, tmp_path):
    record = folder / registry.RECORD
    other = tmp_path / "own.json"
    other.write_text(json.dumps({}))
    record.unlink()
    record.symlink_to(other)
    os.chown(record, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(EnvironmentUnsuitable, match="belongs to user id"):
        read_record(folder)
