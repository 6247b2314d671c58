"""What a night runner needs of the world: processes of pgdyno, studies of the store, a look at host and server."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pgdyno
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.model.job import JOB, JOB_DIGEST, Job
from pgdyno.model.study import Study
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.parent import PARENT
from pgdyno.owner.runner import LocalRunner
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.night.runner import Child
from pgdyno.studies.session.exclusive import LOOK_S, ExclusiveLimits, disturbance, look, unknowns
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.own_jobs import OwnJobs
from pgdyno.studies.session.target_request import TargetRequest

BUSY_SESSIONS_SLACK = 0.5
"""A monitoring agent's short query falls into a sample now and then: on average less than this is nobody's work."""
ResumeWords = Callable[[Job, Study | None], tuple[str, ...] | None]


class NightWork:
    """Starts jobs as processes of this pgdyno, each with a log of its own, and looks whether they would be alone.

    `resume` gives the words that begin a job or go on with a study; `target_of` the server that a job's words name.
    """

    def __init__(
        self,
        store: Store,
        store_url: str,
        limits: ExclusiveLimits,
        *,
        resume: ResumeWords,
        target_of: Callable[[Job], TargetRequest],
        announce: Callable[[str], None],
        look_s: float = LOOK_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._url, self._limits = store, store_url, limits
        self._own = OwnJobs(store.name)
        self._resume, self._target_of, self._announce = resume, target_of, announce
        self._look_s, self._sleep = look_s, sleep

    def start(self, job: Job, words: Sequence[str]) -> Child:
        """Start pgdyno with these words in the job's folder, as a child that is told to end when we die."""
        log = log_of(job)
        self._announce(f"job {job.id} writes {log}")
        if not Path(job.folder).is_dir():
            raise EnvironmentUnsuitable(
                f'folder "{job.folder}" of job {job.id} does not exist',
                hint=f"Make it again, or take the job out: pgdyno queue remove {job.id}.",
            )
        environment = {
            "PYTHONPATH": python_path(),
            "PYTHONSAFEPATH": "1",  # a module in the job's folder is not ours
            "PGDYNO_STORE": self._url,
            JOB: str(job.id),
            JOB_DIGEST: self._own.digest(job),
            PARENT: str(os.getpid()),
        }
        bounds = {
            "PGDYNO_FOREIGN_DISK": self._limits.disk_mb_per_s,
            "PGDYNO_FOREIGN_SESSIONS": self._limits.sessions + BUSY_SESSIONS_SLACK,
        }
        environment |= {name: f"{value:g}" for name, value in bounds.items() if name not in os.environ}
        argv = [sys.executable, "-m", "pgdyno", *words]
        folder, errors = Path(job.folder), errors_of(log)
        return LocalRunner().start(
            argv, env=environment, cwd=folder, stdout=log, stderr=errors, kind=ProgramKind.OURSELVES
        )

    def words(self, job: Job, study: Study | None) -> tuple[str, ...] | None:
        """Return the words that begin the job, or go on with its study; words that no longer hold begin, and fail."""
        try:
            return self._resume(job, study)
        except UsageError:
            return None if study is not None else job.argv

    def studies(self, job: Job) -> list[Study]:
        """Return the studies that runs of this job began, the newest first; one that was changed since is none."""
        named = (study for study in self._store.studies() if study.options.get("job") == job.id)
        return [study for study in named if self._own.began(job, study)]

    def refusal(self, job: Job) -> str | None:
        """Say why a job must not run at all, None when this account added it as it is and it has not ended."""
        return self._own.refusal(job)

    def ended(self, job: Job) -> None:
        """Take note that a job has ended and must not begin again."""
        self._own.end(job)

    def disturbance(self, job: Job) -> str | None:
        """Look at the host, and at the server where the job names one; what is unknown is told and keeps nothing up.

        A server that cannot be reached is a disturbance: it may be there the next time.
        """
        try:
            request = self._target_of(job)
        except UsageError:  # a plan that is gone: the job itself will say so, and fail
            return None
        try:
            if request.dsn is None and request.host is None:
                activity = look(None, seconds=self._look_s, sleep=self._sleep)
            else:
                with opened(request) as target:
                    activity = look(target, seconds=self._look_s, sleep=self._sleep)
        except PgdynoError as error:
            return " ".join(error.one_line.split())
        if unknown := unknowns(activity):
            self._announce(f"job {job.id}: {unknown}")
        return disturbance(activity, self._limits)


def log_of(job: Job) -> Path:
    """Return where an attempt of a job writes its result; what it says meanwhile is beside it in `.log`."""
    return places.ensure(places.state_dir() / "queue") / f"job-{job.id}-{job.attempts}.out"


def errors_of(log: Path) -> Path:
    """Return where a job of this log says what it does."""
    return log.with_suffix(".log")


def python_path() -> str:
    """Return a path on which the child finds this very pgdyno."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # relative ones would be the job's folder
    return os.pathsep.join([str(Path(pgdyno.__file__).parent.parent), *filter(os.path.isabs, inherited)])


@contextmanager
def only_runner() -> Iterator[None]:
    """Be the one runner of this host. Raises EnvironmentUnsuitable when there is another.

    An abstract socket (unix(7)) is the lock: it is the whole host's, whoever the user, and gone with its process. A
    PGDYNO_HOME is a laboratory of its own, with a runner of its own.
    """
    home = os.environ.get("PGDYNO_HOME", "")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0pgdyno-night-runner {home}"[:100])
        except OSError as error:
            raise EnvironmentUnsuitable(
                "a runner of the queue works on this host already",
                detail=str(error),
                hint="Jobs that are added now are taken by that one: pgdyno queue list.",
            ) from error
        yield
