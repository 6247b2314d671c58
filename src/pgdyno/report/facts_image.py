"""The JSON image of `Facts` that a study keeps, as reports tell it: a fact that is not there is unknown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.model.shapes import inner
from pgdyno.model.study import Study
from pgdyno.units import bytes_text


@dataclass(frozen=True, slots=True)
class FactsImage:
    """One part of the image: the host, the server or its settings."""

    members: Mapping[str, object]

    def number(self, name: str) -> float | None:
        """Return a number, or None; a boolean is not a number."""
        value = self.members.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def whole(self, name: str) -> int | None:
        """Return an integer, or None."""
        value = self.number(name)
        return None if value is None else int(value)

    def text(self, name: str) -> str:
        """Return a text; empty when it is absent or unknown."""
        value = self.members.get(name)
        return "" if value is None or isinstance(value, Mapping | list) else str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        value = self.members.get(name)
        return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()

    def fact(self, name: str) -> str:
        """Return a fact as text; one that is not known says why."""
        value = self.members.get(name)
        reason = value.get("unknown") if isinstance(value, Mapping) else None
        return f"unknown ({reason})" if reason else self.text(name) or "unknown"

    def bytes(self, name: str) -> str:
        """Return a size as text; one that is not known says why."""
        count = self.number(name)
        return self.fact(name) if count is None else bytes_text(count)

    def switch(self, name: str) -> str:
        """Return on or off; one that is not known says why."""
        value = self.members.get(name)
        return ("on" if value else "off") if isinstance(value, bool) else self.fact(name)


def host_of(study: Study) -> FactsImage:
    """Return what a study found of the host."""
    return FactsImage(inner(study.facts, "host"))


def server_of(study: Study) -> FactsImage:
    """Return what a study found of the server."""
    return FactsImage(inner(study.facts, "server"))


def settings_of(study: Study) -> FactsImage:
    """Return the settings that were not the built-in ones."""
    return FactsImage(inner(study.facts, "settings"))
