"""The catalogue of Linux knobs, and whether one of them means anything on this machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from pgdyno.errors import UsageError
from pgdyno.knobs.catalogue import Catalogue, load_catalogue, parse_catalogue
from pgdyno.knobs.values import canonical_text
from pgdyno.model import linux
from pgdyno.model.facts import Facts, KernelFact, Unknown

_WORD = re.compile(r"[\w+.-]+")


@cache
def load_linux_catalogue() -> Catalogue:
    """Load the catalogue that is shipped with the package."""
    return parse_catalogue(linux.linux_document(), beside=load_catalogue())


@cache
def load_all_knobs() -> Catalogue:
    """Load both catalogues as one, PostgreSQL's knobs first."""
    return MappingProxyType({**load_catalogue(), **load_linux_catalogue()})


def checked_for_persisting(knobs: Mapping[str, str], kernel: Mapping[str, KernelFact]) -> dict[str, str]:
    """Return Linux knobs with values as the kernel writes them, for a file that another boot will read.

    What this process may not write now can be persisted; of a knob that this kernel does not have the words are not
    checked, because the file may be for another machine's image. Raises as `policy.check_settings` does for a value
    that no kernel takes, and UsageError for both of two counterparts.
    """
    checked: dict[str, str] = {}
    for name, value in knobs.items():
        if linux.COUNTERPARTS.get(name) in knobs:
            raise UsageError(
                f'knobs "{name}" and "{linux.COUNTERPARTS[name]}" are counterparts: the kernel keeps the last one only',
                hint="Set one of the two.",
            )
        if not _WORD.fullmatch(value):
            raise UsageError(f'knob "{name}": "{value}" is not a word or a number')
        fact = kernel[name]
        known = replace(fact, value=value, choices=fact.choices or (value,)).row()
        assert known is not None, "it has a value"
        checked[name] = canonical_text(known, value)
    return checked


def cannot_be_set(name: str, facts: Facts) -> str | None:
    """Return why nobody can set a Linux knob on this machine, one clause; None when this process can."""
    fact = facts.kernel.get(name)
    if fact is None:
        return "the kernel's values were not read"
    if isinstance(fact.value, Unknown):
        return fact.obstacle or f"its value is {fact.value}"
    return None if fact.obstacle is None else f"cannot be written: {fact.obstacle}"


def is_idle(name: str, facts: Facts) -> str | None:
    """Return why a Linux knob that can be set would change nothing here; None when it may."""
    if name == linux.NR_HUGEPAGES and "huge_pages" in facts.settings and facts.settings["huge_pages"].setting == "off":
        return "huge_pages of PostgreSQL is off"
    return idle_on_host(name, facts.kernel, facts.host.swap_total_bytes)


def idle_on_host(name: str, kernel: Mapping[str, KernelFact], swap_bytes: int | Unknown) -> str | None:
    """Return the same of what the host alone decides, whatever server runs on it."""
    if name == linux.SWAPPINESS and swap_bytes == 0:
        return "the host has no swap, so it has no effect"
    if name == linux.OVERCOMMIT_RATIO and _value(linux.OVERCOMMIT_MEMORY, kernel) != "2":
        return "counts only where vm.overcommit_memory is 2"
    if name == linux.THP_DEFRAG and _value(linux.THP_ENABLED, kernel) == "never":
        return "transparent huge pages are off"
    return None


def _value(name: str, kernel: Mapping[str, KernelFact]) -> str | None:
    fact = kernel.get(name)
    return fact.value if fact is not None and isinstance(fact.value, str) else None
