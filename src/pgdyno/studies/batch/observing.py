"""What the server did for each job: its sessions by wait once a second, and counters of jobs that ran alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import PgdynoError
from pgdyno.linux.cpu import ServerCpu
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch.executing import JobFigures

INTERVAL_S = 1.0
RETRY_S = 10.0
ANSWER_S = 5.0
"""A server that answers later is not waited for: the run has to end at its guard, its stop file and its time."""
_ACTIVITY = (
    "SELECT application_name AS tag, coalesce(wait_event_type, 'CPU') AS class, pg_catalog.count(*) AS n"
    " FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND application_name = ANY(%s) GROUP BY 1, 2"
)
_COUNTERS = (
    "SELECT (CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE"
    " pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn END)::float8 AS wal, (SELECT"
    " pg_catalog.sum(tup_inserted + tup_updated + tup_deleted) FROM pg_catalog.pg_stat_database WHERE datname = %s"
    ")::float8 AS rows"
)
BESIDE = "other jobs ran beside it, and the server counts for all"


@dataclass(frozen=True, slots=True)
class _Counters:
    wal: float | None
    rows: float | None
    cpu_s: float | None
    error: str = ""


@dataclass(slots=True)
class _Watched:
    before: _Counters
    after: _Counters | None = None
    began_s: float = 0.0
    is_alone: bool = True
    missed: str = ""
    """Why its sessions were not seen for a while; empty where they were looked at each second."""
    waits: dict[str, float] = field(default_factory=dict)
    busy_s: float = 0.0
    looks: int = 0


class _Question(threading.Thread):
    """One query, in `session` or a new one, which a server that hangs may never answer."""

    def __init__(
        self, server: Postgres, session: psycopg.Connection[DictRow] | None, query: str, params: list[object]
    ) -> None:
        super().__init__(name="pgdyno-onlooker", daemon=True)
        self._server, self._query, self._params = server, query, params
        self.session = session
        self.rows = list[DictRow]()
        self.error = ""
        self.defect: Exception | None = None
        self.is_given_up = False
        """Nobody waits for the answer any more: its session ends when it comes, however late."""

    def run(self) -> None:
        """Ask, and keep what came of it."""
        self._ask()
        if self.is_given_up:
            self.close()

    def _ask(self) -> None:
        try:
            self.session = self.session or self._server.connect()
            self.rows = self.session.execute(self._query.encode(), self._params).fetchall()
        except PgdynoError as error:
            self.error = error.one_line
        except psycopg.Error as error:
            self.error = str(error).strip().partition("\n")[0] or type(error).__name__
        except Exception as error:  # for the caller's thread to raise
            self.defect = error

    def close(self) -> None:
        """End the session."""
        if self.session is not None:
            self.session.close()


class ServerOnlooker:
    """Looks at one server from a session of its own; an error, or a server that hangs, costs figures and no run."""

    def __init__(
        self, server: Postgres, database: str, cpu: ServerCpu, tags: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self._server, self._database, self._cpu, self._clock = server, database, cpu, clock
        self._keys = {tag: key for key, tag in tags.items()}
        self._tags = tags
        self._jobs: dict[str, _Watched] = {}
        self._running: set[str] = set()
        self._session: psycopg.Connection[DictRow] | None = None
        self._hangs: _Question | None = None
        self._error = ""
        self._next = self._looked = self._clock()

    def began(self, key: str) -> None:
        """Note that a job began."""
        self._jobs[key] = _Watched(self._counters(), began_s=self._clock())
        self._running.add(key)
        if len(self._running) > 1:
            for one in self._running:
                self._jobs[one].is_alone = False

    def ended(self, key: str) -> None:
        """Note that it is over; nothing for one that never began."""
        if key in self._running:
            self._running.discard(key)
            self._jobs[key].after = self._counters()

    def look(self) -> None:
        """Count the active sessions of each job, once a second."""
        now = self._clock()
        if now < self._next:
            return
        passed, self._looked, self._next = now - self._looked, now, now + INTERVAL_S
        rows = self._ask(_ACTIVITY, [[self._tags[key] for key in self._running]]) if self._running else []
        if self._error:
            self._next = now + RETRY_S
            for key in self._running:
                self._jobs[key].missed = self._error
            return
        seen = set[str]()
        for row in rows:
            job = self._jobs[self._keys[str(row["tag"])]]
            lasted = min(passed, now - job.began_s) * int(str(row["n"]))
            job.waits[str(row["class"])] = job.waits.get(str(row["class"]), 0.0) + lasted
            seen.add(str(row["tag"]))
        for key in self._running:
            job = self._jobs[key]
            job.looks += 1
            job.busy_s += min(passed, now - job.began_s) if self._tags[key] in seen else 0.0

    def figures(self, key: str) -> JobFigures:
        """Return what is known of a job, and why the rest is not."""
        job, unknown = self._jobs[key], dict[str, str]()
        is_seen = job.looks > 0 and not job.missed
        if not is_seen:
            too_short = "it ended before its sessions were looked at, once a second"
            unknown["busy_s"] = job.missed or self._error or too_short
        after = job.after or job.before

        def counted(name: str, then: float | None, now: float | None) -> float | None:
            if not job.is_alone:
                unknown[name] = BESIDE
            elif then is None or now is None or now < then:
                unknown[name] = job.before.error or after.error or "the server's counter cannot be read"
            else:
                return now - then
            return None

        wal = counted("wal_bytes", job.before.wal, after.wal)
        rows = counted("rows", job.before.rows, after.rows)
        return JobFigures(
            busy_s=job.busy_s if is_seen else None,
            waits=job.waits if is_seen else {},
            wal_bytes=None if wal is None else int(wal),
            rows=None if rows is None else int(rows),
            server_cpu_s=counted("server_cpu_s", job.before.cpu_s, after.cpu_s),
            unknown=unknown,
        )

    def close(self) -> None:
        """End the session, so that a restore can drop what it likes."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._hangs is not None and not self._hangs.is_alive():
            self._hangs.close()

    def _counters(self) -> _Counters:
        rows = self._ask(_COUNTERS, [self._database])
        cpu = self._cpu.seconds()
        seconds = cpu if isinstance(cpu, float) else None
        if not rows:
            return _Counters(None, None, seconds, self._error)
        return _Counters(_float(rows[0]["wal"]), _float(rows[0]["rows"]), seconds)

    def _ask(self, query: str, params: list[object]) -> list[DictRow]:
        if self._hangs is not None and self._hangs.is_alive():
            return []
        if self._hangs is not None:
            self._hangs.close()
        asked = _Question(self._server, self._session, query, params)
        asked.start()
        asked.join(ANSWER_S)
        if asked.is_alive():
            asked.is_given_up = True
            self._hangs, self._session = asked, None
            self._error = f"the server did not answer within {ANSWER_S:g} s"
            return []
        self._hangs, self._session, self._error = None, asked.session, asked.error
        if asked.defect is not None:
            raise asked.defect
        if asked.error:
            self.close()
        return asked.rows


def _float(value: object) -> float | None:
    return value if isinstance(value, float) else None
