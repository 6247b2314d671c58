"""What a run has come to: each statement's record, gathered and handed over, and the sums of them all."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.trace.engine.poll import LATE_US
from pgdyno.trace.engine.records import RECORD, Skip
from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tally import RunTally

_GATHERED = 1024


class Ledger:
    """Makes a record of what a session is at; `write` is given many at once."""

    def __init__(self, write: Callable[[memoryview], object], tally: RunTally) -> None:
        self._write, self._tally = write, tally
        self._records, self._filled = bytearray(RECORD.size * _GATHERED), 0
        self.broken = ""
        """Why no more records can be written."""

    def keep(self, session: ReplaySession, done: int, why: Skip) -> None:
        """Put the session's record on file; its lag is split by what it waited for.

        An engine that stood still is late once, and its session then behind for as long as it takes to catch up. That
        is still the engine's, though each statement waits for an answer, where it is at least half of what the session
        is behind: beyond that a server is slow.
        """
        due, sent = session.due, session.sent
        injector = gate = server = 0
        if sent >= 0 and why is Skip.SENT:
            may = due
            if session.previous_done > may:
                may, server = session.previous_done, session.previous_done - due
            if session.released > may:
                may, gate = session.released, session.released - may
            injector = sent - may
            if session.debt and 2 * session.debt >= server:
                moved = min(session.debt, server)
                injector, server = injector + moved, server - moved
            session.debt = injector if injector >= LATE_US else 0
            if injector > self._tally.late_us:
                self._tally.late_us = injector
            if done >= 0:
                self._tally.done += 1
                if session.sqlstate != session.expected:
                    self._tally.errors += 1
        if self._filled == len(self._records):
            self.flush()
        RECORD.pack_into(
            self._records, self._filled, session.ordinal, session.seq, due, sent, session.first, done,
            injector, gate, server, session.rows, session.received, session.sqlstate, session.expected, why,
        )  # fmt: skip
        self._filled += RECORD.size

    def flush(self) -> None:
        """Hand over what has gathered. After a failure nothing more: a part of a record may stand at the end."""
        if self._filled and not self.broken:
            try:
                self._write(memoryview(self._records)[: self._filled])
            except OSError as error:
                self.broken = f"the records cannot be written: {error.strerror}"
        self._filled = 0
