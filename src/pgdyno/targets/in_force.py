"""Read what the server and the kernel say of a configuration that was applied, and have it judged.

`pg_settings` tells what was read; whether it works is seen elsewhere: huge pages in /proc/PID/status, I/O workers in
`pg_stat_activity`, io_urings among the postmaster's open files, overrides on its command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.routes.route import FILES
from pgdyno.server import effectiveness
from pgdyno.server.effectiveness import Observed
from pgdyno.server.postgres import query_errors
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target

_WORKERS = """
SELECT count(*) FILTER (WHERE backend_type = 'io worker') AS workers, bool_or(backend_type IS NULL) AS hidden
  FROM pg_catalog.pg_stat_activity
"""
_WORKER_TRIES = 20
_WORKER_PAUSE_S = 0.1


def shortfalls(
    target: Target,
    connection: psycopg.Connection[DictRow],
    configuration: Configuration,
    settings: Mapping[str, SettingState],
    source: Path | None,
    *,
    accepted: frozenset[str] = FILES,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Return a sentence for each knob that is not in force; see `effectiveness.shortfalls`. No effect on the server.

    `configuration` has the PostgreSQL settings that were applied to `target`. `settings` are by name those of
    `connection`, a session that was opened after the change. What was applied has to come from the file `source`, None
    where no single one is known, and to have one of the `accepted` values of `pg_settings.source`. `sleep` waits, in
    seconds, for I/O workers, which come up shortly after a start.
    """
    pid = target.cpu.postmaster()
    observed = Observed(
        role=connection.info.user,
        database=connection.info.dbname,
        arguments=arguments_of(pid) if pid is not None else (),
        huge_pages=processes.huge_pages_mapped(pid) if pid is not None and "huge_pages" in configuration else None,
        io_workers=_io_workers(target, connection, configuration, sleep) if "io_method" in configuration else None,
        accepted=accepted,
        io_rings=io_rings(pid) if pid is not None and "io_method" in configuration else None,
    )
    return effectiveness.shortfalls(configuration, settings, source, observed)


def arguments_of(pid: int, proc: Path = processes.PROC) -> tuple[str, ...]:
    """Return the words of a process's command line; empty when it is gone."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ()
    return tuple(word.decode(errors="replace") for word in words if word)


def io_rings(pid: int, proc: Path = processes.PROC) -> int | None:
    """Return how many io_urings a process has open; None when its files are hidden from this user."""
    try:
        return sum(_is_ring(file) for file in (proc / str(pid) / "fd").iterdir())
    except OSError:
        return None


def _is_ring(file: Path) -> bool:
    try:
        return str(file.readlink()) == "anon_inode:[io_uring]"
    except FileNotFoundError:  # closed meanwhile
        return False


def _io_workers(
    target: Target,
    connection: psycopg.Connection[DictRow],
    configuration: Configuration,
    sleep: Callable[[float], None],
) -> int | None:
    """Return the number of I/O workers; None when the role does not see them. They come up shortly after a start."""
    for attempt in range(_WORKER_TRIES):
        with query_errors(target.postgres.label):
            row = connection.execute(_WORKERS).fetchone()
        assert row is not None, "an aggregate has one row"
        if row["workers"] or configuration["io_method"] != "worker" or attempt == _WORKER_TRIES - 1:
            return None if row["hidden"] and not row["workers"] else int(row["workers"])
        sleep(_WORKER_PAUSE_S)
    return None
