"""What `pgdyno rollback` says where no session was left open."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.rollback import command, nothing_text
from pgdyno.undo import rollback
from pgdyno.undo.rollback import BundleInfo, SessionState


def info(name: str, state: SessionState) -> BundleInfo:
    return BundleInfo(Path("/undo") / name, None, state, 1, None)


@pytest.mark.parametrize("words", [["--last"], ["--last", "--dry-run"], [], ["--dry-run"]])
def test_a_kept_change_is_named_with_the_command_that_takes_it_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    found = [info("s-9", SessionState.CLOSED), info("s-8", SessionState.KEPT), info("s-7", SessionState.KEPT)]
    monkeypatch.setattr(rollback.LocalSessions, "sessions", lambda _self: found)
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.output.startswith("no session was left open; 2 changes that apply kept can be taken back, newest first")
    assert done.output.endswith(": pgdyno rollback s-8\n")


def test_the_host_is_part_of_the_command() -> None:
    assert nothing_text([info("s-8", SessionState.KEPT)], "ssh://db1").endswith("rollback s-8 --host ssh://db1")
    assert nothing_text([info("s-8", SessionState.CLOSED)], None) == "nothing to roll back"
