"""What `pg_dump --verbose` says while it works, as begins and ends of tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BEGAN = re.compile(r'dumping contents of table "(?P<name>.+)"$')
_ENDED = re.compile(r"finished item \d+ TABLE DATA (?P<name>.+)$")


@dataclass(slots=True)
class DumpLog:
    """Told a line at a time. Without parallel workers pg_dump tells begins alone: the next one is an end then."""

    is_parallel: bool
    running: list[str] = field(default_factory=list)

    def read(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield the tables, as `schema.table` without quotes, that began (True) or ended (False)."""
        if match := _BEGAN.search(line):
            if not self.is_parallel:
                yield from self.rest()
            name = match["name"].replace('"', "")
            self.running.append(name)
            yield name, True
        elif self.is_parallel and (match := _ENDED.search(line)):
            ended = next((one for one in self.running if one.partition(".")[2] == match["name"]), None)
            if ended is not None:
                self.running.remove(ended)
                yield ended, False

    def rest(self) -> Iterator[tuple[str, bool]]:
        """Yield those that are still under way as ended: the program is done."""
        for name in self.running:
            yield name, False
        self.running.clear()
