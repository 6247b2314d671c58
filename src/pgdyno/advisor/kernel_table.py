"""What changed with which kernel: the table `data/kernel_versions.toml`, and questions to it. Pure."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

Version = tuple[int, int]
DEBUGFS_SINCE: Version = (5, 13)
"""From this kernel on the scheduler's knobs are in debugfs and no sysctls any more."""


@dataclass(frozen=True, slots=True)
class KernelChange:
    """Something that holds from a kernel on."""

    since: Version
    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class GoneName:
    """A sysctl that kernels from `since` on do not have; `now` is what took its place."""

    name: str
    since: Version
    now: str


@cache
def kernel_changes() -> tuple[KernelChange, ...]:
    """Return all changes, the oldest first."""
    return tuple(KernelChange(_version(row["since"]), row["topic"], row["text"]) for row in _table()["change"])


@cache
def gone_names() -> dict[str, GoneName]:
    """Return the sysctls that are gone, by name."""
    return {row["name"]: GoneName(row["name"], _version(row["since"]), row["now"]) for row in _table()["gone"]}


def changes_until(version: Version) -> tuple[KernelChange, ...]:
    """Return what holds on a kernel."""
    return tuple(change for change in kernel_changes() if change.since <= version)


def gone_from(name: str, version: Version) -> GoneName | None:
    """Return why a kernel does not have a sysctl; None when the table does not say so."""
    entry = gone_names().get(name)
    return entry if entry is not None and entry.since <= version else None


def dotted(version: Version) -> str:
    """Write a kernel's version: `5.13`."""
    return f"{version[0]}.{version[1]}"


def _table() -> dict[str, list[dict[str, str]]]:
    text = resources.files("pgdyno.advisor").joinpath("data/kernel_versions.toml").read_text("utf-8")
    rows: dict[str, list[dict[str, str]]] = tomllib.loads(text)
    return rows


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
