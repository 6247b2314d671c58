"""The checkpoint messages of every version's log, from 9.x on: pure, and a line that was cut invents no number.

Each figure is taken only together with the text that must follow it ("12571 kB", "26;"), so that digits which were
cut off are noticed: the field is then unknown.
"""

from __future__ import annotations

import re

from pgdyno.model.evidence import Checkpoint
from pgdyno.model.facts import Unknown

CUT = Unknown("the line was cut before it")
NO_START = Unknown("the start of this checkpoint is not in the part of the log that was read")
OTHER_VERSION = Unknown("this version does not write it")

_START = re.compile(r"(?:checkpoint|restartpoint) starting:(.*)")
_COMPLETE = re.compile(r"(?:checkpoint|restartpoint) complete:")
_TOO_FREQUENT = re.compile(r"checkpoints are occurring too frequently \((\d{1,15}) seconds? apart\)")
_BUFFERS = re.compile(r"wrote (\d{1,15}) buffers \((\d{1,15}\.\d{1,15})%\)")
_SLRU = re.compile(r", wrote (\d{1,15}) SLRU buffers;")
_ADDED = re.compile(r"; (\d{1,15}) (?:WAL|transaction log) file\(s\) added,")
_REMOVED = re.compile(r" added, (\d{1,15}) removed,")
_RECYCLED = re.compile(r" removed, (\d{1,15}) recycled;")
_WRITE = re.compile(r"; write=(\d{1,15}\.\d{1,15}) s[,;]")
_SYNC = re.compile(r", sync=(\d{1,15}\.\d{1,15}) s[,;]")
_TOTAL = re.compile(r", total=(\d{1,15}\.\d{1,15}) s[,;]")
_FILES = re.compile(r"; sync files=(\d{1,15}),")
_LONGEST = re.compile(r", longest=(\d{1,15}\.\d{1,15}) s[,;]")
_DISTANCE = re.compile(r"; distance=(\d{1,15}) kB[,;]")
_LSN = re.compile(r"; lsn=([0-9A-F]+/[0-9A-F]+),")
_REDO = re.compile(r", redo lsn=([0-9A-F]+/[0-9A-F]+)$")


def started_cause(message: str) -> str | None:
    """Return why a checkpoint started (`wal`, `time`, `shutdown`, `recovery`, `requested`); None: no such message.

    The flags are those of LogCheckpointStart: `wal` and `time` are the server's own reasons, all others are asked for.
    """
    match = _START.match(message)
    if match is None:
        return None
    flags = match[1].split()
    if "shutdown" in flags:
        return "shutdown"
    if "end-of-recovery" in flags:
        return "recovery"
    return next((flag for flag in ("wal", "time") if flag in flags), "requested")


def too_frequent_gap(message: str) -> int | None:
    """Return N of "checkpoints are occurring too frequently (N seconds apart)"; None when the line is not whole."""
    match = _TOO_FREQUENT.match(message)
    return int(match[1]) if match else None


def parse_complete(message: str, *, at: str | Unknown, cause: str | Unknown, is_whole: bool) -> Checkpoint | None:
    """Parse a "checkpoint complete" message; None when it is none.

    `at` is the time of the line as the log writes it, `cause` what `started_cause` said of the start of the checkpoint;
    Unknown where the log does not tell. `is_whole` says that the line's end was read: only then is the position at its
    very end believed.
    """
    if _COMPLETE.match(message) is None:
        return None
    buffers = _BUFFERS.search(message)
    redo = _REDO.search(message) if is_whole else None
    lsn = _LSN.search(message)
    slru = _SLRU.search(message)
    has_head = _ADDED.search(message) is not None
    return Checkpoint(
        at=at,
        cause=cause,
        buffers=int(buffers[1]) if buffers else CUT,
        buffers_share=float(buffers[2]) / 100 if buffers else CUT,
        wal_added=_integer(_ADDED, message),
        wal_removed=_integer(_REMOVED, message),
        wal_recycled=_integer(_RECYCLED, message),
        write_s=_seconds(_WRITE, message),
        sync_s=_seconds(_SYNC, message),
        total_s=_seconds(_TOTAL, message),
        sync_files=_integer(_FILES, message),
        longest_s=_seconds(_LONGEST, message),
        distance_bytes=_kilobytes(_DISTANCE, message),
        slru_buffers=int(slru[1]) if slru else (OTHER_VERSION if has_head else CUT),
        lsn=lsn[1] if lsn else None,
        redo_lsn=redo[1] if redo else None,
    )


def _integer(pattern: re.Pattern[str], message: str) -> int | Unknown:
    match = pattern.search(message)
    return int(match[1]) if match else CUT


def _seconds(pattern: re.Pattern[str], message: str) -> float | Unknown:
    match = pattern.search(message)
    return float(match[1]) if match else CUT


def _kilobytes(pattern: re.Pattern[str], message: str) -> int | Unknown:
    match = pattern.search(message)
    return int(match[1]) * 1024 if match else CUT
