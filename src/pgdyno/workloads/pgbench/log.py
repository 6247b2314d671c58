"""Read pgbench's transaction logs (`-l`), while they grow or when the run is over.

A line is `client count time script epoch micros [lag] [retries]`: `lag` with `-R`, `retries` with `--max-tries`
other than 1. In place of the time stands a word for a transaction that has none: `skipped`, `failed`, or
`serialization` and `deadlock` with `--failures-detailed` (from 15 on). `epoch` and `micros` are the moment of
completion. `count` numbers the transactions of a client from 1 on. Every thread writes a file of its own: `prefix.PID`,
`prefix.PID.1` and so on.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.owner.durable import read_regular_into
from pgdyno.workloads.load_warnings import LoadWarning
from pgdyno.workloads.pgbench.log_words import FIRST, padded, read_columns
from pgdyno.workloads.pgbench.transaction_log import Int64s, Status, TransactionLog

_MARK = 900_000_000_000_000
"""Words of the time column become numbers from here on, for the sake of speed: no transaction takes 28 years."""
_WORDS = {
    b" skipped ": Status.SKIPPED,
    b" failed ": Status.FAILED,
    b" serialization ": Status.SERIALIZATION,
    b" deadlock ": Status.DEADLOCK,
}
_BLOCK_LINES = 500
_PLAIN_COLUMNS = 6
_CLIENT, _COUNTER, _TIME, _SCRIPT, _EPOCH, _MICROS = range(_PLAIN_COLUMNS)
_SECOND_US = 1_000_000
_MOST_SCRIPTS = 128  # pgbench's own limit
_HIGHEST = np.iinfo(np.int16).max
PIECE_BYTES = 2 << 20
"""What is read of a log at a time and comes as one piece: a second of 60,000 transactions."""
KEPT_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


@dataclass(frozen=True, slots=True)
class PgbenchLogFormat:
    """Which of the optional columns a log has: `lag` under `-R`, `retries` with `--max-tries` other than 1.

    `paced`: of each client every second line, from the first on, is a pause and no transaction.
    """

    lag: bool = False
    retries: bool = False
    paced: bool = False

    @property
    def columns(self) -> int:
        """Return the number of words in a line."""
        return _PLAIN_COLUMNS + self.lag + self.retries


@dataclass(frozen=True, slots=True, eq=False)
class ParsedLog:
    """The transactions of a piece of log, and how many of its lines were not of the format."""

    log: TransactionLog
    malformed: int = 0
    paused_us: int = 0
    """What the pauses took that were left out."""


def parse_lines(data: bytes, form: PgbenchLogFormat) -> ParsedLog:
    """Parse whole lines of a log. Never raises: a line that is not of the format is counted and left out.

    About twelve million lines a second; only the neighbourhood of a damaged line takes the slow road.
    """
    memory, end = _filled(data)
    return _parse_padded(memory, end, form)


def _filled(data: bytes) -> tuple[bytearray, int]:
    end = FIRST + len(data)
    memory = padded(len(data) + 1)
    memory[FIRST:end] = data
    if data and not data.endswith(b"\n"):
        memory[end : end + 1] = b"\n"
        end += 1
    return memory, end


def _parse_padded(memory: bytearray, end: int, form: PgbenchLogFormat) -> ParsedLog:
    table, malformed = _parse_fast(memory, end, form), 0
    if table is None:
        data = bytes(memory[FIRST:end])
        lines = data.count(b"\n")
        for word, status in _WORDS.items():
            data = data.replace(word, b" %d " % (_MARK - status))
        table = _parse(data, form)
        malformed = lines - table.shape[1]
    if not form.paced:
        return ParsedLog(_columns(table, form), malformed)
    is_pause = table[_COUNTER] % 2 == 1
    paused_us = int(table[_TIME][is_pause].sum())
    return ParsedLog(_columns(np.ascontiguousarray(table[:, ~is_pause]), form), malformed, paused_us)


class PgbenchLogReader:
    """The log files of one pgbench process, read as they grow, each byte once. A kill may leave a line unfinished."""

    def __init__(self, prefix: Path, pid: int, form: PgbenchLogFormat) -> None:
        self._prefix = prefix
        self._name = re.compile(re.escape(f"{prefix.name}.{pid}") + r"(\.\d+)?")
        self._form = form
        self._offsets: dict[Path, int] = {}
        self._ends_us: dict[Path, int] = {}
        self._memory = padded(PIECE_BYTES)
        keep_freed_memory()
        self.late: str | None = None
        self.void: str | None = None
        self.warnings: tuple[LoadWarning, ...] = ()
        self.malformed = 0
        """Lines so far that were not of the format."""
        self.captured_deadlocks = 0
        self.paused_us = 0
        """How long clients have paused between their transactions, all together."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the log files that exist by now, one for each thread that has finished something."""
        folder = self._prefix.parent
        names = sorted(entry.name for entry in os.scandir(folder))
        return tuple(folder / name for name in names if self._name.fullmatch(name))

    @property
    def whole_until_us(self) -> int | None:
        """Return up to when every log has told all that ended, as far as it was read; None where one is empty."""
        known = [self._ends_us.get(file) for file in self.files]
        told = [end for end in known if end is not None]
        return min(told) if told and len(told) == len(known) else None

    def read_new(self) -> Iterator[TransactionLog]:
        """Yield the transactions whose lines were completed since the last call, piece by piece.

        A piece is of one thread and in the order of the log; at most `PIECE_BYTES` of it are in memory.
        """
        for file in self.files:
            yield from self._read(file)

    def read_rest(self) -> Iterator[TransactionLog]:
        """Yield what is left. To be called once, when pgbench has ended: an unfinished line is a damaged one then."""
        yield from self.read_new()
        for file in self.files:
            self.malformed += file.lstat().st_size > self._offsets.get(file, 0)

    def _read(self, file: Path) -> Iterator[TransactionLog]:
        size = file.lstat().st_size  # what comes while we read is for the next call: a fast writer must not hold us
        memory = self._memory
        while (offset := self._offsets.get(file, 0)) < size:
            # The load's account made the file: what is in its place may be a link or a pipe.
            read = read_regular_into(file, memoryview(memory)[FIRST : FIRST + min(PIECE_BYTES, size - offset)], offset)
            end = memory.rfind(b"\n", FIRST, FIRST + read) + 1
            if not end:
                return
            self._offsets[file] = offset + end - FIRST
            parsed = _parse_padded(memory, end, self._form)
            self.malformed += parsed.malformed
            self.paused_us += parsed.paused_us
            if len(parsed.log):
                self._ends_us[file] = int(parsed.log.end_us[-1])
                yield parsed.log


def _parse(data: bytes, form: PgbenchLogFormat) -> Int64s:
    table = _parse_fast(*_filled(data), form)
    if table is not None:
        return table
    lines = data.split(b"\n")[:-1]
    blocks = [b"\n".join([*lines[at : at + _BLOCK_LINES], b""]) for at in range(0, len(lines), _BLOCK_LINES)]
    tables = [(block, _parse_fast(*_filled(block), form)) for block in blocks]
    return np.concatenate([_parse_slow(block, form) if found is None else found for block, found in tables], axis=1)


def _parse_fast(memory: bytearray, end: int, form: PgbenchLogFormat) -> Int64s | None:
    """Return the table, shape (columns, lines), or None when any line is not of the format."""
    table = read_columns(memory, end, form.columns, counter=form.paced)
    is_valid = table is not None and (
        table[_MICROS].max(initial=0) < _SECOND_US
        and table[_SCRIPT].max(initial=0) < _MOST_SCRIPTS
        and (table[_TIME].max(initial=0) < _MARK or bool(_valid(table).all()))
    )
    return table if is_valid else None


def _parse_slow(data: bytes, form: PgbenchLogFormat) -> Int64s:
    rows: list[Sequence[int]] = []
    for line in data.split(b"\n"):
        words = line.split()
        if len(words) == form.columns and all(re.fullmatch(rb"\d{1,18}", word) for word in words):
            rows.append([int(word) for word in words])
    table = np.array(rows, np.int64).reshape(-1, form.columns).T
    return np.ascontiguousarray(table[:, _valid(table)])


def _valid(table: Int64s) -> NDArray[np.bool_]:
    time = table[_TIME]
    if not table.shape[1]:
        return np.zeros(0, np.bool_)
    valid = (table[_MICROS] < _SECOND_US) & (table[_SCRIPT] < _MOST_SCRIPTS)
    if time.max() >= _MARK:
        valid &= (time < _MARK) | ((time > _MARK) & (time <= _MARK - min(Status)))
    return np.asarray(valid, np.bool_)


def _columns(table: Int64s, form: PgbenchLogFormat) -> TransactionLog:
    """Return the table's columns. Overwrites it."""
    client, _, time, script, end_us, micros = table[:_PLAIN_COLUMNS]
    end_us *= _SECOND_US
    end_us += micros
    if client.max(initial=0) > _HIGHEST:
        client = np.minimum(client, _HIGHEST)
    status = np.zeros(time.size, np.int8)
    if time.max(initial=0) >= _MARK:
        told = time >= _MARK
        time, status = np.where(told, 0, time), np.where(told, _MARK - time, 0).astype(np.int8)
    return TransactionLog(
        end_us=end_us,
        latency_us=time,
        script=script.astype(np.int16),
        status=status,
        lag_us=table[6] if form.lag else None,
        retries=np.minimum(table[6 + form.lag], _HIGHEST).astype(np.int16) if form.retries else None,
        client=client.astype(np.int16),
    )


def keep_freed_memory() -> None:
    """Give freed blocks of up to `KEPT_BYTES`, and so much of the heap's end, back to nobody; may be called again.

    A second of a fast load's log is parsed in some ten megabytes. Given back each time, they come again as a thousand
    page faults: a tenth of what a run costs. Nothing happens where the C library is another than GNU's.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
