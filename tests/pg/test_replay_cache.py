"""What a source has in shared buffers, as a capture reads it and a replay brings it back, on a real server."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from pgdyno.replay.warming import warm
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.capture.cached import read_cached
from pgdyno.trace.schema import TRACE_VERSION, TraceMeta


def test_relations_in_shared_buffers_are_listed_and_read_again(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("embedded-18")
    sandbox.start()
    postgres = sandbox.target().postgres
    assert read_cached(postgres, ["postgres"]) == ((), "no database has pg_buffercache")
    for statement in (
        "CREATE TABLE public.\"Or ders\" AS SELECT n, repeat('x', 500) AS text FROM generate_series(1, 2000) AS n",
        "CREATE EXTENSION pg_buffercache WITH SCHEMA public",
    ):
        postgres.execute(statement, dbname="postgres")
    cached, why = read_cached(postgres, ["postgres"])
    assert why == ""
    mine = next(one for one in cached if one.name == "Or ders")
    assert (mine.database, mine.schema, mine.share) == ("postgres", "public", 1.0)
    meta = TraceMeta(TRACE_VERSION, "csvlog B", 180000, "1", "2026-01-01T00:00:00Z", 1.0, 1, 1, 1, 0, cached=(mine,))
    sandbox.stop()
    sandbox.start()
    assert "1 relation not: pg_prewarm is not installed in database" in warm(postgres, meta, {})
    assert all(one.name != mine.name for one in read_cached(postgres, ["postgres"])[0])
    postgres.execute("CREATE EXTENSION pg_prewarm WITH SCHEMA public", dbname="postgres")
    for given in ("oid, text, text, int8, int8", "oid, text, text, int2, int2", "int8, text, text, int8, int8"):
        postgres.execute(
            sql.SQL(
                "CREATE FUNCTION public.pg_prewarm({}) RETURNS int8 LANGUAGE plpgsql AS $$BEGIN RAISE 'a trap'; END$$"
            ).format(sql.SQL(given)),
            dbname="postgres",
        )
    told = warm(postgres, meta, {})
    assert told == f"warmed by pg_prewarm as the source's were, 1 relation of {mine.blocks:,} blocks"
    again = next(one for one in read_cached(postgres, ["postgres"])[0] if one.name == mine.name)
    assert again.cached == mine.cached
    postgres.execute('DROP TABLE public."Or ders"', dbname="postgres")
    assert warm(postgres, meta, {}) == "cold; 1 relation not: not there"
