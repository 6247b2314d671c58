"""What PostgreSQL's `test_decoding` says of commits: their order, and the keys that the server made. Pure.

Its lines come whole transaction by transaction, in the order in which they committed. Of rows nothing is kept but the
columns that were asked for; transactions that were rolled back, savepoints included, do not come at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

HEAD = ("xid", "commit_lsn", "commit_us", "keys")
"""The columns of `commits.csv`. `commit_us` is since the epoch; `keys` is JSON: a list of [table, {column: value}]."""
_NAME = r'(?:"(?:[^"]|"")*"|[^".:\s]+)'
_INSERT = re.compile(rf"table ({_NAME}\.{_NAME}): INSERT:")
_COLUMN = re.compile(
    r' ("(?:[^"]|"")*"|[^\s\["]+)'  # its name
    r'\[((?:"(?:[^"]|"")*"|[^"\]]|\](?!:))*)\]:'  # its type, with brackets of its own where it is an array
    r"(B?'(?:[^']|'')*'|\S+)"
)
_COMMIT = re.compile(r"COMMIT (\d+) \(at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)\+00\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """A transaction that committed; `keys` are the generated ones of its new rows, by table, in their order."""

    xid: int
    lsn: str
    at_us: int
    keys: tuple[tuple[str, Mapping[str, str | None]], ...] = ()

    def row(self) -> tuple[str, ...]:
        """Return it as a row of `commits.csv`."""
        return str(self.xid), self.lsn, str(self.at_us), json.dumps(self.keys) if self.keys else ""


@dataclass(slots=True)
class CommitLines:
    """Reads lines one after another; `wanted` are the columns to keep, by table, spelled as the server quotes them."""

    wanted: Mapping[str, frozenset[str]]
    _keys: list[tuple[str, Mapping[str, str | None]]] = field(default_factory=list)

    def take(self, lsn: str, line: str) -> CommittedTransaction | None:
        """Take one line; return the transaction that it ends. Raises ValueError on a COMMIT that cannot be read."""
        if line.startswith("COMMIT"):
            found = _COMMIT.fullmatch(line)
            if found is None:
                raise ValueError(f"{line[:80]!r} is no commit with its moment in UTC")
            keys, self._keys = tuple(self._keys), []
            moment = datetime.fromisoformat(found[2]).replace(tzinfo=UTC)
            return CommittedTransaction(int(found[1]), lsn, (moment - _EPOCH) // timedelta(microseconds=1), keys)
        insert = _INSERT.match(line)
        columns = self.wanted.get(insert[1]) if insert is not None else None
        if insert is not None and columns:
            found_keys = {name: _value(value) for name, _, value in _COLUMN.findall(line, insert.end())}
            self._keys.append((insert[1], {name: found_keys[name] for name in sorted(columns & found_keys.keys())}))
        return None


def _value(text: str) -> str | None:
    if text == "null":
        return None
    return text.removeprefix("B")[1:-1].replace("''", "'") if text.endswith("'") else text
