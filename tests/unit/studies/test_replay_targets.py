"""The list of servers whose data may be changed: only its owner's words count."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.replay.target_facts import allowed_targets


def test_each_line_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "allowed-targets"
    assert allowed_targets(tmp_path) == frozenset()
    path.write_text("# ours\n\n postgres@new-db:5432/postgres \n")
    path.chmod(0o600)
    assert allowed_targets(tmp_path) == {"postgres@new-db:5432/postgres"}


def test_the_list_is_read_by_its_first_name_too(tmp_path: Path) -> None:
    for name in ("allowed-targets", "replay-targets"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o600)
    assert allowed_targets(tmp_path) == {"allowed-targets", "replay-targets"}


def test_a_list_that_others_can_change_or_choose_is_refused(tmp_path: Path) -> None:
    path, linked = tmp_path / "allowed-targets", tmp_path / "linked"
    path.write_text("x\n")
    path.chmod(0o666)
    with pytest.raises(EnvironmentUnsuitable, match="can be changed by others"):
        allowed_targets(tmp_path)
    path.chmod(0o600)
    linked.mkdir()
    (linked / "allowed-targets").symlink_to(path)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be read"):
        allowed_targets(linked)
