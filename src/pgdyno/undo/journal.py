"""The append-only journal of a session: what was about to be done, written durably before it is done.

One JSON object a line: `seq`, `at` (epoch seconds), `kind`, `data`, `sum`. `sum` is SHA-256 over the sum of the line
before and this line's canonical text without `sum`, so that a changed, lost or reordered line is seen. Every append
is fsynced. A crash in mid-write leaves one last line without its newline: that one is dropped, because what it
announces cannot have begun. Anything else that does not check is damage, and is reported as such.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import RollbackError, SessionTakenOver
from pgdyno.owner import durable

JOURNAL = "journal.jsonl"
CLOSED = "closed"
"""The kind of a closed session's last record."""
_SEED = "pgdyno journal 1"


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One line. `at` is seconds since the epoch; `data` holds plain JSON values, never a secret."""

    sequence: int
    at: float
    kind: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class JournalReading:
    """What a journal's bytes say: the records up to the first line that does not check.

    `torn` is True when one unfinished last line was dropped. `damage` says what is wrong, None when nothing is.
    `valid_bytes` is the length of the part that checked, `chain` the sum of its last line.
    """

    records: tuple[JournalRecord, ...]
    torn: bool
    damage: str | None
    valid_bytes: int
    chain: str


def _canonical(record: JournalRecord) -> str:
    fields = {"seq": record.sequence, "at": record.at, "kind": record.kind, "data": dict(record.data)}
    return json.dumps(fields, sort_keys=True, allow_nan=False, separators=(",", ":"))


def encode(record: JournalRecord, chain: str) -> tuple[bytes, str]:
    """Return the line of a record that follows the line with the sum `chain`, and the record's own sum."""
    text = _canonical(record)
    digest = hashlib.sha256(f"{chain or _SEED}\n{text}".encode()).hexdigest()
    return f'{text[:-1]},"sum":"{digest}"}}\n'.encode(), digest


def _decode_line(line: bytes) -> JournalRecord:
    fields = json.loads(line)
    return JournalRecord(fields["seq"], fields["at"], fields["kind"], fields["data"])


def decode(data: bytes) -> JournalReading:
    """Read a journal from its bytes; never raises, because a rollback must go on with what there is."""
    records: list[JournalRecord] = []
    chain, position = "", 0
    while position < len(data):
        newline = data.find(b"\n", position)
        if newline < 0:
            return JournalReading(tuple(records), True, None, position, chain)
        line = data[position : newline + 1]
        try:
            record = _decode_line(line)
            expected, digest = encode(record, chain)
        except (ValueError, KeyError, TypeError, RecursionError):
            expected, digest = b"", ""
        if line != expected or record.sequence != len(records):
            damage = f"line {len(records) + 1} at byte {position} has a wrong checksum"
            return JournalReading(tuple(records), False, damage, position, chain)
        records.append(record)
        chain, position = digest, newline + 1
    return JournalReading(tuple(records), False, None, position, chain)


def read_journal(path: Path) -> JournalReading:
    """Read a journal from its file; an absent file reads as an empty journal with damage."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        return JournalReading((), False, f"{path} cannot be read: {error.strerror}", 0, "")


def may_be_open(undo_root: Path) -> bool:
    """Tell whether a session below `undo_root` is not closed, or cannot be read.

    Needs nothing but the journals: who only asks for that spends no start-up on what undoes a session. Raises OSError
    where the folder cannot be listed.
    """
    if not undo_root.is_dir():
        return False
    for path in undo_root.iterdir():
        if not path.name.startswith(".") and path.is_dir():
            records = read_journal(path / JOURNAL).records
            if not records or records[-1].kind != CLOSED:
                return True
    return False


class Journal:
    """A journal open for appending. One writer at a time: the session that owns the bundle, or its rollback."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        reading = read_journal(path)
        if reading.damage is not None:
            raise RollbackError(f"journal {path} is damaged", detail=reading.damage)
        if reading.torn:
            os.truncate(path, reading.valid_bytes)
        self._records = list(reading.records)
        self._end = reading.valid_bytes
        self._chain = reading.chain

    @classmethod
    def create(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Journal:
        """Make an empty journal with mode 0600. The caller makes its directory durable."""
        durable.write_new(path, b"")
        return cls(path, clock=clock)

    @property
    def records(self) -> tuple[JournalRecord, ...]:
        """Return what was read and appended so far."""
        return tuple(self._records)

    def append(self, kind: str, data: Mapping[str, object] | None = None) -> JournalRecord:
        """Add a record durably: when this returns, it survives a crash.

        An append that fails or is interrupted (full disk, a signal) leaves the journal as it was; raises OSError.
        Raises SessionTakenOver when another process has appended meanwhile: a watchdog or a rollback.
        """
        record = JournalRecord(len(self._records), self._clock(), kind, dict(data or {}))
        line, digest = encode(record, self._chain)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != self._end:
                raise taken_over(self.path.parent.name)
            _append_line(descriptor, line, self._end)
        finally:
            os.close(descriptor)
        self._records.append(record)
        self._end += len(line)
        self._chain = digest
        return record


def taken_over(session: str) -> SessionTakenOver:
    """Return the error for a session that a watchdog or a rollback has ended behind its back."""
    return SessionTakenOver(
        f"session {session} was ended by its watchdog or by a rollback, and the server was restored",
        hint=f"pgdyno rollback --list says why; the log is watchdog.log in the bundle of {session}.",
    )


def _append_line(descriptor: int, line: bytes, end: int) -> None:
    try:
        written = os.write(descriptor, line)
        while written < len(line):
            written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, end)
        raise
