"""The captures of this user: their folders, how they stand, and how another terminal ends one."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.shapes import plain, shaped
from pgdyno.outputs import new_folder, write_output
from pgdyno.outside.documents import load_json
from pgdyno.owner.hands import hands_of
from pgdyno.server import places
from pgdyno.trace.capture_logging import files_of
from pgdyno.trace.capture_record import (
    COMMITS,
    RECORD,
    CapturedLog,
    CaptureRecord,
    SourceEnd,
    parse_record,
    record_text,
)
from pgdyno.undo.rollback import SessionState, find_bundle, rollback

STOP, PROGRESS = "stop", "progress.json"


class CaptureState(StrEnum):
    """How a capture stands."""

    RUNNING = "running"
    COPYING = "copying"
    """The server logs as it did before, and the log is being copied to where it was asked for."""
    ENDED = "ended"
    KILLED = "killed"
    """Its process is gone and its record has no end; the watchdog has restored the logging, or will."""


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """What a running capture says of itself; `began` and `seen` in seconds since the epoch, by our clock."""

    folder: Path
    process: ProcessIdentity
    began: float
    seen: float = 0.0
    bytes: int = 0
    bytes_per_s: float = 0.0
    """Of the last minute."""
    to_copy: int | None = None
    """Bytes of log that are being copied into `folder`; None before the end of the capture, and once that is over."""
    copied: int = 0


@dataclass(frozen=True, slots=True)
class KnownCapture:
    """A capture that this user has begun: the folder with its record, and what it said last."""

    place: Path
    progress: CaptureProgress
    record: CaptureRecord

    @property
    def state(self) -> CaptureState:
        """Return how it stands now."""
        if self.record.end is not None:
            is_copying = self.progress.to_copy is not None and self.progress.process.is_alive()
            return CaptureState.COPYING if is_copying else CaptureState.ENDED
        return CaptureState.RUNNING if self.progress.process.is_alive() else CaptureState.KILLED

    @property
    def asks_copy(self) -> bool:
        """Tell whether its log was to be copied into a folder of the user's."""
        return self.progress.folder != self.place

    @property
    def left_s(self) -> float:
        """Return the seconds that are left of its time, 0 where it has ended."""
        if self.state is not CaptureState.RUNNING:
            return 0.0
        return max(0.0, self.progress.began + self.record.seconds - time.time())

    def stop(self) -> None:
        """Ask it to end; it looks four times a second."""
        write_output(self.place / STOP, "")


class CaptureFolder:
    """The folder of a capture that runs in this process, and its place in the register."""

    def __init__(self, place: Path, folder: Path) -> None:
        self.place, self.folder = place, folder

    @classmethod
    def make(cls, name: str, output: Path | None) -> CaptureFolder:
        """Make both. Raises UsageError where the output is there already, EnvironmentUnsuitable where it cannot be."""
        place = places.ensure(places.ensure(places.state_dir() / "captures") / name)
        if output is None:
            return cls(place, place)
        folder = output.absolute()
        try:
            new_folder(folder)
        except FileExistsError:
            place.rmdir()
            raise UsageError(f'"{output}" already exists', hint="Name a folder that does not exist yet.") from None
        except UsageError:
            place.rmdir()
            raise
        except OSError as error:
            place.rmdir()
            raise EnvironmentUnsuitable(
                f'folder "{output}" cannot be made: {error.strerror}', hint="Name another --output."
            ) from error
        return cls(place, folder)

    @property
    def is_stopped(self) -> bool:
        """Tell whether somebody asked it to end."""
        return (self.place / STOP).exists()

    def keep(self, record: CaptureRecord) -> None:
        """Write the record. Raises EnvironmentUnsuitable where it cannot be."""
        self._write(self.folder / RECORD, record_text(record))

    def tell(self, progress: CaptureProgress) -> None:
        """Write how it stands. Errors as `keep`."""
        self._write(self.place / PROGRESS, json.dumps(plain(replace(progress, seen=time.time()))))

    def discard(self) -> None:
        """Remove both: the capture never came about."""
        for folder in {self.folder, self.place}:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        try:
            write_output(path, text)
        except OSError as error:
            raise EnvironmentUnsuitable(f'"{path}" cannot be written: {error.strerror}') from error


def known_captures() -> list[KnownCapture]:
    """Return the captures of this user, newest first; what cannot be read is left out."""
    root, found = places.state_dir() / "captures", list[KnownCapture]()
    for place in sorted(root.iterdir(), reverse=True) if root.is_dir() else ():
        with suppress(OSError, ValueError, UsageError):
            progress = shaped(CaptureProgress, load_json((place / PROGRESS).read_bytes()), strict=False)
            record = parse_record((progress.folder / RECORD).read_bytes(), str(progress.folder / RECORD))
            if record.id == place.name:  # else somebody removed its folder, and another capture has that name
                found.append(KnownCapture(place, progress, record))
    return found


def find_capture(name: str | None) -> KnownCapture:
    """Return the capture of this name, or of the only one that begins so; without one that which has not ended.

    Raises UsageError where that is none, or several.
    """
    known = known_captures()
    if name is None:
        found = [one for one in known if one.state is not CaptureState.ENDED]
        what = "no capture runs" if not found else f"{len(found)} captures have not ended"
    else:
        found = [one for one in known if one.record.id.startswith(name)]
        what = f'"{name}" is no capture' if not found else f'"{name}" could be {len(found)} captures'
    if len(found) != 1:
        raise UsageError(what, hint="pgdyno capture status lists the captures of this user.")
    return found[0]


def finish_killed(known: KnownCapture, announce: Callable[[str], None]) -> CaptureRecord:
    """Put the logging back where nobody has yet, and write the end of a capture that was killed."""
    record = known.record
    if record.host is not None:
        announce(f"its watchdog is on {record.host}: pgdyno rollback --list --host {record.host} shows what it did")
    elif record.session:
        info = find_bundle(places.state_dir() / "undo", record.session)
        if info.state is SessionState.ABANDONED and info.bundle is not None:
            announce(f"restoring what session {record.session} had changed when it was killed")
            rollback(info.bundle)
        elif info.closed_by is not None:
            announce(f"the logging was restored by {info.closed_by}")
    logs, at = _logs_of(record)
    moment = datetime.fromtimestamp(at or known.progress.seen, UTC).isoformat(timespec="microseconds")
    record = replace(record, logs=logs, end=SourceEnd(moment, "killed"))
    if record.commits is None and (known.progress.folder / COMMITS).exists():
        record = replace(record, commits_lost="the capture was killed")
        announce(f"the commit order is lost: {record.commits_lost}")
    CaptureFolder(known.place, known.progress.folder).keep(record)
    return record


def _logs_of(record: CaptureRecord) -> tuple[tuple[CapturedLog, ...], float]:
    """Return the log files as they are, and when the last one was written; where they are out of reach, as recorded."""
    folder, style = Path(record.log_directory), record.style.partition(" ")[0]
    try:
        hands = hands_of(Path(record.data_directory))
        names = files_of(record.id, style, hands.names(folder))
        looks = {name: hands.look(folder / name) for name in names}
    except (OSError, PgdynoError):
        return record.logs, 0.0
    there = {name: status for name, status in looks.items() if status is not None}
    logs = tuple(CapturedLog(os.fspath(folder / name), style, 0, one.st_size) for name, one in there.items())
    return logs or record.logs, max((one.st_mtime for one in there.values()), default=0.0)
