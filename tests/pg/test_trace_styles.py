"""One load on a real server, logged in every way at once: all logs give the statements that the client sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from fix_postgres import find_build
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.parquet import read_rows
from trace_load import Sent, run_load

pytestmark = pytest.mark.pg
PREFIX = "%m [%p] %c:%l %q%u@%d %a %v %x %e "
COLUMNS = ("session", "seq", "application", "kind", "sql", "params", "statement", "sqlstate")


def sent_words(sent: list[Sent]) -> list[tuple[Any, ...]]:
    """Return what a trace has of statements; values of what fails at its parse reach no log."""
    return [
        (
            one.session,
            "parse" if one.is_parse else "simple" if one.name is None else "extended",
            one.sql,
            None if one.name == "" and one.sqlstate == "42P01" else one.params,
            one.name,
            one.sqlstate,
        )
        for one in sent
    ]


@pytest.mark.parametrize("build", ["embedded-18", "npm-13"])
def test_every_style_gives_what_was_sent(make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str) -> None:
    sandbox = make_sandbox(f"styles-{build}", bin_dir=find_build(build))
    sandbox.start()
    postgres = sandbox.target().postgres
    formats = ("csv", "json", "log") if build.endswith("18") else ("csv", "log")
    settings = {
        "logging_collector": "on", "log_directory": "log", "log_filename": "load.log", "log_line_prefix": PREFIX,
        "log_destination": ",".join({"csv": "csvlog", "json": "jsonlog", "log": "stderr"}[one] for one in formats),
        "log_min_duration_statement": "0", "log_parameter_max_length_on_error": "-1", "log_timezone": "UTC",
        "log_connections": "on", "log_disconnections": "on", "log_statement": "none",
    }  # fmt: skip
    for name, value in settings.items():
        postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    sandbox.stop()
    sandbox.start()
    sent = run_load(postgres.conninfo, rounds=1)
    postgres.execute("ALTER SYSTEM SET log_statement = 'all'")
    postgres.execute("SELECT pg_reload_conf()")
    while postgres.fetch("SHOW log_statement")[0]["log_statement"] != "all":
        pass
    sent += run_load(postgres.conninfo, rounds=1)
    sandbox.stop()

    names = {one.session for one in sent}
    for ending in formats:
        out = tmp_path / f"{ending}.parquet"
        log = sandbox.data_directory / "log" / f"load.{ending}"
        meta = build_trace([log], out, BuildOptions(prefix=PREFIX if ending == "log" else None))
        rows = [row for row in read_rows(out, COLUMNS) if row[2] in names and row[3] not in ("connect", "disconnect")]
        rows.sort(key=lambda row: row[:2])
        assert [row[2:] for row in rows] == sent_words(sent), ending
        assert (meta.lost.truncated, meta.lost.unreadable, meta.lost.gaps, meta.lost.without_params) == (0, 0, 0, 0)
        assert list(meta.refused) == ["pgdyno's own session"]
