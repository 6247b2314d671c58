"""The lines of postgresql.auto.conf as ALTER SYSTEM moves them: pure arithmetic of order and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

QUOTED_LISTS = frozenset({
    "local_preload_libraries", "search_path", "session_preload_libraries", "shared_preload_libraries",
    "temp_tablespaces", "unix_socket_directories",
})  # fmt: skip
"""Parameters that are lists of quoted names (GUC_LIST_QUOTE; pg_dump's variable_is_guc_list_quote)."""
_WORD = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Line:
    """One setting. As an original, None is a value that is not ours to know; as a statement, None takes it away."""

    name: str
    value: str | None

    def without_secret(self, is_secret: Callable[[str], bool]) -> Line:
        """Return the line without its value where that may be a secret."""
        return Line(self.name, None) if is_secret(self.name) else self


def after(lines: Sequence[Line], statement: Line) -> tuple[Line, ...]:
    """Return the lines after ALTER SYSTEM SET, or RESET where there is no value (`replace_auto_config_value`)."""
    kept = tuple(line for line in lines if line.name != statement.name)
    return kept if statement.value is None else (*kept, statement)


def first_wrong(lines: Sequence[Line], originals: Sequence[Line]) -> int:
    """Return the index of the first original that is not at its place with its value; their number when all are.

    Lines that are not among the originals do not count.
    """
    names = {line.name for line in originals}
    found = [line for line in lines if line.name in names]
    for index, original in enumerate(originals):
        if index >= len(found) or found[index].name != original.name:
            return index
        if original.value is not None and found[index].value != original.value:
            return index
    return len(originals)


def plan(lines: Sequence[Line], originals: Sequence[Line], is_ours: Callable[[str], bool]) -> list[Line]:
    """Return the statements that turn the lines into the originals, in their order.

    What is ours and was not there is taken away. From the first wrong original on each is set again, which moves it
    to the end. A line whose value is unknown and that is gone cannot be brought back and is left out; so is what
    somebody else added, which stays in front.
    """
    names = {line.name for line in originals}
    current = {line.name: line.value for line in lines}
    statements = [Line(line.name, None) for line in lines if line.name not in names and is_ours(line.name)]
    for original in originals[first_wrong(lines, originals) :]:
        value = current.get(original.name) if original.value is None else original.value
        if value is not None:
            statements.append(Line(original.name, value))
    return statements


def list_words(name: str, value: str) -> list[str]:
    """Return the words that ALTER SYSTEM must be given for this value: those of a list, else the value itself."""
    if name.lower() not in QUOTED_LISTS or not value.strip():
        return [value]
    words = []
    position = 0
    while position < len(value):
        match = _WORD.match(value, position)
        assert match is not None, "the pattern matches the empty word"
        words.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
    return words
