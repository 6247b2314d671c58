"""Whether the files would let a configuration through that is not in them yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdyno.model.facts import Obstacle
from pgdyno.preflight.result import Result, passed, refused
from pgdyno.routes.file_check import FileReading

_CHECK = "files"


def would_be_overridden(
    names: Iterable[str],
    reading: FileReading,
    obstacles: Mapping[str, Obstacle],
    by_alter_system: frozenset[str] = frozenset(),
) -> Result:
    """Refuse knobs that something in files or on the command line outranks (`overrides.Reach.in_server`).

    Role and database settings are judged by `preflight/overrides.py`.
    """
    broken = [f"{line.place}: {line.error}" for line in reading.rejected()]
    if broken:
        words = f"the files cannot be read as they are: {'; '.join(broken)}"
        return refused(_CHECK, words, there=f"{len(broken)} lines", hint="Fix those lines first.")
    names = list(names)
    asked = "1 knob" if len(names) == 1 else f"{len(names)} knobs"
    found = {name: obstacles[name] for name in names if name in obstacles}
    if found:
        words = "; ".join(f"{name} {obstacle.reason}" for name, obstacle in found.items())
        hint = " ".join(dict.fromkeys(obstacle.remedy for obstacle in found.values()))
        return refused(_CHECK, words, asked=asked, there="overridden", hint=f"{hint} Or leave these knobs out.")
    words = "nothing in the files overrides the configuration"
    if moved := [name for name in names if name in by_alter_system]:
        words += f"; ALTER SYSTEM sets {', '.join(moved)}, as postgresql.auto.conf sets them now"
    return passed(_CHECK, words, asked=asked)
