"""What is refused before data are loaded: more than was allowed, and logs that this host has no room for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.workloads import disk_room
from pgdyno.workloads.registry import make_workload

NOBODY: Any = SimpleNamespace()


def test_more_data_than_allowed_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = make_workload("select-only", {"scale": 100})
    monkeypatch.setattr(disk_room, "size_to_load", lambda *_: 3 << 30)
    disk_room.require_size(workload, NOBODY, 4 << 30)
    with pytest.raises(EnvironmentUnsuitable, match="loads about 3 GB, more than --max-size 2 GB"):
        disk_room.require_size(workload, NOBODY, 2 << 30)


def test_a_full_disk_of_this_host_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_room.require_here(tmp_path, "logs are written", "Elsewhere.") > 0
    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda _: SimpleNamespace(free=disk_room.LEAST_HERE - 1))
    with pytest.raises(EnvironmentUnsuitable, match="where logs are written") as caught:
        disk_room.require_here(tmp_path, "logs are written", "Elsewhere.")
    assert caught.value.hint == "Elsewhere."
