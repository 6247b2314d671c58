"""How far a load of data is: a line of text that knows its number, so that a terminal can draw a bar of it."""

from __future__ import annotations

MARK_PCT = 25
"""Who keeps lines keeps one each quarter: in a log, every percent would be noise."""


class LoadedShare(str):
    """The line "loading 4 warehouses: 37 %", told at each percent. It is a text to whoever takes texts."""

    __slots__ = ("about", "percent")
    about: str
    percent: int

    def __new__(cls, about: str, percent: int) -> LoadedShare:
        """Return the line of what is loaded and how far it is."""
        made = super().__new__(cls, f"{about}: {percent} %")
        made.about, made.percent = about, percent
        return made

    @property
    def mark(self) -> int:
        """Return how many quarters are done."""
        return self.percent // MARK_PCT
