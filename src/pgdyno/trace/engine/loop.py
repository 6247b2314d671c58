"""The engine: one loop over all sessions, each statement at its due moment, each answer on record.

One thread waits for sockets and the timer; opening sessions, which blocks, is done by others. A statement costs one
`send`, one `recv` and one record; the arithmetic of lag is that of `trace.schema.OUTCOME`.
"""

from __future__ import annotations

import heapq
import os
import select
import ssl
import time
from collections import defaultdict
from collections.abc import Callable
from enum import IntEnum

from pgdyno.trace.engine import tape as tapes
from pgdyno.trace.engine.keys import KeyBook
from pgdyno.trace.engine.ledger import Ledger
from pgdyno.trace.engine.opener import Opener
from pgdyno.trace.engine.pausing import Moment, Pausing
from pgdyno.trace.engine.plan import Clock, EnginePlan
from pgdyno.trace.engine.poll import Poll
from pgdyno.trace.engine.records import CONNECTION_FAILURE, REFUSED_CONNECTION, Skip
from pgdyno.trace.engine.scram import LoginError
from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.stalls import opens_at
from pgdyno.trace.engine.tally import COMPLETE, RunTally
from pgdyno.trace.engine.wire import COPY_FAIL, SYNC, TERMINATE

_CHUNK = 65536
_TICK_US = 200_000
_DUE = 0  # as `_Timed.DUE`: the look-up of an enum member costs as much as the push
_SHUT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Timed(IntEnum):
    """What a moment on the heap is for."""

    DUE, CANCEL, STALL, TICK = range(4)


class Engine:
    """One run over a tape. `write` appends records; `tell` takes progress, about five times a second."""

    def __init__(
        self,
        plan: EnginePlan,
        tape: tapes.Tape,
        write: Callable[[memoryview], object],
        tell: Callable[[RunTally], object],
    ) -> None:
        self.plan, self.tape, self.tally = plan, tape, RunTally()
        self.ended = ""
        """Why the run ends before the tape does; may be set by a signal's handler."""
        self._tell = tell
        self.ledger = Ledger(write, self.tally)
        self._keep = self.ledger.keep
        self._keys = KeyBook(self.tally)
        own = [row for row in tape.sessions if row[0] % plan.shards == plan.shard]
        self._sessions = [
            ReplaySession(number, ordinal, first, first + count) for number, (ordinal, first, count) in enumerate(own)
        ]
        self._live = len(self._sessions)
        self._by_ordinal = {session.ordinal: session for session in self._sessions}
        self._by_fd: dict[int, ReplaySession] = {}
        self._heap: list[Moment] = []
        self._waiting: dict[int, list[ReplaySession]] = defaultdict(list)
        self._ended_seq: dict[int, int] = {}
        """By ordinal of a session, the seq of its last statement that ended."""
        self._poll = Poll()
        self._opener = Opener(plan, self._poll.wake)
        self.pausing = Pausing(self.tally, thinks=plan.clock is Clock.THINK)
        self._begin = 0

    def run(self) -> RunTally:
        """Send the tape; returns what it came to. No session stays open; `ended` is empty for a broken ledger."""
        self._begin = time.monotonic_ns() + int(self.plan.starts_in_s * 1e9)
        now = self._now()
        heapq.heappush(self._heap, (now + _TICK_US, _Timed.TICK, 0, 0))
        try:
            for session in self._sessions:
                self._advance(session, now)
            while self._live and not self.ended:
                if self.pausing.is_asked is not (self.pausing.since is not None):
                    self._pause_or_go_on()
                self._step()
        finally:
            self._close()
        return self.tally

    def _now(self) -> int:
        return (time.monotonic_ns() - self._begin) // 1000

    def _step(self) -> None:
        heap, now = self._heap, self._now()
        while heap[0][0] <= now:
            moment, kind, number, place = heapq.heappop(heap)
            if kind == _Timed.TICK:
                self._tick(now)
                continue
            session = self._sessions[number]
            if session.place == place:
                self._at_moment(session, kind, moment, now)
        by_fd = self._by_fd
        for fd, _ in self._poll.wait(self._begin, now, heap[0][0]):
            found = by_fd.get(fd)
            if found is not None:
                if found.unsent is not None:
                    self._put(found, found.unsent)
                self._read(found)
            elif fd == self._poll.wake:
                os.eventfd_read(fd)
                self._take_opened()

    def _at_moment(self, session: ReplaySession, kind: int, moment: int, now: int) -> None:
        stall = self.plan.stall_ms * 1000
        if kind == _Timed.DUE:
            if self.pausing.rests(session):
                self.pausing.rest(session)
            elif not session.gates:
                self._do(session, now)
            else:
                session.is_held = True
                self._after(session, max(session.due, session.previous_done) + stall, _Timed.STALL)
        elif kind == _Timed.CANCEL:
            if session.is_busy:
                self.tally.cancelled += 1
                self._opener.cancel(session)
        elif self.pausing.rests(session):
            self._after(session, now + stall, _Timed.STALL)
        elif session.gates and (opens := opens_at(session, self._by_ordinal, moment, now, stall)) > now:
            self._after(session, opens, _Timed.STALL)
        elif session.gates:
            self.tally.stalls += 1
            session.gates, session.is_held, session.released = [], False, opens
            self._do(session, now)

    def _after(self, session: ReplaySession, moment: int, kind: _Timed) -> None:
        heapq.heappush(self._heap, (moment, kind, session.number, session.place))

    # -- what is sent ---------------------------------------------------------------------------------------

    def _advance(self, session: ReplaySession, now: int) -> None:
        """Load the session's next record and do it, or wait for its moment."""
        while session.place < session.last:
            self._load(session)
            if session.lost or session.act == tapes.Act.SKIP:
                self._skip(session, session.lost or Skip.REFUSED)
            elif session.is_broken:
                session.is_broken = bool(session.flags & tapes.HOLDS)
                self._skip(session, Skip.PIPELINE_FAILED)
            elif session.due > now or session.gates or self.pausing.since is not None:
                heapq.heappush(self._heap, (max(session.due, now), _DUE, session.number, session.place))
                return
            else:
                self._do(session, now)
                return
        self._live -= 1

    def _load(self, session: ReplaySession) -> None:
        offset = self.tape.index[session.place]
        (
            due, think, session.cancel_us, _, session.seq, session.act,
            session.flags, session.expected, gates, length,
        ) = tapes.RECORD.unpack_from(self.tape.content, offset)  # fmt: skip
        session.start = offset + tapes.RECORD.size + gates * tapes.GATE.size
        session.end = session.start + length
        if not session.in_transaction:
            session.shift = self.pausing.shift
        if self.plan.clock is Clock.THINK and think >= 0 and session.previous_done > 0:
            session.due = session.previous_done + int(think / self.plan.speed)
        else:
            session.due = int(due / self.plan.speed) + session.shift
        session.sent = session.first = session.released = session.rows = -1
        session.received, session.sqlstate = 0, tapes.NO_ERROR
        if gates:
            asked = tapes.GATE.iter_unpack(self.tape.view[offset + tapes.RECORD.size : session.start])
            session.gates = [(other, seq) for other, seq in asked if self._ended_seq.get(other, -1) < seq]
            for other, _ in session.gates:
                self._waiting[other].append(session)
        if session.flags & tapes.HAS_KEYS:  # it moves `start` on, behind the block of keys
            self._keys.load(session, self.tape.view)

    def _do(self, session: ReplaySession, now: int) -> None:
        if session.act == tapes.Act.SEND and session.connection is not None:
            session.is_busy = True
            session.sent = (time.monotonic_ns() - self._begin) // 1000
            self.tally.sent += 1
            if session.cancel_us >= 0:
                self._after(session, session.sent + session.cancel_us, _Timed.CANCEL)
            payload = self.tape.view[session.start : session.end]
            if session.flags & tapes.HOLDS:
                session.closes = 1 + (payload[0] == ord("C"))  # what closes a statement first is answered alike
            self._put(session, payload if not session.names else self._keys.message(session, payload))
        elif session.lost or session.act == tapes.Act.SEND:
            session.lost = session.lost or Skip.NOT_CONNECTED
            self._skip(session, session.lost)
            self._advance(session, now)
        elif session.act == tapes.Act.CONNECT:
            session.is_busy = True
            self._opener.open(session, bytes(self.tape.view[session.start : session.end]))
        else:
            self._disconnect(session)

    def _put(self, session: ReplaySession, payload: memoryview) -> None:
        assert session.connection is not None
        try:
            sent = session.connection.send(payload)
        except _SHUT:
            sent = 0
        except OSError as error:
            self._lose(session, str(error))
            return
        if sent == len(payload) and session.unsent is None:
            return
        was_waiting, session.unsent = session.unsent is not None, payload[sent:] if sent < len(payload) else None
        if was_waiting != (session.unsent is not None):
            wanted = select.EPOLLIN if was_waiting else select.EPOLLIN | select.EPOLLOUT
            self._poll.epoll.modify(session.connection.fileno(), wanted)

    # -- what comes back ------------------------------------------------------------------------------------

    def _read(self, session: ReplaySession) -> None:
        connection = session.connection
        while connection is not None:
            try:
                data = connection.recv(_CHUNK)
            except _SHUT:
                return
            except OSError as error:
                self._lose(session, str(error))
                return
            now = (time.monotonic_ns() - self._begin) // 1000
            if session.first < 0:
                session.first = now
            try:
                is_ready = session.take(data)
            except ValueError as error:
                self._lose(session, f"what answers is not PostgreSQL: {error}")
                return
            if is_ready and session.is_busy:
                self._answered(session, now)
            elif session.wants_copy:
                self._refuse_copy(session)
            elif session.wants_sync:
                session.wants_sync, session.is_broken = False, True
                self._put(session, memoryview(SYNC))
            elif not data:
                self._lose(session, "the server closed the connection")
            elif not session.is_busy:  # a notice between two statements
                session.first, session.received, session.sqlstate = -1, 0, tapes.NO_ERROR
            if len(data) < _CHUNK and not isinstance(connection, ssl.SSLSocket):
                return
            connection = session.connection

    def _refuse_copy(self, session: ReplaySession) -> None:
        session.wants_copy = False
        # A simple query ends with its own ReadyForQuery; after an extended one the Sync was taken for data.
        is_simple = self.tape.view[session.start] == ord("Q")
        self._put(session, memoryview(COPY_FAIL if is_simple else COPY_FAIL + SYNC))

    def _answered(self, session: ReplaySession, now: int) -> None:
        if session.is_restoring:
            session.is_restoring = False
        else:
            self._keep(session, now, Skip.SENT)
            if session.learns:
                self._keys.learn(session)
            if session.restore_role and session.flags & tapes.RESETS_ROLE:
                session.is_restoring = True
                self._put(session, memoryview(session.restore_role))
                return
        self._next(session, now)

    def _next(self, session: ReplaySession, now: int) -> None:
        """Leave the record that has ended, for the next one."""
        session.is_busy, session.previous_done = False, now
        if self._poll.away < now:  # it may have come at any moment since
            session.debt += now - max(session.sent, self._poll.away)
        self._leave(session, now)
        self._advance(session, now)

    def _leave(self, session: ReplaySession, now: int) -> None:
        session.place += 1
        if session.gates or session.is_held:
            session.gates, session.is_held = [], False
        if session.flags & tapes.HAS_KEYS:
            self._keys.forget(session)
        self._ended_seq[session.ordinal] = session.seq
        if session.ordinal in self._waiting:
            self._let_go(session.ordinal, now)

    def _let_go(self, ordinal: int, now: int) -> None:
        """Take the gates away that a session has passed."""
        for waiting in self._waiting.pop(ordinal):
            waiting.gates = [gate for gate in waiting.gates if self._ended_seq.get(gate[0], -1) < gate[1]]
            if any(other == ordinal for other, _ in waiting.gates):
                self._waiting[ordinal].append(waiting)
            elif not waiting.gates and waiting.is_held:
                waiting.is_held, waiting.released = False, now
                self._after(waiting, now, _Timed.DUE)  # not at once: what it sets free may be a chain of thousands

    def _pause_or_go_on(self) -> None:
        now = self._now()
        if self.pausing.since is None:
            self.pausing.begin(now)
        elif now >= 0:  # nothing is due before the run begins, and a negative end says that a pause lasts
            self._heap = self.pausing.go_on(now, self._sessions, self._heap, _DUE)
            heapq.heapify(self._heap)

    # -- sessions -------------------------------------------------------------------------------------------

    def _take_opened(self) -> None:
        for session, began, found in self._opener.answered():
            now = session.first = self._now()
            session.sent = (began - self._begin) // 1000
            if isinstance(found, LoginError):
                self.tally.not_opened += 1
                self.tally.because(str(found))
                session.lost, session.sqlstate = Skip.NOT_CONNECTED, REFUSED_CONNECTION
            else:
                session.connection, session.pid, session.key = found.socket, found.pid, found.key
                session.restore_role, session.partial, session.passing = found.restore_role, bytes(found.backlog), 0
                self._by_fd[found.socket.fileno()] = session
                self._poll.epoll.register(found.socket, select.EPOLLIN)
                self.tally.open_sessions += 1
            self._keep(session, now, Skip.SENT)
            self._next(session, now)

    def _disconnect(self, session: ReplaySession) -> None:
        now = session.sent = self._now()
        if session.connection is not None:
            self._put(session, memoryview(TERMINATE))
        self._drop(session)
        self._keep(session, now, Skip.SENT)
        self._next(session, now)

    def _lose(self, session: ReplaySession, reason: str) -> None:
        if session.connection is None:
            return
        self._drop(session)
        self.tally.lost_sessions += 1
        self.tally.because(reason)
        session.lost = Skip.CONNECTION_LOST
        now = self._now()
        if session.is_busy:
            if not session.is_restoring:
                session.sqlstate = CONNECTION_FAILURE
                self._keep(session, now, Skip.SENT)
            session.is_restoring = False
            self._next(session, now)

    def _drop(self, session: ReplaySession) -> None:
        connection, session.connection, session.unsent = session.connection, None, None
        session.in_transaction, session.wants_sync, session.closes = False, False, 0
        if connection is not None:
            self._by_fd.pop(connection.fileno(), None)
            connection.close()
            self.tally.open_sessions -= 1

    # -- what is kept ---------------------------------------------------------------------------------------

    def _skip(self, session: ReplaySession, why: Skip) -> None:
        self.tally.skipped += 1
        self._keep(session, -1, why)
        self._leave(session, self._now())

    def _tick(self, now: int) -> None:
        heapq.heappush(self._heap, (now + _TICK_US, _Timed.TICK, 0, 0))
        if now % 1_000_000 < _TICK_US:  # about once a second, so that a tape of any length takes the memory of one
            self.tape.let_go()
        self.ledger.flush()
        if self.ledger.broken:
            self.ended = self.ledger.broken
        if self.plan.max_seconds is not None and now - self.pausing.total(now) >= self.plan.max_seconds * 1e6:
            self.ended = "the time limit"
        self._report(now)

    def _report(self, now: int) -> None:
        self.pausing.count(self._sessions)
        self.tally.at_us, self.tally.cpu_s = now, time.process_time()
        self._tell(self.tally)

    def _close(self) -> None:
        """End all sessions; what the server is still at is cancelled, so that nothing of ours goes on there."""
        self.pausing.end(max(self._now(), 0), self._sessions)
        busy = [session for session in self._sessions if session.is_busy and session.connection is not None]
        self._opener.close(busy)
        for session in busy:
            if not session.is_restoring:
                self._keep(session, -1, Skip.RUN_ENDED)
        for session in self._sessions:
            self._drop(session)
        self.ledger.flush()
        if not self.ledger.broken:
            self.tally.ended = self.ended or ("interrupted" if self._live else COMPLETE)
            self._report(self._now())
        self._poll.close()
