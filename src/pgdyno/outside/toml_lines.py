"""Say on which lines the tables and keys of a TOML text stand: the decoder of the standard library does not. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(?:([\w-]+)|"([^"]*)"|'([^']*)')\s*[.=]""")
_QUOTES = re.compile(r'"""|\'\'\'')


@dataclass(slots=True)
class TableLines:
    """A table's own line and those of its keys."""

    line: int
    keys: dict[str, int] = field(default_factory=dict)

    def of(self, key: str) -> int:
        """Return the line of a key, that of the table where the key has none."""
        return self.keys.get(key, self.line)


class TomlLines:
    """The lines of every table that has a header of its own, by its place: names, each with its number.

    `of("process", 1, "job", 2)` is the third `[[process.job]]` of the second `[[process]]`. Numbers begin at 0, and
    a table that is no array has the number 0.
    """

    def __init__(self, text: str) -> None:
        self._tables: dict[tuple[str | int, ...], TableLines] = {(): TableLines(1)}
        counts: dict[tuple[str | int, ...], int] = {}
        current, inside = self._tables[()], ""
        for number, line in enumerate(text.splitlines(), 1):
            was_inside = inside
            for quotes in _QUOTES.findall(line):
                inside = "" if inside == quotes else inside or quotes
            if was_inside:
                continue
            header = _HEADER.match(line)
            if header is None:
                key = _KEY.match(line)
                if key is not None:
                    current.keys.setdefault(next(part for part in key.groups() if part is not None), number)
                continue
            place: tuple[str | int, ...] = ()
            *outer, last = [part.strip().strip("\"'") for part in header[2].split(".")]
            for name in outer:
                place = (*place, name, max(counts.get((*place, name), 1) - 1, 0))
            place = (*place, last)
            counts[place] = counts.get(place, 0) + 1
            current = self._tables[*place, counts[place] - 1] = TableLines(number)

    def of(self, *place: str | int) -> TableLines:
        """Return the lines of a table; one without a header is on the line of its key in the table that it is in."""
        if place in self._tables:
            return self._tables[place]
        return TableLines(self.of(*place[:-2]).of(str(place[-2])))
