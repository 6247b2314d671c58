"""The guards in the progress display: words first, colour only where it is wanted."""

from __future__ import annotations

import io

import pytest

from pgdyno.cli.terminal.progress import Progress, indicators_text
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Colour

_INDICATORS = (
    Indicator("memory", Colour.GREEN, "8 GB"),
    Indicator("swap-in", Colour.OFF, "no swap"),
    Indicator("disk", Colour.AMBER, "1.2 GB"),
    Indicator("oom", Colour.RED, "1"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Idle:
    def reading(self) -> dict[str, str]:
        return {}


def drawn(monkeypatch: pytest.MonkeyPatch, no_color: str) -> str:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    progress = Progress(stream=stream, clock=iter(range(1000)).__next__)
    progress.guards(_INDICATORS)
    progress.reading(1.0, 10.0, None, Idle())  # type: ignore[arg-type]  # only reading is called
    return stream.getvalue().splitlines()[-1]


def test_names_and_words_stand_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = drawn(monkeypatch, "1")
    assert "guards [RED oom, AMBER disk, 1 ok]" in plain
    assert "\x1b[3" not in plain
    coloured = drawn(monkeypatch, "")
    assert "\x1b[31mRED\x1b[0m oom, \x1b[33mAMBER\x1b[0m disk, 1 \x1b[32mok\x1b[0m]" in coloured


def test_an_indicator_that_turns_amber_is_told_once_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    for _ in range(3):
        progress.guards(_INDICATORS)
    assert stream.getvalue().count("guard disk is amber: 1.2 GB") == 1
    assert indicators_text(()) == ""
