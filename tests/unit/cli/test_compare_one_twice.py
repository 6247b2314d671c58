"""`compare --replay` holds no run against itself: that it is as fast in each transaction says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli import compare
from pgdyno.errors import UsageError


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
