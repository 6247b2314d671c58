"""Two databases compared to the row: which tables, by how many sessions, each side in one snapshot. Reads only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from pgdyno.contents.row_hash import PROBE, RowHash
from pgdyno.contents.snapshot import snapshot
from pgdyno.contents.table_rows import TwoSides, compare_table
from pgdyno.contents.tables import StoredTable, sequences_of, tables_of
from pgdyno.errors import Halted, UsageError
from pgdyno.model.results.parts.contents import ContentsComparison, SequenceDifference, TableDifference
from pgdyno.server.postgres import Postgres

T = TypeVar("T")
EXAMPLES = 20
_LOOK_S = 0.5
"""How often `halt` is asked, and what goes on after it is cancelled again."""


def compare_contents(
    a: Postgres,
    b: Postgres,
    *,
    jobs: int = 1,
    max_seconds: float | None = None,
    examples: int = EXAMPLES,
    halt: Callable[[], str] = str,
    announce: Callable[[str], None] = lambda _: None,
) -> ContentsComparison:
    """Return how the database of B differs from that of A: its tables to the row, and its sequences.

    `a` and `b` are the servers with sessions in those databases. Opens `jobs` sessions on each, all of one side in one
    snapshot; statements are cancelled after `max_seconds` each, None for never. At most `examples` rows that differ are
    named of each table. `halt` says why to end now, empty while it goes on: what the sessions run is cancelled then, as
    after an error or a signal, and Halted is raised. `announce` is told what is compared. Versions may differ. Needs
    the right to read every table; raises ConnectError, and EnvironmentUnsuitable where a server refuses.
    """
    if jobs < 1:
        raise UsageError(f"{jobs} jobs cannot compare anything", hint="Give --jobs 1 or more.")
    with ExitStack() as stack:
        pairs = _sessions(stack, a, b, jobs, max_seconds)
        first, second = pairs[0].both(tables_of)
        names = sorted(first.keys() & second.keys())
        unlike = [f"table {name} is only in A" for name in sorted(first.keys() - second.keys())]
        unlike += [f"table {name} is only in B" for name in sorted(second.keys() - first.keys())]
        others = {name for name in names if sorted(first[name].columns) != sorted(second[name].columns)}
        unlike += [f"table {name} has other columns in B: not compared" for name in sorted(others)]
        alike = [_keyed(first[name], second[name]) for name in names if name not in others]
        compared = _compared(pairs, alike, examples, halt, announce)
        before, after = pairs[0].both(sequences_of)
        database = str(pairs[0].a("SELECT current_database()")[0][0])
    return ContentsComparison(
        database=database,
        tables=len(alike),
        rows=sum(rows for rows, _ in compared),
        different=tuple(found for _, found in compared if found is not None),
        sequences=tuple(
            SequenceDifference(name, _whole(before[name]), _whole(after[name]))
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ),
        unlike=tuple(unlike),
    )


def _compared(
    pairs: list[TwoSides],
    tables: list[StoredTable],
    examples: int,
    halt: Callable[[], str],
    announce: Callable[[str], None],
) -> list[tuple[int, TableDifference | None]]:
    """Compare the largest tables first, so that no session is left with one of them alone at the end."""
    free, own = list(pairs), threading.local()

    def take() -> None:
        own.sides = free.pop()

    def one(number: int) -> tuple[int, TableDifference | None]:
        announce(f"comparing {tables[number].text}")
        return compare_table(own.sides, tables[number], examples=examples)

    order = sorted(range(len(tables)), key=lambda number: -tables[number].rows)
    with ThreadPoolExecutor(len(pairs), initializer=take) as pool:
        running = {number: pool.submit(one, number) for number in order}
        try:
            _await(running.values(), halt)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while busy := [future for future in running.values() if not future.done()]:
                for sides in pairs:
                    sides.end()
                wait(busy, _LOOK_S)  # and again: a statement may have begun in between
            raise
    return [running[number].result() for number in range(len(tables))]


def _await(running: Iterable[Future[T]], halt: Callable[[], str]) -> None:
    """Return when all have ended. Raises the first error of theirs, and Halted."""
    left = set(running)
    while left:
        if why := halt():
            raise Halted(f"the comparison was ended: {why}")
        done, left = wait(left, _LOOK_S, FIRST_EXCEPTION)
        for future in done:
            future.result()


def _keyed(a: StoredTable, b: StoredTable) -> StoredTable:
    """Return A's table, without its key where that is none in B: a key names one row on both sides."""
    return replace(a, key=a.key if a.key == b.key else (), code=a.code or b.code)


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


def _sessions(stack: ExitStack, a: Postgres, b: Postgres, jobs: int, max_seconds: float | None) -> list[TwoSides]:
    sides = []
    for server in (a, b):
        leader = stack.enter_context(snapshot(server, max_seconds, None))
        shared = str(leader("SELECT pg_export_snapshot()")[0][0]) if jobs > 1 else None
        others = [stack.enter_context(snapshot(server, max_seconds, shared)) for _ in range(jobs - 1)]
        sides.append([leader, *others])
    is_alike = sides[0][0](PROBE) == sides[1][0](PROBE)
    row_hash = RowHash.QUICK if is_alike else RowHash.PORTABLE
    return [TwoSides(one, other, row_hash) for one, other in zip(*sides, strict=True)]
