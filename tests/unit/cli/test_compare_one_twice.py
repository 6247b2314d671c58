"""`compare --replay` holds no run against itself: that it is as fast in each transaction says nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli import compare
from pgdyno.cli.main import command
from pgdyno.errors import UsageError
from pgdyno.trace.outcome_file import FACTS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("old", "old"), "is both sides of the comparison"),
        (("old", "./link"), "is both sides of the comparison"),
        (("old", "new", "--again", "old"), "is one of the two sides"),
        (("old", "new", "--again", "link"), "is one of the two sides"),
        (("old", "new", "--again", "new"), "is one of the two sides"),
    ],
)
def test_a_run_is_not_held_against_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("old")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(compare.command, ["--replay", *words])
    assert isinstance(result.exception, UsageError), result.output
    assert said in result.exception.message


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        (("compare", "--replay", "old", "new"), f"old/{FACTS}"),
        (("project", "new", "old/p.toml"), "old/p.toml"),
        (("project", "check", "old/p.toml"), "old/p.toml"),
        (("project", "run", "old/p.toml"), "old/p.toml"),
        (("bench", "--report", "old/r/x.html"), "old/r"),
    ],
)
def test_a_path_that_this_account_may_not_look_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], closed: str
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    stat = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if str(path).endswith(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "stat", refused)
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, UsageError), result.output
    assert result.exception.one_line.endswith(f'{closed}" cannot be looked at: Permission denied')
