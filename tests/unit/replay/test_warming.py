"""Which relations of a list are read into shared buffers before a run, and what is said where none is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

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
    assert warm(nowhere, META, {}).endswith("names no table or index of which the source had pages in memory")
    told = warm(nowhere, replace(META, cache_unread="no database has pg_buffercache"), {})
    assert told.startswith("cold: ")
    assert told.endswith("no database has pg_buffercache")


class Session:
    """A session of a server with every relation of a list, each of ten blocks; `asked` keeps what is run."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: object, params: object = None) -> Session:
        self.asked.append(query if isinstance(query, str) else query.as_string(None))  # type: ignore[attr-defined]
        return self

    def fetchone(self) -> dict[str, object]:
        return {"schema": "public", "oid": 16400, "blocks": 10}


def test_what_there_was_no_time_for_is_not_called_read() -> None:
    asked = list[str]()
    server = SimpleNamespace(fetch=lambda _: [{"blocks": 1000}], connect=lambda _: Session(asked), label="here")
    cached = tuple(relation(name, 10, 10) for name in ("first", "second", "third"))
    moments = iter([0.0, 1.0, 1.0, 601.0, 601.0, 601.0, 601.0])
    told = warm(server, replace(META, cached=cached), {}, timer=lambda: next(moments))  # type: ignore[arg-type]
    assert told.startswith("warmed by pg_prewarm as the source's were, 1 relation of 10 blocks")
    assert told.endswith("2 relations not: reading took longer than 600 s")
    (call,) = [one for one in asked if "pg_prewarm" in one and "AS blocks" in one]
    assert "pg_catalog.regclass" in call, "a function of a user's with this name must not fit better"
