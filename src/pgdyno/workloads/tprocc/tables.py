"""Load the nine tables: COPY with FREEZE by several sessions at a time, each table's indexes after its rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import WorkloadError
from pgdyno.model.loading import LoadedShare
from pgdyno.server.postgres import Postgres, Query, query_errors
from pgdyno.units import bytes_text
from pgdyno.workloads.dataset import LoadSite, load_error
from pgdyno.workloads.script import fingerprint, packaged_script
from pgdyno.workloads.tprocc.binary_copy import HEADER, TRAILER
from pgdyno.workloads.tprocc.conditions import CONDITIONS, INITIAL, SESSIONS, Answers, Condition, ask
from pgdyno.workloads.tprocc.rows import ROWS

BYTES_PER_WAREHOUSE = 122_000_000
"""Tables and indexes of one warehouse, room for updates included, the 100,000 items aside: measured (18.6)."""
Done = TypeVar("Done")


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

    @property
    def analysed(self) -> bool:
        """Return True: each session vacuums and analyses its table while the others still load theirs."""
        return True

    def load(self, site: LoadSite) -> None:
        """Fill the nine tables, make the functions, and check the first population by conditions 1 to 12.

        A load that was interrupted is dropped and done again by whoever calls this. Raises WorkloadError where the
        rows do not fulfil their own conditions.
        """
        progress, sessions = _Progress(self.warehouses, site.progress), _Sessions(site.postgres)
        # The large ones first: the last one to begin must not be the longest.
        sessions.work_off([partial(self._fill, table, site, sessions, progress) for table in ROWS])
        _run(site, _raw(packaged_script("tprocc/functions")))
        site.progress("checking the first population: conditions 1 to 12")
        _require_sound(site, sessions)

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
                sessions.require()
                connection.execute(sql.SQL("VACUUM (FREEZE, ANALYZE) {}").format(sql.Identifier(table)))
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

    def work_off(self, jobs: Sequence[Callable[[], Done]]) -> list[Done]:
        """Do the jobs, some at a time, and return what came of them; when one fails all sessions end at once."""
        with ThreadPoolExecutor(SESSIONS) as threads:
            begun = [threads.submit(job) for job in jobs]
            try:
                for job in as_completed(begun):
                    job.result()
            except BaseException:
                self.end()
                threads.shutdown(cancel_futures=True)
                raise
        return [job.result() for job in begun]

    def require(self) -> None:
        """Raise WorkloadError once the load has ended."""
        if self._ended:
            raise WorkloadError("the load was ended", hint="Run it again: what was begun is done over.")

    def end(self) -> None:
        """Cancel what every session is doing."""
        with self._lock:
            self._ended = True
            for connection in self._open:
                with suppress(psycopg.Error):
                    connection.cancel()


class _Progress:
    """Adds up what the sessions have sent, and tells each percent."""

    def __init__(self, warehouses: int, report: Callable[[str], None]) -> None:
        self._about = f"loading {warehouses} warehouse{'s' * (warehouses > 1)}"
        self._all = warehouses * _SENT_PER_WAREHOUSE + _SENT_ALWAYS
        self._report = report
        self._sent = self._told = 0
        self._lock = threading.Lock()
        report(f"{self._about}, about {bytes_text(BYTES_PER_WAREHOUSE * warehouses)}")

    def told(self, size: int) -> None:
        """Count what was sent, and say so at each percent."""
        with self._lock:
            self._sent += size
            percent = min(100, 100 * self._sent // self._all)
            if percent > self._told:
                self._told = percent
                self._report(LoadedShare(self._about, percent))


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
    site.postgres.execute(statement)


def _require_sound(site: LoadSite, sessions: _Sessions) -> None:
    # Nobody else is in this database yet, so that each condition may have a session and a snapshot of its own. The
    # balance of customers takes longest, so it begins first. What was loaded goes to the disk meanwhile.
    conditions = sorted((*CONDITIONS, INITIAL), key=lambda condition: "C10" not in condition.names)
    jobs = [partial(_write_out, site, sessions), *(partial(_asked, site, sessions, one) for one in conditions)]
    asked = [answer for answers in sessions.work_off(jobs) for answer in answers]
    broken = {name: n for condition, counts in asked for name, n in zip(condition.names, counts, strict=True) if n}
    if broken:
        raise WorkloadError(
            f"the loaded data break their conditions: {', '.join(f'{name} {n} times' for name, n in broken.items())}",
            detail="; ".join(condition.meaning for condition, counts in asked if any(counts)),
            hint="This is an error of pgdyno: please report it with the version of the server.",
        )


def _write_out(site: LoadSite, sessions: _Sessions) -> Answers:
    """Have a checkpoint made, where the role may ask for one: it comes in any case when all is loaded."""
    privilege = psycopg.errors.InsufficientPrivilege
    with sessions.one() as connection, query_errors(site.postgres.label), suppress(privilege):
        connection.execute("CHECKPOINT")
    return []


def _asked(site: LoadSite, sessions: _Sessions, condition: Condition) -> Answers:
    with sessions.one() as connection, query_errors(site.postgres.label):
        # The sessions keep the CPUs busy together: workers beside them cost more than they gain (18.6, two cores).
        connection.execute("SET max_parallel_workers_per_gather = 0")
        return ask(connection, (condition,))
