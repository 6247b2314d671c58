"""The map of generated keys: which answer of a replay brings which captured key, and which statements name it later.

What is known of the keys is in the trace (`trace.keys`); the two sides meet by database, table, column and value in
files, so that memory does not grow with the load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.trace.engine.keys import KeyPlace
from pgdyno.trace.keys.matching import KeyColumn, KeyedRow, KeyNames, MadeKey, keys_in, made_keys, root_of
from pgdyno.trace.keys.mentions import Mention, Within, key_text
from pgdyno.trace.parquet import fetched, write_rows
from pgdyno.trace.schema import TraceColumn, TraceMeta

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

EXTENDED = "constants in statements of the extended protocol"
_LEFT = {-1: Within.ARRAY.value, -2: Within.EXPRESSION.value, -3: EXTENDED}
"""Places that stay as captured, by the number that stands for a `KeyPlace`."""
_PLACE_OF = {why: place for place, why in _LEFT.items()}
_MOST_ELEMENTS = 1_000
"""Of an array: those behind are not counted."""
UNREAD = "statements that are too long to be read for keys, or do not parse"
_MADE = tuple(
    TraceColumn(name, "VARCHAR" if name in ("database", "table", "column", "value") else "INTEGER", "of `MadeKey`")
    for name in MadeKey._fields
)
_NAMED = (
    TraceColumn("session", "INTEGER", "who names a key"),
    TraceColumn("seq", "INTEGER", "in which statement"),
    TraceColumn("database", "VARCHAR", "of the session"),
    TraceColumn("table", "VARCHAR", "that the key was made for"),
    TraceColumn("column", "VARCHAR", "likewise"),
    TraceColumn("value", "VARCHAR", "as captured"),
    TraceColumn("place", "INTEGER", "`engine.keys.KeyPlace`"),
    TraceColumn("at", "INTEGER", "number of the parameter, from 1, or first byte of the constant in the text"),
)
_WITH_KEYS = """
SELECT session, seq, tx, "database", sql, sqlstate IS NOT NULL, keys FROM {source}
WHERE kind IN ('simple', 'extended') AND sql IS NOT NULL AND refused IS NULL
  AND (session, tx) IN (SELECT (session, tx) FROM {source} WHERE keys IS NOT NULL) ORDER BY session, seq
"""
_MAP = (
    "CREATE TABLE used AS SELECT made.*, row_number() OVER () - 1 AS number FROM made WHERE field >= 0 AND EXISTS"
    ' (FROM named WHERE named.place >= 0 AND named.database = made.database AND named."table" = made."table"'
    ' AND named."column" = made."column" AND named.value = made.value)',
    "CREATE TABLE learns AS SELECT session, seq, list([number, row, field] ORDER BY row, field, number) AS learns"
    " FROM used GROUP BY session, seq",
    """CREATE TABLE names AS SELECT session, seq, list([number, place, "at", size] ORDER BY "at") AS names FROM (
    SELECT named.session, named.seq, min(number) AS number, any_value(place) AS place, named."at",
      any_value(strlen(named.value)) AS size
    FROM named JOIN used USING (database, "table", "column", value)
    WHERE place >= 0 AND (named.session <> used.session OR named.seq <> used.seq)
    GROUP BY named.session, named.seq, named."at") GROUP BY session, seq""",
    # a sequence gives out whole numbers; of an INSERT of several rows the first of them counts
    """CREATE TABLE turns AS SELECT session, seq, turn, before_session, before_seq FROM (
    SELECT *, row_number() OVER (whole) AS turn, lag(session) OVER (whole) AS before_session,
      lag(seq) OVER (whole) AS before_seq
    FROM (
      SELECT session, seq, database, "table", "column", min(TRY_CAST(value AS BIGINT)) AS value FROM made GROUP BY ALL
    ) WHERE value IS NOT NULL WINDOW whole AS (PARTITION BY database, "table", "column" ORDER BY value, session, seq)
  ) QUALIFY row_number() OVER (PARTITION BY session, seq ORDER BY "table", "column") = 1""",
)  # fmt: skip

_STAYING = """
SELECT place, count(*) FROM named SEMI JOIN (FROM made WHERE field >= 0) USING (database, "table", "column", value)
WHERE place < 0 GROUP BY place ORDER BY place DESC"""


@dataclass(frozen=True, slots=True)
class MappedKeys:
    """What a tape has of generated keys."""

    captured: int = 0
    """Keys that the capture has of the transactions on the tape."""
    without: Mapping[str, int] = field(default_factory=dict)
    """Those that no answer brings back, by reason."""
    named: int = 0
    """Places of statements that name one of the others."""
    left: Mapping[str, int] = field(default_factory=dict)
    """What may name keys and stays as captured, by reason."""


def map_keys(source: str, meta: TraceMeta, folder: Path, db: Connection) -> MappedKeys:
    """Make the tables `learns` and `names` of a trace: session, seq, and lists of what an engine needs to know.

    A third one, `turns`, has of each INSERT its place among those of its table by their keys, and the one before it.
    Nothing is made where the trace has no keys. `source` is the trace as FROM takes it, and `meta` its facts, among
    them tables with keys and the foreign keys to them. `db` gets the tables, `folder` holds scratch files.
    """
    if not db.execute(f"SELECT count(*) FROM {source} WHERE keys IS NOT NULL").fetchall()[0][0]:
        return MappedKeys()
    names, without = KeyNames(meta.key_tables, meta.key_links), Counter[str]()
    roots, counted, left = names.roots(), Counter[str](), Counter[str]()
    write_rows(folder / "made.parquet", _MADE, _made(source, names, db, without, counted))
    write_rows(folder / "named.parquet", _NAMED, _named(source, names, roots, db, left))
    for name in ("made", "named"):
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder / name}.parquet')")
    for command in _MAP:
        db.execute(command)
    for place, count in db.execute(_STAYING).fetchall():
        left[_LEFT[place]] += int(count)
    (places,) = db.execute("SELECT coalesce(sum(len(names)), 0) FROM names").fetchall()[0]
    return MappedKeys(counted["made"] + sum(without.values()), dict(without), int(places), dict(left))


def _made(
    source: str, names: KeyNames, db: Connection, without: Counter[str], counted: Counter[str]
) -> Iterator[MadeKey]:
    rows = map(KeyedRow._make, fetched(db, _WITH_KEYS.format(source=source)))
    for _, group in groupby(rows, key=lambda row: (row.session, row.tx)):
        transaction = list(group)
        for told in filter(None, (row.keys for row in transaction)):
            for key in made_keys(transaction, keys_in(told), names, without):
                counted["made"] += key.field >= 0
                yield key


def _named(
    source: str, names: KeyNames, roots: Mapping[KeyColumn, KeyColumn], db: Connection, left: Counter[str]
) -> Iterator[tuple[int, int, str, str, str, str, int, int]]:
    """Give each place of a statement that may name a key; `left` counts statements that are not read for them."""
    words = sorted({word.lower() for pair in roots for word in pair})  # an INSERT may name the table alone
    has_any = " OR ".join("contains(lower(sql), ?)" for _ in words) or "false"
    query = (
        f'SELECT session, seq, "database", kind, sql, params FROM {source}'
        f" WHERE kind IN ('simple', 'extended') AND refused IS NULL AND ({has_any})"
    )
    for session, seq, database, kind, sql, params in fetched(db, query, words):
        text = key_text(sql, names.columns)
        left[UNREAD] += text.is_unread
        for one in text.mentions:
            root = root_of(one, roots)
            if root is None:
                continue
            if one.within is not None:
                for element in elements(one, params):
                    yield session, seq, database, *root, element, _PLACE_OF[one.within.value], 0
                continue
            value: str | None = one.constant
            if one.parameter is None:
                at = one.at
                place = KeyPlace.NUMBER if one.is_number else KeyPlace.QUOTED
            else:
                value = _bound(params, one.parameter)
                place, at = KeyPlace.BOUND, one.parameter
            if value is not None and (kind == "extended") == (place is KeyPlace.BOUND):
                yield session, seq, database, *root, value, int(place), at
            elif value is not None and kind == "extended":
                yield session, seq, database, *root, value, _PLACE_OF[EXTENDED], at


def elements(mention: Mention, params: Sequence[str | None] | None) -> list[str]:
    """Return the values of a parameter or constant that is in an array or an expression, or an array itself."""
    value = mention.constant if mention.parameter is None else _bound(params, mention.parameter)
    if value is None:
        return []
    if value.startswith("{") and value.endswith("}"):
        return [one.strip().strip('"') for one in value[1:-1].split(",", _MOST_ELEMENTS)[:_MOST_ELEMENTS]]
    return [value]


def _bound(params: Sequence[str | None] | None, number: int) -> str | None:
    """Return the value of a parameter, from 1; none is called $0, though a text may say so."""
    return params[number - 1] if params and 0 < number <= len(params) else None
