"""Shared buffers of a target filled before a run as the source's were: whole relations, by pg_prewarm.

Which pages of a relation were there is not in the list, only how many: a relation is read where at least half of it
was, those first of which most was, until the target's shared buffers are full.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres, query_error
from pgdyno.trace.schema import CachedRelation, TraceMeta
from pgdyno.units import plural
from pgdyno.workloads.buffer_warmth import PREWARM, stretches

MOST_S = 600.0
"""What is not read by then stays cold."""
_ROOM = "SELECT setting::int8 AS blocks FROM pg_catalog.pg_settings WHERE name = 'shared_buffers'"
_HERE = """
SELECT found::oid::int8 AS oid,
       pg_catalog.pg_relation_size(found) / pg_catalog.current_setting('block_size')::int8 AS blocks
  FROM pg_catalog.to_regclass(pg_catalog.format('%%I.%%I', %s::text, %s::text)) AS found WHERE found IS NOT NULL
"""
_LITTLE = "less than half of it was cached, and which half nobody knows"


def warmable(cached: Sequence[CachedRelation], room: int) -> tuple[CachedRelation, ...]:
    """Return the relations that are read, in their order, until `room` blocks are full."""
    chosen, left = list[CachedRelation](), room
    for one in sorted(cached, key=lambda one: (-one.share, -one.blocks, one.database, one.schema, one.name)):
        if one.share >= 0.5 and one.blocks <= left:
            chosen.append(one)
            left -= one.blocks
    return tuple(chosen)


def warm(
    postgres: Postgres, meta: TraceMeta, databases: Mapping[str, str], *, timer: Callable[[], float] = time.monotonic
) -> str:
    """Read what the source had in shared buffers into those of the target; return what was read, and what was not.

    `postgres` is the target, and `meta` lists what the source had cached. `databases` maps names of the source to those
    here; one that is not in it keeps its name. `timer` is a clock in seconds: reading stops MOST_S after the start. It
    changes nothing on the disk, and a server that refuses ends nothing.
    """
    if meta.cache_unread and not meta.cached:
        return f"cold: which pages the source had in memory is not known, {meta.cache_unread}"
    if not meta.cached:
        return "cold: the trace names no table or index of which the source had pages in memory"
    rooms = postgres.fetch(_ROOM)
    room, until = int(str(rooms[0]["blocks"])) if rooms else 0, timer() + MOST_S
    chosen, cold = warmable(meta.cached, room), Counter[str]()
    done = read = 0
    cold[_LITTLE] = sum(one.share < 0.5 for one in meta.cached)
    cold["shared buffers are full"] = len(meta.cached) - len(chosen) - cold[_LITTLE]
    for database in dict.fromkeys(one.database for one in chosen):
        own, name = [one for one in chosen if one.database == database], databases.get(database, database)
        why = ""
        try:
            with postgres.connect(name) as session:
                schema = schema_of(session, "pg_prewarm")
                if schema is None:
                    why = f'pg_prewarm is not installed in database "{name}"'
                while schema is not None and own:
                    if timer() > until:
                        why = f"reading took longer than {MOST_S:g} s"
                        break
                    blocks = _read(session, schema, own[0], room, lambda: timer() > until)
                    done, read = done + (blocks or 0), read + (blocks is not None)
                    cold["not there"] += blocks is None
                    del own[0]
        except psycopg.Error as error:
            why = query_error(postgres.label, error).one_line
        except PgdynoError as error:
            why = error.one_line
        cold[why] += len(own)
    rest = "; ".join(f"{plural(count, 'relation')} not: {why}" for why, count in cold.items() if count)
    told = f"warmed by pg_prewarm as the source's were, {plural(read, 'relation')} of {plural(done, 'block')}"
    return "; ".join(filter(None, (told if read else "cold", rest)))


def _read(
    session: psycopg.Connection[dict[str, object]], schema: str, one: CachedRelation, room: int,
    is_late: Callable[[], bool],
) -> int | None:  # fmt: skip
    """Read a relation and return its blocks; None where it is not there."""
    row = session.execute(_HERE, [one.schema, one.name]).fetchone()
    if row is None:
        return None
    call = sql.SQL(PREWARM).format(sql.Identifier(schema, "pg_prewarm"))
    done = 0
    for stretch in stretches([(int(str(row["oid"])), int(str(row["blocks"])))], room):
        if is_late():
            break
        done += int(str((session.execute(call, [stretch.oid, stretch.first, stretch.last]).fetchone() or {})["blocks"]))
    return done
