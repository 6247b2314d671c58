"""The expected outage of real servers of every build: it follows the dirty buffers, and says when it cannot."""

from __future__ import annotations

import time

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Unknown
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.outage import FEWEST_BUFFERS, read, read_outage
from pgdyno.server.postgres import Postgres

pytestmark = pytest.mark.pg


def test_dirty_buffers_are_counted_and_checkpoints_give_the_rate(any_postgres: Sandbox) -> None:
    postgres = _with_buffercache(any_postgres)
    try:
        postgres.execute("CREATE TABLE public.dirt AS SELECT repeat('x', 900) AS t FROM generate_series(1, 12000)")
        postgres.execute("CHECKPOINT")
        before = read(postgres)
        _until_reported(postgres)
        postgres.execute("UPDATE public.dirt SET t = repeat('y', 900)")
        after = read(postgres)
        assert isinstance(before.dirty, int)
        assert isinstance(after.dirty, int)
        assert after.dirty > before.dirty + 1_000 * after.block_size
        assert 0 < after.dirty <= after.shared_buffers
        assert after.buffers_written >= FEWEST_BUFFERS
        assert "at most" in str(read_outage(postgres))
    finally:
        postgres.execute("DROP TABLE IF EXISTS public.dirt")
        postgres.execute("DROP EXTENSION pg_buffercache")
    assert isinstance(read(postgres).dirty, Unknown)
    postgres.execute("CHECKPOINT")
    told = str(read_outage(postgres))
    assert told.startswith("about "), "the WAL since the last checkpoint tells more than the size of shared_buffers"
    assert "how much is dirty now is unknown: no pg_buffercache here" in told


def test_less_than_the_wal_tells_is_never_taken_for_what_is_dirty(any_postgres: Sandbox) -> None:
    """Where both can be read, what is expected without pg_buffercache is no less than what that counts."""
    postgres = _with_buffercache(any_postgres)
    try:
        postgres.execute("CREATE TABLE public.dirt AS SELECT i, repeat('x', 90) AS t FROM generate_series(1, 50000) i")
        postgres.execute("CHECKPOINT")
        postgres.execute("UPDATE public.dirt SET t = repeat('y', 90) WHERE i % 40 = 0")
        dirty = read(postgres).dirty
        postgres.execute("DROP EXTENSION pg_buffercache")
        blind = read(postgres)
        assert isinstance(dirty, int)
        assert blind.touched is not None
        assert blind.touched >= dirty
    finally:
        postgres.execute("DROP TABLE IF EXISTS public.dirt")
        postgres.execute("DROP EXTENSION IF EXISTS pg_buffercache")


def _with_buffercache(sandbox: Sandbox) -> Postgres:
    postgres = sandbox.target().postgres
    try:
        postgres.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache SCHEMA public")
    except EnvironmentUnsuitable as error:
        pytest.skip(f"this build has no pg_buffercache: {error.message}")
    return postgres


def _until_reported(postgres: Postgres, tries: int = 1200) -> None:
    """Wait for the statistics, which PostgreSQL before 15 collects in a process of its own, by messages."""
    for _ in range(tries):
        if read(postgres).buffers_written >= FEWEST_BUFFERS:
            return
        time.sleep(0.05)
    pytest.fail("the checkpoint was not reported")


def test_a_server_that_does_not_answer_is_unknown() -> None:
    assert isinstance(read_outage(Postgres("host=127.0.0.1 port=1")).seconds, Unknown)
