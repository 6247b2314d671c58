"""What `capture` refuses before it asks a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.capture import command
from pgdyno.errors import UsageError


@pytest.mark.parametrize("verb", ["check", "start"])
@pytest.mark.parametrize(
    ("share", "words", "hint"),
    [
        ("0", "--sampled 0 logs nothing", "a share such as 10%"),
        ("100%", "--sampled 100% leaves nothing out", "Leave --sampled out"),
        ("1", "--sampled 100% leaves nothing out", "can be replayed"),
    ],
)
def test_a_sample_that_is_none_is_refused(verb: str, share: str, words: str, hint: str, tmp_path: Path) -> None:
    nowhere = ["--target", f"host={tmp_path}"]
    with pytest.raises(UsageError, match=words) as error:
        CliRunner().invoke(command, [verb, "--sampled", share, *nowhere], catch_exceptions=False)
    assert hint in (error.value.hint or "")
