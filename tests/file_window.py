"""Windows for restarts: of the day and open now, and open while a file exists, which no clock opens or closes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pgdyno.studies.night.window import NightWindow, Occurrence

HOURS_S = 3 * 3600.0
_of_the_day = NightWindow.parse


@dataclass(frozen=True)
class FileWindow:
    """Like `NightWindow`: open for hours, or not before hours, as it looks at any moment."""

    path: Path

    def now(self, at: float) -> Occurrence | None:
        return Occurrence(at - 1.0, at + HOURS_S) if self.path.exists() else None

    def following(self, at: float) -> Occurrence:
        return Occurrence(at + HOURS_S, at + 2 * HOURS_S)

    def clock_text(self, at: float) -> str:
        return f"{at:.0f}"

    def __str__(self) -> str:
        return str(self.path)


def parse(text: str, zone: str | None = None) -> NightWindow | FileWindow:
    """Read a window; a path is one of these."""
    return FileWindow(Path(text)) if text.startswith("/") else _of_the_day(text, zone)


def now_open() -> str:
    """Return a window of the day that is open now, and for hours."""
    now = datetime.now()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=3):%H:%M}"
