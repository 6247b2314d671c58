"""The rows of a table as COPY sends them: that plans nothing, and so runs no function of whoever owns the table.

It costs more: the rows come over the network, and are hashed here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from psycopg import sql

from pgdyno.contents.tables import AskRows, ReadsSnapshot, StoredTable

_GENERATED = """
SELECT attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = %s AND relname = %s AND attgenerated <> '' AND NOT attisdropped
"""
_DIGEST_BYTES = 16


def generated_columns(rows: AskRows, table: StoredTable) -> frozenset[str]:
    """Return the columns that follow from others, which COPY leaves out."""
    return frozenset(str(name) for (name,) in rows(_GENERATED, [table.schema, table.name]))


def copied_rows(rows: ReadsSnapshot, table: StoredTable, columns: Sequence[str]) -> tuple[int, int]:
    """Return how many rows a table has, and the sum of their hashes: the same for the same rows in any order."""
    names = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, columns))) if columns else sql.SQL("")
    query = sql.SQL("COPY {}{} TO STDOUT").format(sql.Identifier(table.schema, table.name), names)
    count = total = 0
    for row in rows.copied(query):
        count += 1
        total += int.from_bytes(hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest())
    return count, total % (1 << 8 * _DIGEST_BYTES)
