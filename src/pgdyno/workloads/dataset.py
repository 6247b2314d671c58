"""The data of a workload: what fills a template database. Three kinds: pgbench's tables, YBIO's table, a user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg

from pgdyno.errors import WorkloadError
from pgdyno.model.loading import LoadedShare
from pgdyno.owner.temporary import temporary
from pgdyno.server.postgres import Postgres, query_error
from pgdyno.targets.accounts import load_account
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text
from pgdyno.workloads.driver_process import DriverProcess
from pgdyno.workloads.pgbench.command import Pgbench, init_argv
from pgdyno.workloads.pgbench.progress import first_reason, loaded_percent

BYTES_PER_SCALE = 15_600_000
"""Tables and index of pgbench per unit of scale, fillfactor 100: 149.5 MiB measured at scale 10 (18.6)."""


@dataclass(frozen=True, slots=True)
class LoadSite:
    """Where data are loaded: an empty database of ours, the programs to load with, and whom to tell."""

    target: Target
    pgbench: Pgbench
    dbname: str
    progress: Callable[[str], None]

    @property
    def postgres(self) -> Postgres:
        """Return the server, with the database to be filled."""
        return self.target.postgres.for_load(self.dbname)


class DataSet(Protocol):
    """Data that are made from parameters alone, so that the same identity means the same data."""

    @property
    def identity(self) -> str:
        """Return the text that determines the data; two workloads of the same identity share a template."""

    @property
    def estimated_bytes(self) -> int | None:
        """Return about how large tables and indexes become, None where only their maker knows."""

    @property
    def analysed(self) -> bool:
        """Return True where `load` leaves every table vacuumed and analysed, so that nobody need do it again."""

    def load(self, site: LoadSite) -> None:
        """Fill the database. Raises WorkloadError. An interruption may leave it half full: it is dropped later."""


@dataclass(frozen=True, slots=True)
class PgbenchTables:
    """The four tables of `pgbench -i`: 100,000 accounts, 10 tellers and 1 branch for each unit of scale."""

    scale: int
    fillfactor: int = 100

    @property
    def identity(self) -> str:
        """Return the text that determines the data."""
        return f"pgbench scale={self.scale} fillfactor={self.fillfactor}"

    @property
    def estimated_bytes(self) -> int:
        """Return about how large the tables and their indexes become."""
        return round(self.scale * BYTES_PER_SCALE * 100 / self.fillfactor)

    @property
    def analysed(self) -> bool:
        """Return False: pgbench is told to leave that to whoever asked for the tables."""
        return False

    def load(self, site: LoadSite) -> None:
        """Run `pgbench -i` and report its percentage."""
        about = f"loading pgbench tables of scale {self.scale}, about {bytes_text(self.estimated_bytes)}"
        argv = init_argv(site.pgbench, scale=self.scale, fillfactor=self.fillfactor, dbname=site.dbname)
        account = load_account(site.target)
        with temporary("load") as directory:
            errors = directory / "stderr"
            process = DriverProcess.start(
                argv,
                environment=site.target.postgres.environment(site.dbname, whole=account is not None),
                directory=directory,
                stdout=directory / "stdout",
                stderr=errors,
                account=account,
            )
            _watch(process, errors, lambda percent: site.progress(LoadedShare(about, percent)))


def load_error(site: LoadSite, table: str, error: psycopg.Error) -> WorkloadError:
    """Return what to say of a table that could not be loaded, a full disk most of all."""
    return WorkloadError(
        f'table "{table}" could not be loaded',
        detail=str(query_error(site.target.postgres.label, error)),
        hint="Look for free space where the data directory and its WAL are, and read the end of the server's log. "
        "The next run drops what was loaded and starts over.",
    )


def _watch(process: DriverProcess, errors: Path, report: Callable[[int], None]) -> None:
    """Wait for `pgbench -i`, telling its percentage when it changes; end it on any exception (Ctrl-C)."""
    told = 0
    try:
        while process.wait(0.25) is None:
            percent = loaded_percent(errors.read_text(errors="replace"))
            if percent is not None and percent > told:
                told = percent
                report(percent)
    finally:
        process.terminate()
    if process.exit_code != 0:
        text = errors.read_text(errors="replace")
        raise WorkloadError(
            "pgbench -i failed: the data could not be loaded",
            detail=first_reason(text) or text.strip()[-500:],
            hint="Read the end of the server's log, and look for free space where its data directory is.",
        )
