"""Watch the baseline: statements every five seconds, sessions every second, and nothing else. Changes nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.probes.statements import DatabaseTotals, SessionCounts
from pgdyno.stats.statement_deltas import StatementDeltas, StatementSnapshot, VoidCause, deltas
from pgdyno.studies.live.checking import require_others

T = TypeVar("T")
STEP_S = 5.0
SESSIONS_S = 1.0
LATE_S = 2.0
"""A reading that is later than this, or a server's clock that disagrees by more, voids its step."""
AWAY_S = 60.0
"""So long may the server be away before the study ends."""
EARLY_STEPS = 12
"""After a minute it is known whether there is anything to watch."""


class LiveReads(Protocol):
    """What watching needs of `probes.statements.StatementReader`."""

    def statements(self) -> StatementSnapshot:
        """Read the counters of all statements of others."""

    def sessions(self, since: float) -> SessionCounts:
        """Count the sessions of others."""

    def databases(self) -> DatabaseTotals:
        """Return the transactions of all databases."""

    def reopen(self) -> None:
        """Open the session again where it was lost."""


@dataclass(slots=True)
class Watched:
    """What was seen of the baseline: `steps` in order, void ones by their cause; `known` were there at its begin."""

    known: int
    first: DatabaseTotals
    last: DatabaseTotals
    steps: list[StatementDeltas | VoidCause] = field(default_factory=list)
    sessions: list[SessionCounts] = field(default_factory=list)
    entries: int = 0

    @property
    def whole(self) -> list[StatementDeltas]:
        """Return the steps in which nothing was lost."""
        return [step for step in self.steps if isinstance(step, StatementDeltas)]

    @property
    def void(self) -> dict[str, int]:
        """Return how many steps were lost, by cause."""
        return dict(Counter(step.value for step in self.steps if isinstance(step, VoidCause)))

    @property
    def own_share(self) -> float:
        """Return our own role's part of the statements' time."""
        own = sum(step.own_ms for step in self.whole)
        total = own + sum(float(step.time_ms.sum()) for step in self.whole)
        return own / total if total > 0 else 0.0


def watch_baseline(
    reader: LiveReads,
    seconds: float,
    *,
    announce: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Watched:
    """Read the server for so many `seconds` and return what it did.

    `reader` makes the readings, and `announce` hears once a minute how many minutes are over. `clock` gives seconds
    that never go back, and `sleep` waits for so many. Raises EnvironmentUnsuitable where it cannot be watched: our role
    is the load's, no reading can be compared with the one before, or it was away, or refused to be read, for too long.
    """
    before, read_at = reader.statements(), clock()
    totals = reader.databases()
    seen = Watched(known=int(before.ids.max(initial=-1)) + 1, first=totals, last=totals)
    began_at, previous = before.at, read_at
    for due in _moments(read_at, seconds):
        while clock() < due:
            sleep(max(0.0, min(due - clock(), SESSIONS_S)))
            _count_sessions(reader, seen, began_at)
        after = _again(reader, reader.statements, clock, sleep)
        now = clock()
        late = abs(now - previous - STEP_S) > LATE_S or abs((after.at - before.at) - (now - previous)) > LATE_S
        found = deltas(before, after)
        seen.steps.append(VoidCause.LATE if late and isinstance(found, StatementDeltas) else found)
        seen.entries = int(after.ids.size)
        before, previous = after, now
        _require_sense(seen)
        if len(seen.steps) % EARLY_STEPS == 0:
            announce(f"watched {len(seen.steps) * STEP_S / 60:g} of {seconds / 60:g} minutes")
    _require_some(seen)
    seen.last = _again(reader, reader.databases, clock, sleep)
    return seen


def _moments(begin: float, seconds: float) -> Iterator[float]:
    return (begin + STEP_S * step for step in range(1, int(seconds / STEP_S) + 1))


def _count_sessions(reader: LiveReads, seen: Watched, since: float) -> None:
    try:
        seen.sessions.append(reader.sessions(since))
    except EnvironmentUnsuitable:
        return  # the next reading of the statements waits for the server, and says so


def _again(reader: LiveReads, read: Callable[[], T], clock: Callable[[], float], sleep: Callable[[float], None]) -> T:
    """Read as soon as the server answers; a busy one lets a reading run into its timeout."""
    deadline = clock() + AWAY_S
    while True:
        try:
            reader.reopen()
            return read()
        except EnvironmentUnsuitable:
            if clock() >= deadline:
                raise
            sleep(1.0)


def _require_sense(seen: Watched) -> None:
    if len(seen.steps) != EARLY_STEPS:
        return
    require_others(seen.own_share)
    if all(step is VoidCause.EVICTED for step in seen.steps):
        raise EnvironmentUnsuitable(
            "pg_stat_statements is full: it gave up entries in each reading",
            hint="Raise pg_stat_statements.max, which needs a restart, or look why statements differ from each other.",
        )
    _require_some(seen)


def _require_some(seen: Watched) -> None:
    if not seen.whole:
        raise EnvironmentUnsuitable(
            "no reading of pg_stat_statements could be compared with the one before",
            detail="; ".join(f"{count} x {cause}" for cause, count in seen.void.items()) or None,
            hint="See who resets the statistics, or what keeps the server or this host from answering in time.",
        )
