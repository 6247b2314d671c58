"""Where every CPU lies: the table of `lscpu --extended`, or sysfs where lscpu was not at hand. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from pgdyno.capture.texts import Capture
from pgdyno.model.cpus import CpuRow

_CPUS = "sys/devices/system/cpu"
_ALIASES = {"CLUSTER": "SOCKET"}


def read_rows(capture: Capture) -> list[CpuRow]:
    """Return a row for every CPU that the capture knows of, none when it has neither source."""
    table = capture.maybe("commands/lscpu_extended.txt")
    rows = [] if table is None else rows_of_table(table)
    return rows or _rows_of_sysfs(capture)


def rows_of_table(text: str) -> list[CpuRow]:
    """Read lscpu's table by its own headings, which differ between machines; none when a line was cut."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines or lines[0][0] != "CPU":
        return []
    heading = lines[0]
    caches = next((name for name in heading if re.match(r"L\d", name)), "")
    place = _last_level(caches.split(":"))
    rows = []
    for words in lines[1:]:
        values = dict(zip(heading, words, strict=False))
        if len(words) < len(heading) or not values["CPU"].isdecimal():
            return []  # a count of what is left would be a wrong one
        shown = {_ALIASES.get(name, name): None if value == "-" else value for name, value in values.items()}
        rows.append(
            CpuRow(
                int(values["CPU"]),
                shown.get("NODE"),
                shown.get("DRAWER"),
                shown.get("BOOK"),
                shown.get("SOCKET"),
                shown.get("CORE"),
                _cache(values.get(caches), place),
                values.get("ONLINE", "yes") == "yes",
                values.get("CONFIGURED", "yes") == "yes",
                shown.get("POLARIZATION"),
                f"{caches} {values[caches]}" if caches else None,
                shown.get("ADDRESS"),
            )
        )
    return rows


def distinct(values: Iterable[str | None]) -> int | None:
    """Return how many different ones there are; None when one of them is not known."""
    found = set(values)
    return None if None in found or not found else len(found)


def threads_by_core(rows: Iterable[CpuRow]) -> Counter[tuple[str | None, ...]]:
    """Count CPUs by core: sysfs numbers cores from 0 in each socket, so that its whole place is the core's name."""
    return Counter((row.drawer, row.book, row.socket, row.core) for row in rows)


def _last_level(names: list[str]) -> int | None:
    levels = [int(match[1]) if (match := re.match(r"L(\d)", name)) else 0 for name in names]
    highest = max(levels, default=0)
    return levels.index(highest) if highest >= 3 else None


def _cache(value: str | None, place: int | None) -> str | None:
    parts = (value or "").split(":")
    return parts[place] if place is not None and place < len(parts) and parts[place] not in ("", "-") else None


def _rows_of_sysfs(capture: Capture) -> list[CpuRow]:
    by_cpu: dict[str, dict[str, str]] = {}
    for key, text in capture.below(_CPUS):
        name, _, file = key.partition("/")
        by_cpu.setdefault(name, {})[file] = text.strip()
    rows = []
    for name, files in by_cpu.items():
        if not re.fullmatch(r"cpu\d+", name):
            continue
        rows.append(
            CpuRow(
                int(name[3:]),
                None,
                files.get("topology/drawer_id"),
                files.get("topology/book_id"),
                files.get("topology/physical_package_id"),
                files.get("topology/core_id"),
                files.get("cache/index3/shared_cpu_list"),
                files.get("online", "1") == "1",
                files.get("configure", "1") == "1",
                files.get("polarization"),
                address=files.get("address"),
            )
        )
    # cpu0 alone, with its governor, is no topology
    return rows if any(row.core is not None for row in rows) else []
