"""The list of servers that may be replayed to: only its owner's words count."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.replay.target_facts import allowed_targets


def test_each_line_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "replay-targets"
    assert allowed_targets(path) == frozenset()
    path.write_text("# ours\n\n postgres@new-db:5432/postgres \n")
    path.chmod(0o600)
    assert allowed_targets(path) == {"postgres@new-db:5432/postgres"}


def test_a_list_that_others_can_change_or_choose_is_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "replay-targets", tmp_path / "link"
    path.write_text("x\n")
    path.chmod(0o666)
    with pytest.raises(EnvironmentUnsuitable, match="can be changed by others"):
        allowed_targets(path)
    path.chmod(0o600)
    link.symlink_to(path)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be read"):
        allowed_targets(link)
