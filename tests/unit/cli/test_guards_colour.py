"""Guards in colour: the word says it, and NO_COLOR leaves it alone."""

from __future__ import annotations

import io

import pytest

from pgdyno.cli import guards

FACT = {"name": "memory", "state": "green", "text": "17 GB", "limit": "1 GB", "default": "1 GB", "kind": "trial",
        "reads": "MemAvailable"}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("asked", "is_coloured"), [(None, True), ("1", False), ("", True)])
def test_no_color_leaves_the_word(monkeypatch: pytest.MonkeyPatch, asked: str | None, is_coloured: bool) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if asked is not None:
        monkeypatch.setenv("NO_COLOR", asked)
    monkeypatch.setattr(guards, "_ENDS", {"trial": "trial"})
    guards._print({**FACT})
    assert ("\x1b[32mgreen\x1b[0m" in shown.getvalue()) == is_coloured
    assert "green" in shown.getvalue()
