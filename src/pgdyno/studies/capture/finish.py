"""The end of a capture: which bytes of which files are its log, the source as it is then, and a copy where asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.outputs import output
from pgdyno.studies.capture.plan import CapturePlan
from pgdyno.studies.capture.register import CaptureFolder, CaptureProgress
from pgdyno.studies.capture.source import read_contents, read_moment
from pgdyno.targets.server_log import LogFile
from pgdyno.targets.target import Target
from pgdyno.trace.capture_record import CapturedLog, CaptureRecord, SourceEnd
from pgdyno.units import bytes_text

_SETTLED_S, _SETTLES_S = 1.0, 15.0
"""The collector still writes what is in its pipe: a log is whole when it has not grown for the first of these."""
_TELL_S = 1.0


def ended_record(
    target: Target,
    plan: CapturePlan,
    record: CaptureRecord,
    because: str,
    announce: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> CaptureRecord:
    """Return the record with its end: which bytes of which files, and the source as it is now.

    `because` is what ended it, as `SourceEnd` has it. The log files of `plan` are listed once they have stopped
    growing, after 15 s at the latest; where they cannot be seen, `record` keeps its logs. What cannot be read of
    `target` is left out, which `announce` is told. `clock` returns seconds that never go back, and `sleep` waits for so
    many.
    """
    files = _settled(plan, clock, sleep)
    logs = record.logs if files is None else tuple(CapturedLog(f.path, plan.options.style, 0, f.size) for f in files)
    try:
        moment = read_moment(target.postgres)
        contents = read_contents(target.postgres, tables=False)
        end = SourceEnd(moment.at, because, moment.lsn, contents.sequences, contents.databases)
    except PgdynoError as error:
        announce(f"the final state of the source could not be read: {error.message}")
        end = SourceEnd(time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), because)
    return replace(record, logs=logs, end=end)


def _settled(plan: CapturePlan, clock: Callable[[], float], sleep: Callable[[float], None]) -> list[LogFile] | None:
    """Return the files when they grow no more; None where they cannot be seen."""
    deadline, before = clock() + _SETTLES_S, None
    while True:
        try:
            files = plan.folder.files(plan.id, plan.options.style)
        except PgdynoError:
            return None
        sizes = [(file.path, file.size) for file in files]
        if sizes == before or clock() >= deadline:
            return files
        before = sizes
        sleep(_SETTLED_S)


def kept_and_copied(
    plan: CapturePlan,
    folder: CaptureFolder,
    record: CaptureRecord,
    announce: Callable[[str], None],
    clock: Callable[[], float],
) -> CaptureRecord:
    """Keep the record and copy its log into the capture's folder, read by the server's account.

    `record` has its end, and its logs are read where `plan` found them; what is returned names each copy in `folder`.
    Without room or a right the log stays where it is, which `announce` is told. Other terminals see once a second how
    far the copy is; `clock` returns seconds that never go back.
    """
    total = sum(log.end or 0 for log in record.logs)
    progress = CaptureProgress(folder.folder, ProcessIdentity.own(), time.time(), bytes=total, to_copy=total)
    folder.tell(progress)  # before the end is on record: who waits for that then waits for the copy, too
    folder.keep(record)
    try:
        return _copied(plan, folder, record, announce, _Teller(folder, progress, clock))
    finally:
        with suppress(EnvironmentUnsuitable):  # this process ends, and that says so as well
            folder.tell(replace(progress, to_copy=None))


class _Teller:
    """Tells other terminals once a second how far a copy is; where that cannot be, the copy goes on."""

    def __init__(self, folder: CaptureFolder, progress: CaptureProgress, clock: Callable[[], float]) -> None:
        self._folder, self._progress, self._clock = folder, progress, clock
        self._told = clock()

    def copied(self, count: int) -> None:
        """Hear of so many more bytes."""
        self._progress = replace(self._progress, copied=self._progress.copied + count)
        if self._clock() - self._told >= _TELL_S:
            self._told = self._clock()
            with suppress(EnvironmentUnsuitable):
                self._folder.tell(self._progress)


def _copied(
    plan: CapturePlan, folder: CaptureFolder, record: CaptureRecord, announce: Callable[[str], None], teller: _Teller
) -> CaptureRecord:
    total = sum(log.end or 0 for log in record.logs)
    system = os.statvfs(folder.folder)
    if total > system.f_bavail * system.f_frsize:
        announce(f'"{folder.folder}" has no room for {bytes_text(total)}: the log stays where it is')
        return record
    for number, log in enumerate(record.logs):
        name = Path(log.path).name
        try:
            with output(folder.folder / name) as file:  # a copy that was cut would look like a log
                for block in plan.folder.blocks(log.path, log.end or 0):
                    file.write(block)
                    teller.copied(len(block))
        except (OSError, PgdynoError) as error:
            announce(f"{name} was not copied: {error}")
            return record
        logs = (*record.logs[:number], replace(log, copy=name), *record.logs[number + 1 :])
        record = replace(record, logs=logs)
        folder.keep(record)
        announce(f"copied {name}, {bytes_text(log.end or 0)}")
    return record
