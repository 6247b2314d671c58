"""The undo bundle: everything that a rollback needs, on disk and fsynced before the first change.

    <undo root>/<id>/manifest.json   who, which server, how it is started, which files
                     settings.json   every row of pg_settings before the session
                     process.json    the server's process before the session, its environment among it
                     files/N         the exact bytes of each file that will be changed
                     journal.jsonl   what the session did, in order (see journal.py)
                     heartbeat       the session's sign of life (see heartbeat.py)
                     watchdog.*      who watches the session, and what they did (see watchdog.py)
                     reserve         space that is given back when the disk is full
                     UNDO.md         the way back by hand

The manifest and the settings are written once and never changed: the first record of the journal, which is a chain of
checksums, has theirs. Whether a bundle is closed is its journal's last record, so closing it cannot tear it. The folder
is 0700 and its files 0600: a configuration file may hold secrets.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, RollbackError, UsageError
from pgdyno.linux.identity import wait_until
from pgdyno.model.shapes import shaped
from pgdyno.owner import durable
from pgdyno.owner.file_image import FileImage, digest
from pgdyno.owner.hands import Hands, hands_of
from pgdyno.owner.pins import DirectoryChanged
from pgdyno.owner.process_image import ProcessImage
from pgdyno.routes.written import Written
from pgdyno.server import places, snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.undo.journal import CLOSED as CLOSED
from pgdyno.undo.journal import JOURNAL as JOURNAL
from pgdyno.undo.journal import Journal, JournalReading, read_journal
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.undo_text import undo_text

RESERVE_BYTES = 1 << 20
DATA_RESERVE = "pgdyno.reserve"
DATA_RESERVE_BYTES = 17 << 20
"""One WAL segment and a little: what a server needs to start again on a disk that is full."""
DAMAGED_JOURNAL = "journal.damaged"
_DRAFT = ".draft-"
_STAMP, _STAMP_LENGTH = "%Y%m%dT%H%M%SZ", 16
_MANIFEST, _SETTINGS, _PROCESS = "manifest.json", "settings.json", "process.json"
_SUMS = "sums"


class UndoBundle:
    """A bundle on disk."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest

    @property
    def id(self) -> str:
        """Return the name of the session, sortable by time."""
        return self.manifest.id

    @classmethod
    def create(
        cls,
        undo_root: Path,
        manifest: Manifest,
        *,
        contents: Sequence[bytes],
        settings: Mapping[str, SettingState],
        process: ProcessImage | None = None,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> UndoBundle:
        """Write a bundle durably; `contents` are the bytes of `manifest.images`, in order.

        It becomes a folder in `undo_root`, named by the id in `manifest`. `settings`, by name, and `process` are the
        server's as it was found, `process` None where it is not kept. `reserve_bytes` of disk are set aside in it for
        the way back. It appears under its name only when it is whole. Raises EnvironmentUnsuitable when it cannot be
        written; nothing is left behind then.
        """
        draft, final = undo_root / f"{_DRAFT}{manifest.id}", undo_root / manifest.id
        try:
            draft.mkdir(mode=0o700)
            _fill(draft, final, manifest, contents, settings, process, reserve_bytes)
            draft.rename(final)
            durable.fsync_directory(undo_root)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise _unwritable(undo_root, error) from error
        return cls(final, manifest)

    @classmethod
    def open(cls, directory: Path) -> UndoBundle:
        """Read a bundle. Raises RollbackError when its manifest cannot be read or is not the one that was written."""
        try:
            return cls(directory, Manifest.from_json(json.loads(_whole(directory, _MANIFEST))))
        except (OSError, ValueError, KeyError, TypeError) as error:
            missing = isinstance(error, KeyError)
            raise RollbackError(
                f'the undo bundle "{directory}" cannot be read',
                detail=f'"{directory / _MANIFEST}" has no {error}' if missing else str(error),
                hint=_by_hand(directory),
            ) from error

    def reading(self) -> JournalReading:
        """Read the journal as it is on disk now."""
        return read_journal(self.directory / JOURNAL)

    def written(self) -> Written:
        """Return every configuration that the session meant to write, as far as its journal can be read.

        A damaged journal is set aside when a session is rolled back; that there was one is remembered.
        """
        reading = self.reading()
        is_whole = reading.damage is None and not (self.directory / DAMAGED_JOURNAL).exists()
        return Written.of(reading.records, is_known=is_whole)

    def journal(self, clock: Callable[[], float] = time.time) -> Journal:
        """Open the journal for appending. Raises RollbackError when it is damaged."""
        return Journal(self.directory / JOURNAL, clock=clock)

    def has_damaged_journal(self) -> bool:
        """Tell whether records of the journal are lost, so that it does not hold all that the session did."""
        return (self.directory / DAMAGED_JOURNAL).exists() or self.reading().damage is not None

    def is_closed(self) -> bool:
        """Return True when the server was restored and this was recorded."""
        return is_closed_in(self.directory)

    def kept(self) -> Mapping[str, object] | None:
        """Return what the session noted when its change was kept; None when it was put back, or is still open."""
        records = self.reading().records
        if not records or records[-1].kind != CLOSED or not records[-1].data.get("kept"):
            return None
        return records[-1].data

    def content(self, image: FileImage) -> bytes:
        """Return the bytes of a file as it was. Raises RollbackError when the copy is not what it was."""
        path = self.directory / "files" / str(self.manifest.images.index(image))
        try:
            data = path.read_bytes() if image.was_present else b""
        except OSError as error:
            raise RollbackError(
                f'the copy "{path}" cannot be read: {error.strerror}', hint=_by_hand(self.directory)
            ) from error
        if image.was_present and digest(data) != image.sha256:
            raise RollbackError(
                f'the copy "{path}" of "{image.path}" is damaged',
                detail="Its checksum is wrong.",
                hint=f'Put a backup of "{image.path}" in its place; the rest is in {self.directory / "UNDO.md"}.',
            )
        return data

    def content_of(self, path: Path) -> bytes | None:
        """Return the bytes of the file at this path as it was, None when it was absent. Errors as `content`."""
        image = next(image for image in self.manifest.images if image.path == str(path))
        return self.content(image) if image.was_present else None

    def settings(self) -> dict[str, SettingState]:
        """Return every setting as it was before the session. Raises RollbackError when it cannot be read."""
        try:
            rows = json.loads(_whole(self.directory, _SETTINGS))
            return {row["name"]: snapshot.state_of(row) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RollbackError(
                f'"{self.directory / _SETTINGS}" cannot be read', detail=str(error), hint=_by_hand(self.directory)
            ) from error

    def process_image(self) -> ProcessImage | None:
        """Return the server's process as it was; None when it was not kept, as by an earlier pgdyno.

        Raises RollbackError when it cannot be read.
        """
        try:
            return shaped(ProcessImage, json.loads(_whole(self.directory, _PROCESS)), "the process", strict=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            records = self.reading().records
            sums = records[0].data.get(_SUMS) if records else None
            if isinstance(error, FileNotFoundError) and not (isinstance(sums, dict) and _PROCESS in sums):
                return None
            raise RollbackError(
                f'"{self.directory / _PROCESS}" cannot be read', detail=str(error), hint=_by_hand(self.directory)
            ) from error

    def reserve_beside_data(self, size_bytes: int = DATA_RESERVE_BYTES) -> None:
        """Allocate the server's reserve in its data directory: the first act there, after the watchdog stands.

        A leftover is replaced. Raises EnvironmentUnsuitable when there is no room; nothing is left behind then.
        """
        if self.manifest.reserve is None:
            return
        path = Path(self.manifest.reserve)
        try:
            self.hands().reserve(path, size_bytes)
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'"{path.parent}" has no room for the undo: {(error.strerror or str(error)).lower()}',
                detail=f"{size_bytes >> 20} MB are reserved there, so that the server can start again on a full disk.",
                hint="Free some space on the file system of the data directory.",
            ) from error

    def hands(self) -> Hands:
        """Return the hands of the server's account, kept to the directories of this session.

        Raises FileNotFoundError or another OSError while the data directory is away.
        """
        return hands_of(Path(self.manifest.data_directory), self.manifest.pins)

    def release_reserve(self) -> None:
        """Give the reserved space back to the file systems of the bundle and of the server's data."""
        (self.directory / "reserve").unlink(missing_ok=True)
        if self.manifest.reserve is not None:
            # The data directory may be gone, or another one: then there is nothing of ours in it.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, DirectoryChanged):
                self.hands().remove(Path(self.manifest.reserve))

    @contextmanager
    def alone(self, wait_s: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Be the only one who changes the server of this session: the session itself, a rollback, or a watchdog.

        Raises UsageError when another process still is after `wait_s`. The claim ends with the process.
        """
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not wait_until(lambda: durable.try_lock(descriptor), timeout_s=wait_s, sleep=sleep):
                raise UsageError(
                    f"session {self.id} is being rolled back by another process",
                    hint="Wait until it is done; pgdyno rollback --list shows its state.",
                )
            yield
        finally:
            os.close(descriptor)


def is_closed_in(directory: Path) -> bool:
    """Tell by its journal alone whether the session of a bundle is over, also where its manifest cannot be read."""
    records = read_journal(directory / JOURNAL).records
    return bool(records) and records[-1].kind == CLOSED


def whole_journal(directory: Path) -> tuple[Journal, str | None]:
    """Open a bundle's journal for appending; one that is damaged is set aside, with what is wrong with it.

    What could be read of it is in the new one.
    """
    path = directory / JOURNAL
    reading = read_journal(path)
    if reading.damage is None:
        return Journal(path), None
    if path.exists():
        path.rename(directory / DAMAGED_JOURNAL)
    journal = Journal.create(path)
    for record in reading.records:
        journal.append(record.kind, record.data)
    return journal, reading.damage


def _whole(directory: Path, name: str) -> bytes:
    """Return the bytes of a file that was written once. Raises OSError, and ValueError when they are others now.

    A journal that is damaged or was written by an earlier pgdyno says nothing of them.
    """
    data = (directory / name).read_bytes()
    records = read_journal(directory / JOURNAL).records
    sums = records[0].data.get(_SUMS) if records else None
    if isinstance(sums, dict) and name in sums and digest(data) != sums[name]:
        raise ValueError(f'"{directory / name}" is damaged: its checksum is wrong')
    return data


def _by_hand(directory: Path) -> str:
    return f"Restore by hand: {directory / 'UNDO.md'} lists the commands."


def _unwritable(undo_root: Path, error: OSError) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'the undo bundle cannot be written to "{undo_root}": {(error.strerror or str(error)).lower()}',
        detail="Nothing was changed: no change is made before its undo is on disk.",
        hint="Free some space or grant write permission there, or name another folder in PGDYNO_HOME.",
    )


def _fill(
    draft: Path,
    final: Path,
    manifest: Manifest,
    contents: Sequence[bytes],
    settings: Mapping[str, SettingState],
    process: ProcessImage | None,
    reserve_bytes: int,
) -> None:
    files = draft / "files"
    files.mkdir(mode=0o700)
    for number, data in enumerate(contents):
        durable.write_new(files / str(number), data)
    durable.fsync_directory(files)
    written = {
        _SETTINGS: _rows(settings.values()),
        _MANIFEST: _json(asdict(manifest)),
    }
    if process is not None:
        written[_PROCESS] = _json(process.to_json())
    for name, data in written.items():
        durable.write_new(draft / name, data)
    durable.write_new(draft / "UNDO.md", undo_text(manifest, final).encode())
    durable.reserve_space(draft / "reserve", reserve_bytes)
    sums = {name: digest(data) for name, data in written.items()}
    begun = {"study": manifest.study, "target": manifest.target, _SUMS: sums}
    Journal.create(draft / JOURNAL).append("begun", begun)
    durable.fsync_directory(draft)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _rows(states: Iterable[SettingState]) -> bytes:
    """Return hundreds of settings as JSON, a line each: `asdict` and an indent take four times as long."""
    names = [one.name for one in fields(SettingState)]
    rows = (json.dumps({name: getattr(state, name) for name in names}) for state in states)
    return ("[\n" + ",\n".join(rows) + "\n]\n").encode()


def new_id(study: str, *, at: float, undo_root: Path) -> str:
    """Return a free name that sorts by time: `20260131T235959Z-study`, with a number behind it when taken.

    It sorts behind all others also where the clock was set back since: the newest session is found by its name.
    """
    stamp = datetime.fromtimestamp(at, UTC).strftime(_STAMP)
    newest = max((path.name[:_STAMP_LENGTH] for path in undo_root.iterdir() if _is_stamp(path.name)), default="")
    if newest > stamp:
        stamp = (datetime.strptime(newest, _STAMP).replace(tzinfo=UTC) + timedelta(seconds=1)).strftime(_STAMP)
    stem = f"{stamp}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', study).strip('-.')[:60] or 'study'}"
    taken = {path.name for path in undo_root.iterdir()}
    return next(name for name in _candidates(stem) if name not in taken and f"{_DRAFT}{name}" not in taken)


def _is_stamp(name: str) -> bool:
    try:
        datetime.strptime(name[:_STAMP_LENGTH], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


@contextmanager
def locked(undo_root: Path) -> Iterator[None]:
    """Hold the undo folder, made when missing, so that two sessions do not begin on one server at the same time.

    The lock ends with the process. Raises EnvironmentUnsuitable when the folder cannot be made or written.
    """
    try:
        places.ensure(undo_root)
        descriptor = os.open(undo_root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(undo_root, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for draft in undo_root.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def bundle_directories(undo_root: Path) -> list[Path]:
    """Return the folders of all bundles, newest first; none when there is no undo folder."""
    if not undo_root.is_dir():
        return []
    named = (path for path in undo_root.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(named, key=lambda path: path.name, reverse=True)
