"""Lateness of a statement, split into what the engine, the gates and the server caused; and when an engine was away."""

from __future__ import annotations

import os
import time

from pgdyno.trace.engine.ledger import Ledger
from pgdyno.trace.engine.poll import LATE_US, NEVER, Poll
from pgdyno.trace.engine.records import RECORD, Skip
from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tally import RunTally

PAUSE, ANSWER = 20_000, 1_000


def split(session: ReplaySession, **times: int) -> tuple[int, int, int]:
    """Return injector, gate and server of the session's next record."""
    for name, value in times.items():
        setattr(session, name, value)
    written = bytearray()
    ledger = Ledger(lambda data: written.extend(data), RunTally())
    ledger.keep(session, session.sent + ANSWER, Skip.SENT)
    ledger.flush()
    injector, gate, server = RECORD.unpack(written)[6:9]
    return int(injector), int(gate), int(server)


def behind(first_sent: int, statements: int, *, answer: int = ANSWER) -> list[tuple[int, int, int]]:
    """Send statements that are due each PAUSE, the first of them late, each as soon as it may be."""
    session, found, sent = ReplaySession(0, 0, 0, 9), [], first_sent
    for number in range(statements):
        found.append(split(session, due=number * PAUSE, sent=sent))
        session.previous_done = sent + answer
        sent = max(session.previous_done, (number + 1) * PAUSE)
    return found


def test_the_parts_are_what_a_statement_waited_for() -> None:
    session = ReplaySession(0, 0, 0, 9)
    assert split(session, due=1000, sent=1300) == (300, 0, 0)
    assert split(session, due=1000, sent=9300, previous_done=9000) == (300, 0, 8000)
    assert split(session, due=1000, sent=9300, previous_done=3000, released=9000) == (300, 6000, 2000)


def test_what_a_session_is_behind_by_an_engine_that_stood_still_is_the_engines() -> None:
    found = behind(1_500_000, 100)
    late = [sum(parts) for parts in found]
    assert late[78] > LATE_US > late[80] == 0, "it has caught up"
    for injector, gate, server in found[:78]:
        assert (injector > 0, gate, server) == (True, 0, 0)


def test_a_server_that_is_slow_is_not_excused_by_an_engine_that_was_late_once() -> None:
    found = behind(5_000, 100, answer=3 * PAUSE)
    assert found[0] == (5_000, 0, 0)
    injector, _, server = found[-1]
    assert (injector, server) == (0, sum(found[-1]))
    assert behind(LATE_US - 1, 9, answer=3 * PAUSE)[1][0] == 0, "so little may be of any machine"


def test_an_answer_that_was_read_late_is_late_by_the_engine() -> None:
    session = ReplaySession(0, 0, 0, 9, debt=40_000)
    assert split(session, due=1000, sent=51_000, previous_done=51_000) == (40_000, 0, 10_000)
    session = ReplaySession(0, 0, 0, 9, debt=40_000)
    assert split(session, due=1000, sent=901_000, previous_done=901_000) == (0, 0, 900_000)


def test_who_was_to_wake_and_did_not_knows_since_when() -> None:
    poll, second = Poll(), 1_000_000
    begin = time.monotonic_ns() - second * 1000
    try:
        poll.wait(begin, 890_000, 895_000)
        assert poll.away == 895_000
        poll.wait(begin, 896_000, 2 * second)
        assert poll.away == 906_000, "the next pulse"
        os.eventfd_write(poll.wake, 1)
        assert poll.wake in [fd for fd, _ in poll.wait(begin, 10 * second, 20 * second)]
        assert poll.away == NEVER
    finally:
        poll.close()
