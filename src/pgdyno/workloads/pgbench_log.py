"""Read pgbench's transaction logs (`-l`), while they grow or when the run is over.

A line is `client count time script epoch micros [lag] [retries]`: `lag` with `-R`, `retries` with `--max-tries`
other than 1. In place of the time stands a word for a transaction that has none: `skipped` (13 to 18), `failed`, or
`serialization` and `deadlock` with `--failures-detailed` (15 to 18). `epoch` and `micros` are the moment of
completion. Every thread writes a file of its own: `prefix.PID`, `prefix.PID.1` and so on.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.target.durable import read_regular
from pgdyno.workloads.transaction_log import Int64s, Status, TransactionLog, concatenate

_WORDS = {
    b" skipped ": Status.SKIPPED,
    b" failed ": Status.FAILED,
    b" serialization ": Status.SERIALIZATION,
    b" deadlock ": Status.DEADLOCK,
}
_EXPECTED = b"0123456789 -\n"
_BLOCK_LINES = 500
_PLAIN_COLUMNS = 6
_TIME = 2
_MOST_SCRIPTS = 128  # pgbench's own limit


@dataclass(frozen=True, slots=True)
class LogFormat:
    """Which of the optional columns a log has: `lag` under `-R`, `retries` with `--max-tries` other than 1."""

    lag: bool = False
    retries: bool = False

    @property
    def columns(self) -> int:
        """Return the number of words in a line."""
        return _PLAIN_COLUMNS + self.lag + self.retries


@dataclass(frozen=True, slots=True, eq=False)
class ParsedLog:
    """The transactions of a piece of log, and how many of its lines were not of the format."""

    log: TransactionLog
    malformed: int = 0


def parse_lines(data: bytes, form: LogFormat) -> ParsedLog:
    """Parse whole lines of a log. Never raises: a line that is not of the format is counted and left out.

    About 2 million lines a second; only the neighbourhood of a damaged line takes the slow road.
    """
    for word, status in _WORDS.items():
        data = data.replace(word, b" %d " % status)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    table = _parse(data, form)
    return ParsedLog(_columns(table, form), lines - len(table))


class LogReader:
    """The log files of one pgbench process, read as they grow. A kill may leave the last line unfinished."""

    def __init__(self, prefix: Path, pid: int, form: LogFormat) -> None:
        self._prefix = prefix
        self._name = re.compile(re.escape(f"{prefix.name}.{pid}") + r"(\.\d+)?")
        self._form = form
        self._offsets: dict[Path, int] = {}
        self._pieces: list[TransactionLog] = []
        self._malformed = 0

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the log files that exist by now, one for each thread that has finished something."""
        return tuple(sorted(file for file in self._prefix.parent.iterdir() if self._name.fullmatch(file.name)))

    def read_new(self) -> TransactionLog:
        """Read the lines that were completed since the last call, keep them and return them."""
        pieces = [self._read(file, last=False) for file in self.files]
        return concatenate([piece for piece in pieces if len(piece)])

    def read_all(self) -> ParsedLog:
        """Read the rest and return the transactions of the whole run. To be called once, when pgbench has ended."""
        for file in self.files:
            self._read(file, last=True)
        return ParsedLog(concatenate(self._pieces), self._malformed)

    def _read(self, file: Path, *, last: bool) -> TransactionLog:
        offset = self._offsets.get(file, 0)
        # The load's account made the file: what is in its place may be a link or a pipe.
        data = read_regular(file, -1, offset)
        end = data.rfind(b"\n") + 1
        if last and end < len(data):
            self._malformed += 1
        self._offsets[file] = offset + end
        parsed = parse_lines(data[:end], self._form)
        self._malformed += parsed.malformed
        if len(parsed.log):
            self._pieces.append(parsed.log)
        return parsed.log


def _parse(data: bytes, form: LogFormat) -> Int64s:
    table = _parse_fast(data, form)
    if table is not None:
        return table
    lines = data.split(b"\n")
    blocks = [b"\n".join(lines[start : start + _BLOCK_LINES]) for start in range(0, len(lines), _BLOCK_LINES)]
    tables = [(block, _parse_fast(block, form)) for block in blocks]
    return np.concatenate([_parse_slow(block, form) if found is None else found for block, found in tables])


def _parse_fast(data: bytes, form: LogFormat) -> Int64s | None:
    """Return the table, or None when any line is not of the format."""
    if not data.strip():
        return np.zeros((0, form.columns), np.int64)
    if data.translate(None, _EXPECTED):
        return None
    try:
        table = np.loadtxt(io.BytesIO(data), dtype=np.int64, ndmin=2, comments=None)
    except ValueError:
        return None
    if table.shape[1] != form.columns:
        return None
    return table if bool(_valid(table).all()) else None


def _parse_slow(data: bytes, form: LogFormat) -> Int64s:
    rows: list[Sequence[int]] = []
    for line in data.split(b"\n"):
        words = line.split()
        if len(words) == form.columns and all(re.fullmatch(rb"-?\d{1,18}", word) for word in words):
            rows.append([int(word) for word in words])
    table = np.array(rows, np.int64).reshape(-1, form.columns)
    return table[_valid(table)]


def _valid(table: Int64s) -> NDArray[np.bool_]:
    valid = (table[:, _TIME] >= min(Status)) & (table[:, 5] < 1_000_000) & (table[:, 3] < _MOST_SCRIPTS)
    for column in range(table.shape[1]):
        if column != _TIME:
            valid &= table[:, column] >= 0
    return valid


def _columns(table: Int64s, form: LogFormat) -> TransactionLog:
    time = table[:, _TIME]
    return TransactionLog(
        end_us=table[:, 4] * 1_000_000 + table[:, 5],
        latency_us=np.maximum(time, 0),
        script=table[:, 3].astype(np.int16),
        status=np.minimum(time, 0).astype(np.int8),
        lag_us=table[:, 6].copy() if form.lag else None,
        retries=np.minimum(table[:, 6 + form.lag], np.iinfo(np.int16).max).astype(np.int16) if form.retries else None,
        client=np.minimum(table[:, 0], np.iinfo(np.int16).max).astype(np.int16),
    )
