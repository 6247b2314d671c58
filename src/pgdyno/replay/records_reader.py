"""The records of a running engine as transactions, read as they come; and whether the engine kept its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.replay_comparison import Errors, Limits
from pgdyno.owner.durable import read_regular
from pgdyno.replay.reel import Reel
from pgdyno.stats.replay_fidelity import Schedule, judge_fidelity
from pgdyno.trace.outcome import DTYPE, Records, classes, ended_statements
from pgdyno.trace.schema import AnswerClass
from pgdyno.units import percent_text
from pgdyno.workloads.load_warnings import LoadWarning, LoadWarningKind
from pgdyno.workloads.pgbench.transaction_log import Status, TransactionLog

RECORDS, BEGIN = "records", "began"
"""In the folder of a run: what the engine appends to, and the moment of its begin in us since the epoch, as text."""
_PIECE = DTYPE.itemsize * 10_000
_DEADLOCK = b"40P01"
_LEAST_SENT = 0.99
"""Of what was due: a server that leaves more unanswered is behind, which is said."""


@dataclass
class RecordsReader:
    """What one engine has answered by now; stands where the reader of pgbench's logs stands.

    `by_service` takes a statement's time from its sending, not from its due moment. `think_us` are captured pauses,
    at the speed of the replay. An error that the capture has as well is neither a failure nor done work: it is counted
    in `answered` and `expected`, and given to nobody as a transaction, since an error says nothing of latencies.
    """

    folder: Path
    reel: Reel
    speed: float
    seconds: float
    by_service: bool
    error_limit_percent: float
    is_scheduled: bool
    malformed: int = 0
    paused_us: int = 0
    captured_deadlocks: int = 0
    whole_until_us: int | None = None
    answered: int = 0
    unlike: int = 0
    expected: int = 0
    _offset: int = 0
    _began_us: int | None = None
    _lateness: list[tuple[NDArray[np.int64], ...]] = field(default_factory=list)

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the file of records, where it is there by now."""
        path = self.folder / RECORDS
        return (path,) if path.exists() else ()

    def read_new(self) -> Iterator[TransactionLog]:
        """Yield the statements that were answered since the last call, but for expected errors, piece by piece."""
        if self._began_us is None:
            try:
                text = read_regular(self.folder / BEGIN, 64)
            except FileNotFoundError:
                return
            if not text.endswith(b"\n"):
                return
            self._began_us = int(text)
        for path in self.files:
            while data := read_regular(path, _PIECE, self._offset):
                whole = len(data) // DTYPE.itemsize * DTYPE.itemsize
                if not whole:
                    return
                self._offset += whole
                found = self._taken(np.frombuffer(data[:whole], DTYPE), self._began_us)
                if len(found):
                    yield found

    def read_rest(self) -> Iterator[TransactionLog]:
        """Yield what is left, once the engine has ended."""
        yield from self.read_new()

    def _taken(self, records: Records, began_us: int) -> TransactionLog:
        records = records[ended_statements(records)]
        if records.size:
            self.whole_until_us = began_us + int(records["done_us"].max())
            lateness = (records[name].astype(np.int64) for name in ("injector_us", "gate_us", "server_us"))
            self._lateness.append(tuple(lateness))
        answers = classes(records)
        is_expected, is_fine = answers == AnswerClass.EXPECTED, answers == AnswerClass.SUCCESS
        self.answered += records.size
        self.expected += int(is_expected.sum())
        self.unlike += int((~is_fine & ~is_expected).sum())
        self.captured_deadlocks += int((is_expected & (records["sqlstate"] == _DEADLOCK)).sum())
        records, is_fine = records[~is_expected], is_fine[~is_expected]
        due, sent, done = (records[name].astype(np.int64) for name in ("due_us", "sent_us", "done_us"))
        session, seq = records["session"].astype(np.int64), records["seq"].astype(np.int64)
        took = np.maximum(done - (sent if self.by_service else due), 0)
        return TransactionLog(
            end_us=began_us + done,
            latency_us=np.where(is_fine, took, 0),
            script=self.reel.class_of(session, seq),
            status=np.where(is_fine, Status.OK, Status.FAILED).astype(np.int8),
            lag_us=None if self.by_service else np.maximum(sent - due, 0),
        )

    @property
    def late(self) -> str | None:
        """Return why the engine, not the server, did not keep the schedule; None where it did."""
        if not self._lateness:
            return None
        injector, gate, server = (np.concatenate(parts) for parts in zip(*self._lateness, strict=True))
        think = (np.frombuffer(self.reel.taped.think_us, np.int64) / self.speed).astype(np.int64)
        due = np.zeros_like(injector)  # a window ends by the clock: when its last statement was sent is no rate
        schedule = Schedule(due, injector, gate, server, think, statements=due.size, sent=due.size, refused=0)
        limits = Limits()
        found = judge_fidelity(schedule, Errors(0, (), has_control=False), limits.certification, limits).invalid
        return "; ".join(found) or None

    @property
    def void(self) -> str | None:
        """Return why the run says nothing of the load that was captured: too many answers are not the captured ones."""
        if not self.answered or 100 * self.unlike <= self.error_limit_percent * self.answered:
            return None
        return (
            f"{self.unlike:,} of {self.answered:,} answers are not those of the capture, "
            f"more than {self.error_limit_percent:g} %"
        )

    @property
    def warnings(self) -> tuple[LoadWarning, ...]:
        """Return that the server fell behind, where it did."""
        wanted = int(np.searchsorted(self.reel.due_us, self.seconds * 1e6 * self.speed))
        if not self.is_scheduled or self.answered >= _LEAST_SENT * wanted:
            return ()
        text = (
            f"the server fell behind: {percent_text(self.answered / wanted)} of the {wanted:,} statements due were "
            "answered by the end, and what was not has no latency"
        )
        return (LoadWarning(LoadWarningKind.RATE_NOT_REACHED, text, "Lower -D speed."),)
