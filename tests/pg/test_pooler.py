"""A server behind PgBouncer in transaction mode: its load comes through it, pgdyno goes to the server itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import one_build
from live_driver import short_study
from live_load import ROLE, planted_load
from pgdyno.errors import ExitCode
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pooler import running_pooler
from server_image import files_of, settings_of
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
SHORT = (4.0, 8.0, 12.0)
"""Calls of three clients that two sessions have time for."""


@pytest.mark.slow
@pytest.mark.parametrize("any_postgres", one_build("npm-13"), indirect=True)
def test_a_load_of_prepared_statements_through_a_pooler_comes_to_a_verdict(
    any_postgres: Sandbox, pgdyno_home: Path
) -> None:
    """Three clients share two sessions of the server, which have prepared the statements of all of them."""
    target = any_postgres.target()
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    with planted_load(
        target.postgres, {"64MB": 0.4}, ms=SHORT, through=lambda first: running_pooler(any_postgres, ROLE, first=first)
    ):
        told = short_study(target, {"work_mem": "64MB"}, resolved=True)
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    assert told.switch is not None
    assert told.switch.verdict is not None
    assert told.switch.verdict.word is Word.BETTER
    assert told.switch.verdict.interval.lo < 0.5
    assert told.exit_code is ExitCode.OK, told.switch.against
    assert {one.role for one in told.switch.statements if one.state == "watched"} == {ROLE}
    assert len([one for one in told.switch.statements if one.state == "watched"]) == 3


@pytest.mark.parametrize("any_postgres", one_build("npm-13"), indirect=True)
@pytest.mark.parametrize(
    "words",
    [
        ("live", "--watch-only", "--reference", "1min"),
        ("live", "--b", "work_mem=64MB", "--approve", "auto"),
        ("watch", "--for", "1min"),
        ("advise",),
    ],
    ids=["watch-only", "live", "watch", "advise"],
)
def test_a_pooler_as_the_target_is_refused(any_postgres: Sandbox, pgdyno_home: Path, words: tuple[str, ...]) -> None:
    """What we set for our sessions would stay in those that it gives to applications."""
    with running_pooler(any_postgres, "postgres") as way:
        done = run_pgdyno(*words, "--target", make_conninfo(way, user="postgres"), PGDYNO_HOME=str(pgdyno_home))
    assert done.returncode == ExitCode.UNSUITABLE, done.stderr
    assert "is a connection pooler, not the server itself" in done.stderr
    assert "Name the server's own host and port in --target. The load may go through the pooler." in done.stderr
    assert "Traceback" not in done.stderr
