"""Which jobs of a queue this account added, and what their runs began: the account's own record, beside no store.

Whoever can write a shared store can write any words into its queue, and any options into its studies. So what a night
run may do is taken from there only if this record, a file of the account's state folder that nobody else may read or
write, holds its digest; it is on the host of the job, which is the only one where the job runs. A job that has ended
here is over, whatever the store says of it later.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.job import JOB_DIGEST, Job
from pgdyno.model.study import ENDED, Study
from pgdyno.server import places
from pgdyno.store.codec import to_json
from pgdyno.store.engine import identity

FILE = "own-jobs.jsonl"
_AGAIN = "add it again as the account that is to run it: pgdyno queue add -- ..."


class OwnJobs:
    """The record of this account. `store` is the store's name: jobs of one store are none of another's.

    Raises EnvironmentUnsuitable where the record is not this account's alone, or cannot be read or written.
    """

    def __init__(self, store: str, folder: Path | None = None) -> None:
        self._store = identity(store)
        self._folder = folder

    def keep(self, job: Job) -> None:
        """Record a job that is being added; it is on disk when this returns."""
        self._append("added", job=job_digest(job, self._store), id=job.id, store=self._store)

    def end(self, job: Job) -> None:
        """Record that a job of ours has ended and must not begin again, whatever the store now says that it was."""
        place = "added", job.id, self._store
        for digest in {
            line["job"] for line in self._lines() if (line["is"], line.get("id"), line.get("store")) == place
        }:
            self._append("ended", job=digest)

    def refusal(self, job: Job) -> str | None:
        """Say why a job must not run here, None when it is as this account added it and has not ended."""
        digest, is_known, other, ended = job_digest(job, self._store), False, False, None
        for line in self._lines():
            if line["is"] == "added":
                is_known |= line["job"] == digest
                other |= line.get("id") == job.id and line.get("store") == self._store
            elif line["is"] == "ended" and line["job"] == digest:
                ended = line["at"]
        if ended is not None:
            return f"it ended on {_day(ended)} and was put back into the queue; {_AGAIN}"
        if is_known:
            return None
        if other:
            return f"its words, folder, host or time are not those that this account added; {_AGAIN}"
        return f"this account did not add it on this host, or did with an older pgdyno; {_AGAIN}"

    def digest(self, job: Job) -> str:
        """Return what names the job in this record, for the environment of its run."""
        return job_digest(job, self._store)

    def began(self, job: Job, study: Study) -> bool:
        """Tell whether a study is one that a run of this job began, and has its options still."""
        return _began(self._lines(), job_digest(job, self._store), study)

    def _append(self, what: str, **values: object) -> None:
        _append(self._path(), {"is": what, "at": time.time(), **values})

    def _lines(self) -> list[Mapping[str, object]]:
        return list(_lines(self._path()))

    def _path(self) -> Path:
        return (self._folder or _folder()) / FILE


def keep_begun(study: Study) -> None:
    """Record a study that this process begins for a job of the queue; outside of a night run do nothing."""
    if digest := os.environ.get(JOB_DIGEST):
        line = {"is": "began", "at": time.time(), "job": digest, "study": study.id, "digest": study_digest(study)}
        _append(_folder() / FILE, line)


def check_begun(study: Study) -> None:
    """Refuse to go on, in a night run, with a study that this job did not begin or that was changed in the store."""
    digest = os.environ.get(JOB_DIGEST)
    if digest and not _began(_lines(_folder() / FILE), digest, study):
        raise UsageError(
            f"study {study.id} is not as the job of the queue began it",
            detail="Its options in the store are others than those that this account recorded.",
            hint=f"Look at it with pgdyno report {study.id}; --resume continues it.",
        )


def job_digest(job: Job, store: str) -> str:
    """Return what is the same only for the very job that was added: its place, its words and its moment."""
    return _digest([store, job.id, job.added_at, list(job.argv), job.host, job.folder])


def study_digest(study: Study) -> str:
    """Return what is the same only while nothing of a study is changed that a resumed run obeys."""
    parts = study.id, study.kind.value, study.name, study.target, study.environment
    options = {name: value for name, value in study.options.items() if name != ENDED}
    return _digest([*parts, to_json(study.workload), to_json(study.plan), to_json(options)])


def _digest(value: object) -> str:
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    """Return a value as it comes back from any store: a database may give 3 for 3.0."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _began(lines: Iterator[Mapping[str, object]] | list[Mapping[str, object]], job: str, study: Study) -> bool:
    wanted = "began", job, study.id, study_digest(study)
    return any((line["is"], line["job"], line.get("study"), line.get("digest")) == wanted for line in lines)


def _folder() -> Path:
    return places.ensure(places.state_dir() / "queue")


def _lines(path: Path) -> Iterator[Mapping[str, object]]:
    """Yield the record's lines; one that a crash cut short is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error.strerror) from error
    try:
        _check(path, descriptor)
    except EnvironmentUnsuitable:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("is"), str) and isinstance(line.get("job"), str):
                yield line


def _append(path: Path, line: Mapping[str, object]) -> None:
    """Write one line in one call, so that two processes never mix theirs; begin it again after one that was cut."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
        try:
            _check(path, descriptor)
            text = f"\n{json.dumps(line)}\n".encode()
            if os.write(descriptor, text) != len(text):
                raise _unusable(path, "no room is left")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable(path, error.strerror) from error


def _check(path: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise _unusable(path, "It is not a file that this account alone may write.")


def _unusable(path: Path, detail: str | None) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'the record of your jobs "{path}" cannot be used',
        detail=detail,
        hint="Make it yours again, or remove it and add the jobs that still wait once more.",
    )


def _day(at: object) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" if isinstance(at, int | float) else "an unknown day"
