"""What the guards have read since a trial's configuration came into force, and what rates need of it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pgdyno.model.guard import Absent, Failed
from pgdyno.model.guard_table import WINDOW_S
from pgdyno.probes.guards.memory import NO_GROUP, MemoryReading, OwnKills
from pgdyno.probes.guards.reader import Tick
from pgdyno.probes.guards.server import GuardRow, LoadCounters

LEAST_SPAN_S = 0.9
"""A rate over less than this is noise."""
EARLY = Absent("a rate needs a second of readings")


@dataclass(frozen=True, slots=True)
class Origin:
    """How things stood when the session began, so that guards watch what came of it and not what was there before.

    `behind` and `kept` are bytes of WAL by standby and by slot. What was not read yet counts from its first reading:
    counters since boot are no session's doing. `seen` is what each standby had replayed when it was last there, in this
    trial or before: what was written until then it does not lack.
    """

    kills: int = 0
    own_kills: OwnKills | Absent = NO_GROUP
    behind: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    seen: Mapping[str, int] = field(default_factory=dict)
    has_memory: bool = False
    has_server: bool = False

    @classmethod
    def of(cls, *ticks: Tick) -> Origin:
        """Return the origin that the first ticks of a session give: each part by the first that could read it."""
        found = cls()
        for tick in ticks:
            found = found.learning(tick)
        return found

    def learning(self, tick: Tick) -> Origin:
        """Return the origin with what no tick before this one could read."""
        found = self
        if not found.has_memory and isinstance(tick.memory, MemoryReading):
            found = replace(found, kills=tick.memory.kills, own_kills=tick.memory.own_kills, has_memory=True)
        if not found.has_server and isinstance(tick.server, GuardRow):
            row = tick.server
            found = replace(
                found,
                behind={name: row.lsn - lsn for name, lsn in row.standbys.items()},
                kept=kept_by_slots(row),
                lost=frozenset(slot.name for slot in row.slots if slot.is_lost),
                has_server=True,
            )
        if isinstance(tick.server, GuardRow) and tick.server.standbys:
            found = replace(found, seen={**found.seen, **tick.server.standbys})
        return found


def kept_by_slots(row: GuardRow) -> dict[str, int]:
    """Return the bytes of WAL that each slot keeps."""
    return {slot.name: row.lsn - slot.lsn for slot in row.slots if slot.lsn is not None}


@dataclass(frozen=True, slots=True)
class History:
    """The ticks of one trial in the order of time; never empty when asked. `origin` is the session's, and learns."""

    origin: Origin
    ticks: tuple[Tick, ...] = ()

    def then(self, tick: Tick, keep_s: float) -> History:
        """Return the history with one more tick, without those older than `keep_s` before it."""
        first = bisect_left(self.ticks, tick.t - keep_s, key=lambda old: old.t)
        return History(self.origin.learning(tick), (*self.ticks[first:], tick))

    @property
    def now(self) -> Tick:
        """Return the newest tick."""
        return self.ticks[-1]

    def window(self, seconds: float = WINDOW_S) -> tuple[Tick, ...]:
        """Return the ticks of the last seconds, the newest among them."""
        return self.ticks[bisect_left(self.ticks, self.now.t - seconds, key=lambda tick: tick.t) :]

    def rows(self) -> Iterator[tuple[float, GuardRow]]:
        """Yield time and row of each tick in which the server was read."""
        return ((tick.t, tick.server) for tick in self.ticks if isinstance(tick.server, GuardRow))

    def failing_s(self, part: Callable[[Tick], object]) -> float:
        """Return for how long a part has failed without a break, 0 when the newest tick has it."""
        since = self.now.t
        for tick in reversed(self.ticks):
            if not isinstance(part(tick), Failed):
                break
            since = tick.t
        return self.now.t - since


def load_counters(tick: Tick) -> LoadCounters | None:
    """Return the counters of the load's database while a load runs in it."""
    return tick.server.load if tick.load is not None and isinstance(tick.server, GuardRow) else None


def rate(points: list[tuple[float, float]]) -> float | Absent:
    """Return the growth per second of a counter, by its first and last point; 0 when it was reset in between."""
    if not points or points[-1][0] - points[0][0] < LEAST_SPAN_S:
        return EARLY
    return max(0.0, (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0]))
