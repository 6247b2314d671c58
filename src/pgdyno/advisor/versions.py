"""What changed between versions of PostgreSQL: support, removed parameters, defaults, additions. Pure, from a table."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class RemovedParameter:
    """A parameter that is gone. `gone` is the first major version without it (9 with `exact` 9.5)."""

    name: str
    gone: int
    exact: str = ""
    instead: str = ""
    convert: str = ""

    def sentence(self) -> str:
        """Return what to do about it."""
        since = self.exact or str(self.gone)
        if self.convert:
            advice = self.convert
        elif self.instead:
            advice = f"it is {self.instead} now"
        else:
            advice = "drop it"
        return f"{self.name} is gone since {since}: {advice}."


@dataclass(frozen=True, slots=True)
class DefaultChange:
    """A built-in default that changed, in base units of pg_settings."""

    name: str
    since: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Addition:
    """Parameters and views that a version brought."""

    since: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A parameter whose type or context changed."""

    name: str
    since: int
    what: str


@dataclass(frozen=True, slots=True)
class Versions:
    """The whole table. `ends` maps a version as people write it (9.6, 13) to the end of its support."""

    made: date
    newest: int
    ends: Mapping[str, date]
    removed: tuple[RemovedParameter, ...]
    defaults: tuple[DefaultChange, ...]
    added: tuple[Addition, ...]
    changed: tuple[TypeChange, ...]


@cache
def versions() -> Versions:
    """Return the table of the package."""
    text = resources.files("pgdyno.advisor").joinpath("data/versions.toml").read_text("utf-8")
    table = tomllib.loads(text)
    support = table["support"]
    return Versions(
        made=date.fromisoformat(support["made"]),
        newest=int(support["newest"]),
        ends={name: date.fromisoformat(day) for name, day in support["ends"].items()},
        removed=tuple(RemovedParameter(**row) for row in table["removed"]),
        defaults=tuple(DefaultChange(**row) for row in table["default"]),
        added=tuple(Addition(row["since"], tuple(row["names"])) for row in table["added"]),
        changed=tuple(TypeChange(**row) for row in table["changed"]),
    )


def release_of(version_num: int) -> str:
    """Return the version as its support is named: 9.6 for 90624, 13 for 130023."""
    major = version_num // 10_000
    return str(major) if major >= 10 else f"{major}.{version_num // 100 % 100}"


def removals(names: Mapping[str, object], major: int) -> tuple[list[RemovedParameter], list[RemovedParameter]]:
    """Split the removed parameters among these names: those gone in this version already, and those that will be."""
    found = [removal for removal in versions().removed if removal.name in names]
    return [one for one in found if one.gone <= major], [one for one in found if one.gone > major]
