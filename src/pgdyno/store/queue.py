"""The queue of the night: jobs in their order, each taken by one runner only, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, false, insert, select, update
from sqlalchemy.engine import Connection

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.job import Job, JobState
from pgdyno.model.shapes import shaped
from pgdyno.store.catalogue import Store
from pgdyno.store.schema import ID_LIMIT, JOB

PENDING = (JobState.INTERRUPTED, JobState.WAITING)
"""The states from which a job can be taken; those that began in an earlier night go first."""
ABANDONED = "its runner ended before the job did"
_LIST = "List the jobs with pgdyno queue list."


class Queue:
    """The jobs of a store. Each method is one transaction, so that a kill leaves whole rows.

    A job belongs to the host on which it was added: its paths and sockets are there, and exclusive use is a matter of
    one host. Every method raises StoreError for what the database refuses.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        argv: Sequence[str],
        *,
        host: str,
        folder: str,
        at: float,
        keep: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        """Put a job at the end of its host's queue; what `keep` records is there before a runner can see the job.

        `argv` are the words after `pgdyno`, and `folder` is the working directory on `host`; `at` is the time of the
        addition, in seconds since the epoch. `keep` is called with the job before the transaction commits.
        """
        row = {
            "added_at": at,
            "argv": list(argv),
            "state": JobState.WAITING.value,
            "attempts": 0,
            "host": host,
            "folder": folder,
        }
        with self._store.write() as connection:
            (job_id,) = connection.execute(insert(JOB).returning(JOB.c.id), row).one()
            job = _job(connection, int(job_id))
            keep(job)
            return job

    def job(self, job_id: int) -> Job:
        """Return one job. Raises UsageError when it is not there."""
        with self._store.read() as connection:
            return _job(connection, job_id)

    def jobs(self, *, host: str | None = None) -> list[Job]:
        """Return all jobs in the order in which they were added, those of one host if it is named."""
        query = select(JOB).order_by(JOB.c.id)
        if host is not None:
            query = query.where(JOB.c.host == host)
        with self._store.read() as connection:
            return [_from_row(dict(row)) for row in connection.execute(query).mappings()]

    def claim(self, *, host: str, runner: str, at: float, but: Collection[int] = ()) -> Job | None:
        """Take the next job of this host and call it running; None when there is none.

        Interrupted jobs come before those that never began. Two runners never get the same job: the row is locked while
        it is taken (SQLite's write lock; FOR UPDATE SKIP LOCKED on PostgreSQL). `runner` is kept as who runs it,
        HOST:PID, and `at` as its begin, in seconds since the epoch. `but` has the ids of jobs to leave alone.
        """
        with self._store.write() as connection:
            for state in PENDING:
                pending = (JOB.c.state == state.value) & (JOB.c.host == host) & JOB.c.id.not_in(list(but))
                query = select(JOB.c.id).where(pending).order_by(JOB.c.id).limit(1).with_for_update(skip_locked=True)
                job_id = connection.execute(query).scalar()
                if job_id is not None:
                    taken = JOB.c.attempts + 1
                    values = {"runner": runner, "began_at": at, "ended_at": None, "exit_code": None, "reason": None}
                    connection.execute(
                        update(JOB)
                        .where(JOB.c.id == job_id)
                        .values(state=JobState.RUNNING.value, attempts=taken, **values)
                    )
                    return _job(connection, job_id)
        return None

    def put_back(self, job_id: int, *, reason: str) -> Job:
        """Undo a claim of a job that was never begun, and say why; it does not count as an attempt."""
        with self._store.write() as connection:
            job = _job(connection, job_id)
            state = JobState.INTERRUPTED if job.study or job.attempts > 1 else JobState.WAITING
            return _changed(
                connection, job, {"state": state.value, "attempts": job.attempts - 1, "reason": reason, "runner": None}
            )

    def end(
        self,
        job_id: int,
        state: JobState,
        *,
        at: float,
        exit_code: int | None = None,
        study: str | None = None,
        reason: str | None = None,
    ) -> Job:
        """Say how a running job ended, and which study it left. Raises StoreError when it is not running.

        `state` is the one that the job `job_id` has from `at` on, in seconds since the epoch. `exit_code` is None where
        the job has none, `reason` where there is nothing to explain; `study` None leaves the id that was kept before.
        """
        with self._store.write() as connection:
            job = _job(connection, job_id)
            values: dict[str, object] = {
                "state": state.value,
                "ended_at": at,
                "exit_code": exit_code,
                "reason": reason,
                "runner": None,
            }
            return _changed(connection, job, values if study is None else {**values, "study": study})

    def remove(self, job_id: int) -> Job:
        """Take a job out of the queue; its row stays. Raises UsageError for one that runs or has ended."""
        with self._store.write() as connection:
            job = _job(connection, job_id)
            if job.state is JobState.RUNNING:
                raise UsageError(
                    f"job {job_id} is running",
                    hint="End its runner first, or wait until it is done. What a killed runner left is given back by "
                    "the next pgdyno queue run, also while its window is closed.",
                )
            if job.state not in PENDING:
                raise UsageError(f"job {job_id} is {job.state.value} and waits for nothing", hint=_LIST)
            connection.execute(update(JOB).where(JOB.c.id == job_id).values(state=JobState.REMOVED.value))
            return _job(connection, job_id)

    def recover(self, *, host: str, at: float) -> list[Job]:
        """Give back the jobs of this host whose runner is gone; call it only as the host's one runner."""
        running = (JOB.c.state == JobState.RUNNING.value) & (JOB.c.host == host)
        with self._store.write() as connection:
            found = [_from_row(dict(row)) for row in connection.execute(select(JOB).where(running)).mappings()]
            values = {"state": JobState.INTERRUPTED.value, "ended_at": at, "reason": ABANDONED, "runner": None}
            return [_changed(connection, job, values) for job in found]

    def keep_study(self, job_id: int, study: str) -> None:
        """Keep which study a job began."""
        with self._store.write() as connection:
            connection.execute(update(JOB).where(JOB.c.id == job_id).values(study=study))


def _changed(connection: Connection, job: Job, values: Mapping[str, object]) -> Job:
    """Change a running job; the state is part of the condition, so that no other process changed it in between."""
    which: ColumnElement[bool] = (JOB.c.id == job.id) & (JOB.c.state == JobState.RUNNING.value)
    if connection.execute(update(JOB).where(which).values(dict(values))).rowcount != 1:
        raise StoreError(f"job {job.id} is {job.state.value}, not running", hint=_LIST)
    return _job(connection, job.id)


def _job(connection: Connection, job_id: int) -> Job:
    which = JOB.c.id == job_id if abs(job_id) < ID_LIMIT else false()
    row = connection.execute(select(JOB).where(which)).mappings().one_or_none()
    if row is None:
        raise UsageError(f"job {job_id} is not in the queue", hint=_LIST)
    return _from_row(dict(row))


def _from_row(row: dict[str, object]) -> Job:
    try:
        job = shaped(Job, row, "it", strict=False)
        if not job.argv:
            raise ValueError("it has no words")
    except ValueError as error:
        raise StoreError(
            f"job {row['id']} cannot be read",
            detail=str(error),
            hint="It was damaged, or written by a newer pgdyno: take its row out of the table job.",
        ) from error
    return job
