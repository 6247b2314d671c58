"""The load of data in the progress display: a bar on a terminal, a line each quarter in a log."""

from __future__ import annotations

import io

import pytest

from pgdyno.cli.terminal.progress import Progress
from pgdyno.model.loading import LoadedShare

ABOUT = "loading 4 warehouses"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, percents: list[int]) -> list[str]:
    """Return what a display wrote of these shares, told a second apart, and of a line after them."""
    now = 1000.0
    progress = Progress(stream=stream, clock=lambda: now)
    for percent in percents:
        now += 1.0
        progress.announce(LoadedShare(ABOUT, percent))
    progress.announce("loaded")
    return stream.getvalue().replace("\r", "\n").splitlines()


def test_a_terminal_shows_a_bar_at_each_percent_and_keeps_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = shown(Terminal(), list(range(1, 101)))
    bars = [line for line in lines if "#" in line]
    assert len(bars) > 80
    widths = [line.count("#") for line in bars]
    assert widths == sorted(widths)
    assert f"{ABOUT}  ########--------  50 %  about 49" in next(line for line in bars if " 50 %" in line)
    kept = [line for line in lines if line.startswith("\x1b[2K[")]
    assert [line.endswith("] loading 4 warehouses: 100 %") for line in kept] == [True, False]


def test_the_time_left_falls_towards_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    bars = [line for line in shown(Terminal(), [20, 80, 99]) if "#" in line]
    assert len(bars) == 3
    assert "left" not in bars[0], "nothing is known at the first"
    left = [float(line.rpartition("about ")[2].split()[0]) for line in bars[1:]]
    assert left[0] > left[1]


def test_a_log_has_a_line_each_quarter() -> None:
    kept = [line for line in shown(io.StringIO(), list(range(1, 101))) if ABOUT in line]
    assert [line.rpartition(": ")[2] for line in kept] == ["25 %", "50 %", "75 %", "100 %"]


def test_one_load_after_another_begins_anew() -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    for about in ("loading a", "loading b"):
        for percent in (30, 31, 60):
            progress.announce(LoadedShare(about, percent))
    assert stream.getvalue().count("30 %") == stream.getvalue().count("60 %") == 2
    assert "31 %" not in stream.getvalue()


def test_a_quiet_display_says_nothing() -> None:
    stream = Terminal()
    progress = Progress(stream=stream, quiet=True)
    progress.announce(LoadedShare(ABOUT, 50))
    progress.announce(LoadedShare(ABOUT, 100))
    assert stream.getvalue() == ""
