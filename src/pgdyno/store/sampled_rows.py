"""The rows of a run: the newest in memory, all earlier ones packed by table into a spool, so that memory stays flat."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.store.spool import Spool

AT_ONCE = 2000
"""So many rows are packed together: two minutes of a usual server's."""

_Pack = Mapping[str, tuple[int, int, int]]
"""Of each table: how many rows, and offset and size of their bytes in the spool."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows(Collection[SampleRow]):
    """Rows as they were at one moment. Those of a table come in the order of time; tables take turns."""

    spool: Spool
    packs: tuple[_Pack, ...]
    newest: Collection[SampleRow]

    def __len__(self) -> int:
        return sum(count for pack in self.packs for count, _, _ in pack.values()) + len(self.newest)

    def __iter__(self) -> Iterator[SampleRow]:
        for pack in self.packs:
            for table in pack:
                yield from self._unpacked(pack, table)
        yield from self.newest

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)

    def of(self, table: str) -> Iterator[SampleRow]:
        """Yield the rows of one table. Raises OSError when the disk does not give them."""
        for pack in self.packs:
            if table in pack:
                yield from self._unpacked(pack, table)
        yield from (row for row in self.newest if row.table == table)

    def _unpacked(self, pack: _Pack, table: str) -> Iterator[SampleRow]:
        _, offset, size = pack[table]
        told: list[tuple[float, tuple[SampleValue, ...]]] = pickle.loads(self.spool.read(offset, size))  # noqa: S301 - `_pack` wrote it, to a file without a name
        yield from (SampleRow(table, t, values) for t, values in told)


def rows_of(rows: Iterable[SampleRow], table: str) -> Iterator[SampleRow]:
    """Yield the rows of one table, without unpacking the others where they are packed."""
    return rows.of(table) if isinstance(rows, SampledRows) else (row for row in rows if row.table == table)


class KeptRows:
    """Takes the rows of one tick after the other. `folder` takes the file of a long run, without a name.

    One thread adds; any may ask for `rows` meanwhile. Where the disk does not take them they stay in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._spool = Spool(folder)
        self._size = 0
        self._is_full = False
        self._latest = 0
        self._state: tuple[tuple[_Pack, ...], list[SampleRow]] = ((), [])

    def add(self, rows: Collection[SampleRow], *, anew: bool = False) -> None:
        """Add the rows of a tick, `anew` in place of those that were added last."""
        packs, newest = self._state
        if anew:
            del newest[len(newest) - self._latest :]
        elif len(newest) >= AT_ONCE and not self._is_full:
            self._pack(packs, newest)
        self._state[1].extend(rows)
        self._latest = len(rows)

    def rows(self) -> SampledRows:
        """Return the rows so far."""
        packs, newest = self._state  # at once: the other thread may pack
        return SampledRows(self._spool, packs, tuple(newest))

    def _pack(self, packs: tuple[_Pack, ...], newest: list[SampleRow]) -> None:
        """Pickled, at a fifth of what JSON costs: the spool is memory of ours, or a file that no name leads to."""
        by_table: dict[str, list[tuple[float, tuple[SampleValue, ...]]]] = defaultdict(list)
        for row in newest:
            by_table[row.table].append((row.t, row.values))
        pack, texts, size = {}, [], self._size
        for table, told in by_table.items():
            texts.append(pickle.dumps(told, pickle.HIGHEST_PROTOCOL))
            pack[table] = (len(told), size, len(texts[-1]))
            size += len(texts[-1])
        try:
            self._spool.append(b"".join(texts))
        except OSError:
            self._is_full = True
            return
        self._size, self._state = size, ((*packs, pack), [])
