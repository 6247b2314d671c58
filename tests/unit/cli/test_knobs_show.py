"""What `pgdyno knobs show` prints in a narrow terminal."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pgdyno.cli.knobs import command
from pgdyno.cli.terminal import columns


@pytest.mark.parametrize("width", [60, 80])
def test_an_explanation_is_wrapped_under_itself(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(columns, "terminal_width", lambda: width)
    lines = CliRunner().invoke(command, ["show", "work_mem"]).output.splitlines()
    assert max(map(len, lines)) <= width
    why = next(at for at, line in enumerate(lines) if line.startswith("why:"))
    assert lines[why + 1].startswith(" " * 14)


@pytest.mark.parametrize("words", [["show", "shared_buffers"], ["list"], ["host"]])
def test_a_pipe_is_as_wide_as_an_exported_columns_says_and_else_breaks_no_line(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow = CliRunner().invoke(command, words).output
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.delenv("COLUMNS")
    whole = CliRunner().invoke(command, words).output
    assert len(whole.splitlines()) <= len(narrow.splitlines())
    for word in whole.split():
        assert word in narrow
