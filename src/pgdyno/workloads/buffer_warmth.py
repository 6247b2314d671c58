"""Reading a load's data into shared buffers after a restart, so that large ones are not measured cold.

A restart empties shared buffers. The larger they are, the longer a load takes to fill them, at the pace of its own
scattered reads: a window that begins meanwhile counts against the very setting that it should judge. Every arm of a
study is warmed in the same way, as far as its own buffers go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdyno.model.facts import Facts
from pgdyno.server.own_databases import DatabaseState, look_into
from pgdyno.server.postgres import query_error
from pgdyno.targets.target import Target
from pgdyno.workloads.page_cache import fits

STRETCH = 8192
"""Blocks that one statement reads (64 MB); between two of them the clock is looked at, and Ctrl-C is heard."""
MOST_S = 60.0
"""What is not warm by then is left to the warm-up of the load."""
PREWARM: LiteralString = """
SELECT {}(%s::pg_catalog.oid::pg_catalog.regclass, 'buffer'::pg_catalog.text, 'main'::pg_catalog.text,
          %s::pg_catalog.int8, %s::pg_catalog.int8) AS blocks
"""
"""Of the very types of the extension's own: else another function of this name in its schema could fit better."""
_EXTENSION = "CREATE EXTENSION IF NOT EXISTS pg_prewarm SCHEMA pgdyno_workload"
_SCHEMA = """
SELECT n.nspname AS name FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'pg_prewarm'
"""
_ROOM = """
SELECT setting::bigint AS blocks, current_setting('block_size')::bigint AS block
FROM pg_settings WHERE name = 'shared_buffers'
"""
# Indexes first: each row that is read goes through them.
_RELATIONS = """
SELECT oid::bigint AS oid, pg_relation_size(oid) / current_setting('block_size')::bigint AS blocks
FROM pg_class
WHERE oid >= 16384 AND relkind IN ('r', 'i', 't', 'm') AND pg_relation_size(oid) > 0
ORDER BY relkind <> 'i', oid
"""


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks `first` to `last` of a relation, both included."""

    oid: int
    first: int
    last: int


def warm_buffers(
    target: Target, dbname: str, facts: Facts, *, timer: Callable[[], float] = time.monotonic
) -> tuple[int, str | None]:
    """Read tables and indexes of a load's database into shared buffers; return the bytes, and why not, else None.

    By pg_prewarm, which is made in that database, one of ours: it needs a superuser and PostgreSQL's contrib modules.
    0 without a reason where the data do not fit into the server's memory, or that is not known: they would come from
    the disk each time. A server that refuses ends nothing. Raises ConnectError.

    `dbname` is the load's database on `target`. `facts` give the memory of the host in bytes, `timer` seconds: reading
    ends after MOST_S of them.
    """
    postgres = target.postgres
    if look_into(postgres, dbname).state is not DatabaseState.COMPLETE:
        return 0, None
    done, block, until = 0, 0, timer() + MOST_S
    try:
        with postgres.connect(dbname) as session:
            relations = [(int(row["oid"]), int(row["blocks"])) for row in session.execute(_RELATIONS)]
            room = session.execute(_ROOM).fetchone()
            if room is None:
                return 0, None
            block = int(room["block"])
            if not fits(block * sum(blocks for _, blocks in relations), facts.host.memory_limit_bytes):
                return 0, None
            session.execute(_EXTENSION)
            schema = session.execute(_SCHEMA).fetchone()
            assert schema is not None, "it has just been made"
            prewarm = sql.Identifier(str(schema["name"]), "pg_prewarm")
            call = sql.SQL(PREWARM).format(prewarm)
            for stretch in stretches(relations, int(room["blocks"])):
                row = session.execute(call, [stretch.oid, stretch.first, stretch.last]).fetchone()
                done += int((row or {}).get("blocks", 0))
                if timer() > until:
                    break
    except psycopg.Error as error:
        return done * block, query_error(postgres.label, error).message
    return done * block, None


def stretches(relations: Sequence[tuple[int, int]], room: int) -> Iterator[BlockRange]:
    """Yield the parts to be read of relations given as oid and blocks, until `room` blocks are full."""
    for oid, blocks in relations:
        for first in range(0, min(blocks, room), STRETCH):
            last = min(first + STRETCH, blocks, room) - 1
            yield BlockRange(oid, first, last)
        room -= min(blocks, room)
