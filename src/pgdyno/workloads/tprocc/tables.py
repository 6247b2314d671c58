"""Load the nine tables: COPY with FREEZE by several sessions at a time, each table's indexes after its rows."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import WorkloadError
from pgdyno.target.postgres import Postgres, Query
from pgdyno.units import bytes_text
from pgdyno.workloads.dataset import TOLD_EVERY_PCT, LoadSite, load_error
from pgdyno.workloads.script import fingerprint, packaged_script
from pgdyno.workloads.tprocc.binary_copy import HEADER, TRAILER
from pgdyno.workloads.tprocc.conditions import CONDITIONS, INITIAL, ask
from pgdyno.workloads.tprocc.rows import ROWS

BYTES_PER_WAREHOUSE = 104_000_000
"""Tables and indexes of one warehouse, the 100,000 items aside: measured at 4 warehouses (18.6)."""
MOST_SESSIONS = 4
"""A table can take frozen rows from the session alone that made it, and four tables hold 98 % of the rows."""


@dataclass(frozen=True, slots=True)
class TproccTables:
    """Nine tables of so many warehouses, and the functions that the load calls."""

    warehouses: int

    @property
    def identity(self) -> str:
        """Return the text that determines the data; the functions belong to them."""
        made = [packaged_script(f"tprocc/{name}") for name in ("tables", "indexes", "functions")]
        return f"tprocc warehouses={self.warehouses} version=1 made={fingerprint('tprocc', {}, made)}"

    @property
    def estimated_bytes(self) -> int:
        """Return about how large the tables and their indexes become."""
        return BYTES_PER_WAREHOUSE * self.warehouses

    def load(self, site: LoadSite) -> None:
        """Fill the nine tables, make the functions, and check the first population by conditions 1 to 12.

        A load that was interrupted is dropped and done anew by whoever calls this. Raises WorkloadError where the
        rows do not fulfil their own conditions.
        """
        progress, sessions = _Progress(self.warehouses, site.progress), _Sessions(site.postgres)
        with ThreadPoolExecutor(min(MOST_SESSIONS, 1 + (os.cpu_count() or 1))) as threads:
            # The large ones first: the last one to begin must not be the longest.
            jobs = [threads.submit(self._fill, table, site, sessions, progress) for table in ROWS]
            try:
                for job in as_completed(jobs):
                    job.result()
            except BaseException:
                sessions.end()
                threads.shutdown(cancel_futures=True)
                raise
        _run(site, _raw(packaged_script("tprocc/functions")))
        site.progress("checking the first population: conditions 1 to 12")
        _run(site, sql.SQL("ANALYZE"))
        _require_sound(site)

    def _fill(self, table: str, site: LoadSite, sessions: _Sessions, progress: _Progress) -> None:
        copy_in = sql.SQL("COPY {} FROM STDIN (FORMAT binary, FREEZE)").format(sql.Identifier(table))
        with sessions.one() as connection:
            try:
                connection.execute("SET synchronous_commit = off")
                connection.execute("SET maintenance_work_mem = '256MB'")
                with connection.transaction():
                    connection.execute(_raw(_statements("tables")[table][0]))
                    with connection.cursor().copy(copy_in) as copy:
                        copy.write(HEADER)
                        for rows in ROWS[table](self.warehouses):
                            sessions.require()
                            copy.write(rows)
                            progress.told(len(rows))
                        copy.write(TRAILER)
                for statement in _statements("indexes")[table]:
                    sessions.require()
                    connection.execute(_raw(statement))
            except psycopg.Error as error:
                raise load_error(site, table, error) from error


class _Sessions:
    """The sessions of a load: when one fails, or the user ends it, the others do not finish their tables first."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._open: set[psycopg.Connection[DictRow]] = set()
        self._ended = False
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[psycopg.Connection[DictRow]]:
        """Open a session, which `end` cancels."""
        with self._postgres.connect() as connection:
            with self._lock:
                self._open.add(connection)
            try:
                self.require()
                yield connection
            finally:
                with self._lock:
                    self._open.discard(connection)

    def require(self) -> None:
        """Raise WorkloadError once the load has ended."""
        if self._ended:
            raise WorkloadError("the load was ended", hint="Do it again: what was begun is made anew.")

    def end(self) -> None:
        """Cancel what every session is doing."""
        with self._lock:
            self._ended = True
            for connection in self._open:
                with suppress(psycopg.Error):
                    connection.cancel()


class _Progress:
    """Adds up what the sessions have sent, and tells each quarter."""

    def __init__(self, warehouses: int, report: Callable[[str], None]) -> None:
        self._about = f"loading {warehouses} warehouse{'s' * (warehouses > 1)}"
        self._all = warehouses * _SENT_PER_WAREHOUSE + _SENT_ALWAYS
        self._report = report
        self._sent = self._told = 0
        self._lock = threading.Lock()
        report(f"{self._about}, about {bytes_text(BYTES_PER_WAREHOUSE * warehouses)}")

    def told(self, size: int) -> None:
        """Count what was sent, and say so at each quarter."""
        with self._lock:
            self._sent += size
            percent = min(100, 100 * self._sent // self._all)
            if percent // TOLD_EVERY_PCT > self._told // TOLD_EVERY_PCT:
                self._told = percent
                self._report(f"{self._about}: {percent} %")


_SENT_PER_WAREHOUSE = 98_000_000
_SENT_ALWAYS = 9_000_000
"""About what goes over the wire, in COPY's format."""


def _statements(script: str) -> Mapping[str, tuple[str, ...]]:
    """Return the statements of a script by the table that each one is about."""
    text = re.sub(r"(?m)^--.*\n", "", packaged_script(f"tprocc/{script}"))
    found: dict[str, tuple[str, ...]] = dict.fromkeys(ROWS, ())
    for statement in filter(None, (part.strip() for part in text.split("\n\n"))):
        match = re.match(r"(?:CREATE TABLE|ALTER TABLE|CREATE INDEX \w+ ON) (\w+)", statement)
        assert match is not None, f"{script}.sql has a statement about no table: {statement}"
        found[match[1]] += (statement,)
    return found


def _raw(text: str) -> Query:
    """Return a statement of this package as it is: none holds anything that came from outside."""
    return sql.Composed([sql.SQL(text)])


def _run(site: LoadSite, statement: Query) -> None:
    site.target.postgres.execute(statement, dbname=site.dbname)


def _require_sound(site: LoadSite) -> None:
    with site.postgres.connect() as connection:
        asked = ask(connection, (*CONDITIONS, INITIAL))
    broken = {name: n for condition, counts in asked for name, n in zip(condition.names, counts, strict=True) if n}
    if broken:
        raise WorkloadError(
            f"the loaded data break their conditions: {', '.join(f'{name} {n} times' for name, n in broken.items())}",
            detail="; ".join(condition.meaning for condition, counts in asked if any(counts)),
            hint="This is an error of pgdyno: please report it with the version of the server.",
        )
