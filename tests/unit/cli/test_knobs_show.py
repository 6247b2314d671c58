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
