"""What is told of a watched server, in words: steps of its statements, settings, restarts and new statements. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.errors import PgdynoError
from pgdyno.model.results.watch import WatchEvent, WatchEventKind
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.regressions import Slowdown
from pgdyno.units import MINUTE, digits_text, moment_text, percent_text, plural

PLAN = 2.0
"""A call that touches so many times the blocks, or as few, for as many rows has another plan, most likely."""
SAME_ROWS = 1.2
MORE_ROWS = 1.5
MOST_EVENTS = 1000
"""So many are kept, and written with every other one; of the kind that has most of them the oldest goes."""
NEAR = 2
"""A setting that was changed so few periods before a step, or after, is named with it."""


@dataclass(slots=True)
class Told:
    """The events of a watch, in order, and what is needed to name what they are of."""

    period_s: float
    keys: Sequence[StatementKey]
    names: Callable[[], tuple[Mapping[int, str], Mapping[int, str]]]
    """Asks the server what its databases and roles are called."""
    events: list[WatchEvent] = field(default_factory=list)
    told: int = 0
    """How many there were, those that are not kept any more among them."""
    _numbers: list[int] = field(default_factory=list)
    """The place of each event among all that there were."""

    def since(self, told: int) -> Sequence[WatchEvent]:
        """Return the events after so many, those of them that are kept."""
        return self.events[bisect_right(self._numbers, told) :]

    def note(self, what: WatchEventKind, at: float, text: str) -> WatchEvent:
        """Add an event that is of no statement."""
        return self._add(WatchEvent(what=what, at=at, since=at, text=text))

    def step(self, step: Slowdown, period: int, at: float) -> WatchEvent:
        """Add what a step says; `at` is the end of `period`."""
        since = at - (period - step.since + 1) * self.period_s
        what = WatchEventKind.FASTER if step.is_back else WatchEventKind.SLOWER
        named = self._named(step.number)
        text = f"{_subject(named)} {_times(step)}{_evidence(step)}"
        near = [
            one.text
            for one in self.events
            if one.what is WatchEventKind.SETTING
            and since - NEAR * self.period_s <= one.at <= since + NEAR * self.period_s
        ]
        if near:
            text += f"; at that time {'; '.join(near)}"
        return self._add(
            WatchEvent(
                what=what,
                at=at,
                since=since,
                text=text,
                queryid=named.get("queryid"),
                database=named.get("database"),
                role=named.get("role"),
                factor=step.factor,
                share=step.share if named else None,
                blocks=step.blocks,
            )
        )

    def _add(self, event: WatchEvent) -> WatchEvent:
        """Keep one more; a kind that comes every minute pushes out none of another kind."""
        self.told += 1
        self.events.append(event)
        self._numbers.append(self.told)
        if len(self.events) > MOST_EVENTS:
            most, _ = Counter(one.what for one in self.events).most_common(1)[0]
            oldest = next(place for place, one in enumerate(self.events) if one.what is most)
            del self.events[oldest], self._numbers[oldest]
        return event

    def _named(self, number: int | None) -> Mapping[str, str]:
        if number is None:
            return {}
        key = self.keys[number]
        try:
            databases, roles = self.names()
        except PgdynoError:
            databases, roles = {}, {}
        return {
            "queryid": str(key.queryid),
            "database": databases.get(key.database, f"oid {key.database}"),
            "role": roles.get(key.role, f"oid {key.role}"),
        }


def _subject(named: Mapping[str, str]) -> str:
    if not named:
        return "the statements as a whole"
    return f"statement {named['queryid']} of {named['role']} in {named['database']}"


def _evidence(step: Slowdown) -> str:
    if step.number is None:
        return ""
    found = [f"{percent_text(step.share)} of the statements' time"]
    rows = step.rows or 1.0
    if step.blocks is not None and step.blocks_before is not None:
        now = step.blocks * step.blocks_before
        blocks = f"{plural(digits_text(now, 3), 'block')} a call, {digits_text(step.blocks_before, 3)} before"
        if 1 / SAME_ROWS <= rows <= SAME_ROWS and not 1 / PLAN < step.blocks < PLAN:
            found.append(f"{blocks}, for as many rows: most likely another plan")
        elif not 1 / PLAN < step.blocks < PLAN:
            found.append(blocks)
    if not 1 / MORE_ROWS < rows < MORE_ROWS:
        found.append(f"{digits_text(rows, 2)} times the rows a call")
    return f" ({'; '.join(found)})"


def _times(step: Slowdown) -> str:
    take, was = ("take", "they were") if step.number is None else ("takes", "it was")
    return f"{take} {digits_text(step.factor, 2)} times as long{f' as when {was} slower' if step.is_back else ''}"


def clock_text(at: float) -> str:
    """Return a moment for people, in UTC."""
    return moment_text(at, MINUTE)
