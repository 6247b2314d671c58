"""Working sets by class: how much of shared_buffers and of memory a load touches. Pure.

The source ran 5, 10 and 24 GB on a machine of 22 GB: what fits twice (in shared_buffers and in the page cache), what
fits once, and what fits nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.model.facts import Facts, Unknown
from pgdyno.units import bytes_text, parse_quantity, plural
from pgdyno.workloads.disk_room import require_disk
from pgdyno.workloads.parameters import Value
from pgdyno.workloads.ybio.table import MOST_ROWS, row_bytes

CLASSES: Mapping[str, float] = {
    "fits-shared-buffers": 0.8,
    "fits-ram-twice": 0.25,
    "fits-ram-once": 0.5,
    "exceeds": 1.25,
}
"""Share of memory, of the first one share of shared_buffers, that table and index together take."""
OF_SHARED_BUFFERS = "fits-shared-buffers"


@dataclass(frozen=True, slots=True)
class SizedClass:
    """A class in figures: `rows`, the `size` in bytes that they take, and `share` of the `whole` called `of`."""

    name: str
    rows: int
    size: float
    share: float
    whole: int
    of: str

    def __str__(self) -> str:
        return (
            f"class {self.name}: {plural(self.rows, 'row')}, about {bytes_text(self.size)} with the index, "
            f"{100 * self.size / self.whole:.0f} % of {bytes_text(self.whole)} ({self.of})"
        )


def chosen(name: str, whole: int, of: str, *, filler: int) -> SizedClass:
    """Return the working set of a class on a server where `of` is `whole` bytes. Raise UsageError on an unknown one.

    `name` is one of CLASSES, which has its share of `whole`, and `filler` is the bytes of filler in a row. More rows
    than MOST_ROWS are an error as well.
    """
    share = CLASSES.get(name)
    if share is None:
        raise _unknown(name)
    rows = int(share * whole / row_bytes(filler))
    if rows > MOST_ROWS:
        raise UsageError(
            f"class {name} needs {plural(rows, 'row')} of {filler} bytes, more than {MOST_ROWS:,}", hint="Raise filler."
        )
    return SizedClass(name, rows, rows * row_bytes(filler), share, whole, of)


def _unknown(name: str) -> UsageError:
    return UsageError(
        f'class "{name}" is not one of {", ".join(CLASSES)}', hint="pgdyno ybio classes prints them with their sizes."
    )


def sized(parameters: Mapping[str, Value], facts: Facts) -> tuple[dict[str, Value], SizedClass | None]:
    """Return the parameters with `tab_rows` in the place of a class, and the class in figures.

    `memory` is what the share is of; without it the smallest of the server's cgroups and the RAM of its host. Raises
    UsageError where that is not known, and EnvironmentUnsuitable where the disk has no room.
    """
    name = str(parameters.get("class", ""))
    if not name:
        return dict(parameters), None
    without_class(parameters)
    memory, filler = str(parameters.get("memory", "")), int(parameters.get("filler", 400))
    found = measured_by(name, facts, memory=memory, filler=filler)
    require_disk(
        f"class {name}",
        found.size,
        facts,
        "Bound the sandbox's memory (--sandbox-memory 1GB), or give -D memory=SIZE.",
    )
    return {**parameters, "class": "", "memory": "", "tab_rows": found.rows}, found


def measured_by(name: str, facts: Facts, *, memory: str, filler: int) -> SizedClass:
    """Return what a class comes to on a server. Raise UsageError where its memory is not known or rows are too many.

    `name` is one of CLASSES, `filler` is the bytes of filler in a row. `memory` is a size such as "64GB" to take a
    share of, empty for that of the server by `facts`; a class of shared_buffers goes by the setting in them.
    """
    whole, of = _shared_buffers(facts) if name == OF_SHARED_BUFFERS else _memory(memory, facts)
    return chosen(name, whole, of, filler=filler)


def _shared_buffers(facts: Facts) -> tuple[int, str]:
    setting = facts.settings["shared_buffers"]
    return int(parse_quantity(setting.setting, None) * parse_quantity(setting.unit or "8kB", "B")), "shared_buffers"


def _memory(given: str, facts: Facts) -> tuple[int, str]:
    if given:
        return int(parse_quantity(given, "B")), "the memory that was given"
    host = facts.host
    if isinstance(host.memory_limit_bytes, Unknown):
        raise UsageError(
            f"the memory of the server is {host.memory_limit_bytes}", hint="Give it: -D memory=64GB, or give tab_rows."
        )
    bounded = not isinstance(host.ram_bytes, Unknown) and host.memory_limit_bytes < host.ram_bytes
    return host.memory_limit_bytes, "the server's memory cgroup" if bounded else "the host's memory"


def without_class(parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return the parameters that can be checked before a server is asked. Raise UsageError on an unknown class."""
    name = str(parameters.get("class", ""))
    if name and name not in CLASSES:
        raise _unknown(name)
    if name and "tab_rows" in parameters:
        raise UsageError("class and tab_rows cannot be used together", hint="Leave one of them out.")
    return {key: value for key, value in parameters.items() if not name or key not in ("class", "memory")}
