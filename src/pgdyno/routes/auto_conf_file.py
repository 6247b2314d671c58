"""postgresql.auto.conf as bytes: what the server writes, and the three-way way back by name. Pure.

ALTER SYSTEM writes two comments and then one line a setting, `name = 'value'`, with quotes and backslashes doubled
(`write_auto_conf_file` in guc.c). A session of ours changes values of lines that were there and adds none,
so the way back needs no image: each line of ours gets its old value, and every line its old place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.routes.auto_conf import Line

_LINE = re.compile(rb"([A-Za-z_][A-Za-z0-9_$.]*) = '((?:[^'\\]|''|\\\\)*)'\n")


@dataclass(frozen=True, slots=True)
class Raw:
    """One line as it stands; name and value are None where it is none that the server writes."""

    text: bytes
    name: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """The bytes to write. `foreign` are our names that stand at a value, or at an absence, of somebody else."""

    data: bytes
    foreign: tuple[str, ...]


def read_lines(data: bytes) -> list[Raw]:
    """Return the lines of a file."""
    return [_raw(text) for text in data.splitlines(keepends=True)]


def written(line: Line) -> bytes:
    """Return the line of a setting as the server writes it."""
    value = (line.value or "").replace("\\", "\\\\").replace("'", "''")
    return f"{line.name} = '{value}'\n".encode(errors="surrogateescape")


def merge(
    found: bytes, order: Sequence[str], wanted: Mapping[str, str], ours: Mapping[str, Collection[str]] | None
) -> Merged:
    """Return the file with our names at their wanted values, the lines that it had at their old places.

    `found` is the file as it is now. `order` are the names of the lines before the session, `wanted` the values of
    those that are ours. `ours` holds the values that a session gave each of them, and its original; any other was set
    by somebody else since and stays. None: that cannot be told, and each that is still there is put to its wanted
    value. Lines that others added stay behind the old ones.
    """
    lines = read_lines(found)
    present = {line.name: line for line in lines if line.name is not None}
    foreign = []
    for name, value in wanted.items():
        line = present.get(name)
        if line is None or (ours is not None and line.value not in ours.get(name, ())):
            foreign.append(name)
        else:
            present[name] = Raw(written(Line(name, value)), name, value)
    head = [line.text for line in lines if line.name is None]
    old = [present[name].text for name in order if name in present]
    new = [present[name].text for name in present if name not in order]
    return Merged(b"".join([*head, *old, *new]), tuple(foreign))


def _raw(text: bytes) -> Raw:
    match = _LINE.fullmatch(text)
    if match is None:
        return Raw(text)
    name, value = (part.decode(errors="surrogateescape") for part in match.groups())
    return Raw(text, name, value.replace("''", "'").replace("\\\\", "\\"))
