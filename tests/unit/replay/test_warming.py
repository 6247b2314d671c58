"""Which relations of a list are read into shared buffers before a run, and what is said where none is."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.replay.warming import warm, warmable
from pgdyno.server.postgres import Postgres
from pgdyno.trace.schema import TRACE_VERSION, CachedRelation, TraceMeta

META = TraceMeta(TRACE_VERSION, "csvlog B", 180000, "1", "2026-01-01T00:00:00Z", 1.0, 1, 1, 1, 0)


def relation(name: str, cached: int, blocks: int) -> CachedRelation:
    return CachedRelation("app", "public", name, cached, blocks)


def test_what_was_cached_most_is_read_first_until_the_buffers_are_full() -> None:
    half, whole, large = relation("half", 50, 100), relation("whole", 60, 60), relation("large", 190, 200)
    listed = (large, half, whole, relation("cold", 49, 100))
    assert warmable(listed, 1000) == (whole, large, half)
    assert warmable(listed, 170) == (whole, half)
    assert warmable(listed, 10) == ()
    assert relation("gone", 5, 0).share == 0.0


def test_a_run_without_a_list_is_cold_and_says_why() -> None:
    nowhere = Postgres("host=/nowhere")  # it is not asked
    assert warm(nowhere, META, {}).endswith("the trace says none")
    told = warm(nowhere, replace(META, cache_unread="no database has pg_buffercache"), {})
    assert told.startswith("cold: ")
    assert told.endswith("no database has pg_buffercache")
