"""The list of servers whose data may be changed: only its owner's words count."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.replay.target_facts import allowed_targets, passwords_of
from pgdyno.trace.engine.plan import EndPoint


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


@pytest.mark.parametrize("names_file", [True, False])
def test_passwords_are_those_of_the_session_s_role_and_of_the_file_that_libpq_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_file: bool
) -> None:
    """A conninfo may name no role, and a password file of its own."""
    usual, named = tmp_path / "usual", tmp_path / "named"
    for path in (usual, named):
        path.write_text(f"*:*:*:app:from {path.name}\n*:*:*:dba:not this\n")
        path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(usual))
    info = SimpleNamespace(
        user="dba", password="secret", get_parameters=lambda: {"passfile": str(named)} if names_file else {}
    )
    target = SimpleNamespace(postgres=SimpleNamespace(connect=lambda: nullcontext(SimpleNamespace(info=info))))
    found = passwords_of(target, EndPoint("db", 5432), ("app", "dba"), ("shop",))  # type: ignore[arg-type]  # its session
    assert found == {"dba": "secret", "app": "from named" if names_file else "from usual"}
