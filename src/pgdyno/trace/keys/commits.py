"""The commit order of a capture beside the rows of its log: places of commits, and the keys of transactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pgdyno.errors import UsageError
from pgdyno.outside.files import open_file
from pgdyno.trace.keys.matching import keys_in, plain_name
from pgdyno.trace.keys.mentions import key_text
from pgdyno.trace.parquet import bad_input
from pgdyno.trace.rows import ALONE, COMMITS, KEYED_BY_XID

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection


_BATCH = 20_000
SLACK_US = 1000
"""A log tells the end of a statement in whole milliseconds."""


def read_commits(db: Connection, path: Path, parts: str) -> int:
    """Read the commit order, and put keys beside rows of `parts`; return how many transactions' keys have no place.

    Raises UsageError where the file cannot be read.
    """
    try:
        with open_file(path) as file:
            db.execute(COMMITS.format(path=f"/proc/self/fd/{file.fileno()}"))
        db.execute(KEYED_BY_XID.format(parts=parts))
        _place_by_time(db, parts)
    except (OSError, ValueError, bad_input()) as error:
        raise UsageError(f'"{path}", the commit order of the capture, cannot be read') from error
    left = "SELECT count(*) FROM commits WHERE keys IS NOT NULL AND xid NOT IN (SELECT xid FROM keyed_rows)"
    return int(db.execute(left).fetchall()[0][0])


def _place_by_time(db: Connection, parts: str) -> None:
    """Find statements that committed by themselves, among those that insert into a table of one commit's keys."""
    left = db.execute(
        "SELECT moment, xid, keys FROM commits WHERE keys IS NOT NULL AND xid NOT IN (SELECT xid FROM keyed_rows)"
        " ORDER BY moment, xid"
    ).fetchall()
    commits, told = dict[str, list[tuple[int, int]]](), dict[int, str]()
    for at, xid, keys in left:
        tables = {plain_name(table) for table, _ in keys_in(str(keys))}
        told[int(xid)] = str(keys)
        for table in tables:
            commits.setdefault(table, []).append((int(at), int(xid)))
    if not told:
        return
    found, rows = list[TimedInsert](), dict[int, tuple[int, int]]()
    alone = db.cursor().execute(ALONE.format(parts=parts))
    while batch := alone.fetchmany(_BATCH):
        for sid, seq, begin, end, sql in batch:
            inserts = key_text(str(sql)).inserts
            if len(inserts) == 1 and inserts[0].table in commits:
                found.append(TimedInsert(len(rows), inserts[0].table, int(begin), int(end)))
                rows[len(rows)] = (int(sid), int(seq))
    made = [(*rows[place], told[xid], xid) for place, xid in placed(found, commits)]
    if made:
        columns = [list(values) for values in zip(*made, strict=True)]
        db.execute("INSERT INTO keyed_rows SELECT unnest(?), unnest(?), unnest(?), unnest(?)", columns)


class TimedInsert(NamedTuple):
    """A statement that inserts into a table and was its whole transaction; in us since 1970."""

    place: int
    table: str
    begin: int
    end: int


def placed(
    inserts: Sequence[TimedInsert], commits: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[tuple[int, int]]:
    """Give the place of a statement and the number of the commit that is its own; commits by table as (us, number).

    The simple protocol logs such statements without a transaction id: they are found by their time. A commit is a
    statement's where it lies within the statement's time, no other one on the same table does, and no other statement
    on that table has it within its own. Whatever is less certain is left out.
    """
    found = list[tuple[int, int]]()
    for one in inserts:
        ordered = commits.get(one.table, ())
        begin = bisect_left(ordered, (one.begin - SLACK_US, -1))
        end = bisect_right(ordered, (one.end + SLACK_US, 1 << 62))
        found += [(one.place, number) for _, number in ordered[begin:end]]
    places, numbers = Counter(place for place, _ in found), Counter(number for _, number in found)
    yield from ((place, number) for place, number in found if places[place] == numbers[number] == 1)
