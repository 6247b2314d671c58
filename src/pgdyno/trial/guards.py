"""The guards' decision: readings and limits in, indicators and breaches out. Pure: no clock, no server, no thread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pgdyno.model.guard import Absent, Breach, Failed, Guard, GuardLimit, GuardPlan, GuardReading, Indicator
from pgdyno.model.guard_table import GUARDS
from pgdyno.model.live import Colour
from pgdyno.units import bytes_text, digits_text, seconds_text

AMBER_CEILING, CLEAR_CEILING = 0.8, 0.7
"""An indicator turns amber at this share of a ceiling, and green again only below the other: it must not flicker."""
AMBER_FLOOR, CLEAR_FLOOR = 1.5, 1.75
"""The same for floors, as multiples."""
OFF_BY_USER = "switched off by --guard"


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """How one guard stands after a tick. `beyond_since` is when its quantity went beyond the limit and stayed there."""

    indicator: Indicator
    reading: GuardReading
    beyond_since: float | None = None
    breach: Breach | None = None


def limit_of(guard: Guard, plan: GuardPlan, whole: float | None) -> float | None:
    """Return the limit in the guard's unit; None when the user switched it off.

    `whole` is what a share is of; a share of nothing is 0.
    """
    given = plan.limits.get(guard.name)
    if given is None and guard.default_is_share:
        return min(max(guard.default / 100 * (whole or 0.0), guard.least_default), guard.most_default)
    limit = given or GuardLimit(guard.default)
    if limit.value is None:
        return None
    return limit.value / 100 * (whole or 0.0) if limit.is_share else limit.value


def judge(
    readings: Sequence[GuardReading],
    plan: GuardPlan,
    before: Mapping[str, GuardStatus] | None = None,
    table: Mapping[str, Guard] = GUARDS,
) -> dict[str, GuardStatus]:
    """Return how every guard stands now, given how it stood after the tick before, with the same plan.

    `readings` has one for each guard that was read, and `plan` the user's limits. `before` is what came of the tick
    before, by the guard's name, None for the first tick. `table` holds the guards by name.
    """
    return {
        one.name: _stand(table[one.name], one, plan, None if before is None else before.get(one.name))
        for one in readings
    }


def _stand(guard: Guard, reading: GuardReading, plan: GuardPlan, before: GuardStatus | None) -> GuardStatus:
    if before is not None and _stands_as(before, reading):
        return before
    limit = limit_of(guard, plan, reading.whole)
    if limit is None:
        return GuardStatus(Indicator(guard.name, Colour.OFF, OFF_BY_USER), reading)
    if isinstance(reading.value, Absent):
        return GuardStatus(Indicator(guard.name, Colour.OFF, reading.value.reason), reading)
    if isinstance(reading.value, Failed):  # guard readings counts the seconds
        indicator = Indicator(guard.name, Colour.AMBER, f"cannot be read: {reading.value.reason}")
        return GuardStatus(indicator, reading, None if before is None else before.beyond_since)
    words = _words(guard, reading, reading.value, limit)
    if not is_beyond(guard, reading.value, limit):
        colour = Colour.AMBER if reading.warns or _is_near(guard, reading.value, limit, before) else Colour.GREEN
        return GuardStatus(Indicator(guard.name, colour, words), reading)
    since = before.beyond_since if before is not None and before.beyond_since is not None else reading.t
    if reading.t - since < guard.hold_s:
        return GuardStatus(Indicator(guard.name, Colour.AMBER, words), reading, since)
    breach = Breach(guard.name, reading.blame or guard.kind, reading.t, since, reading, limit, words)
    return GuardStatus(Indicator(guard.name, Colour.RED, words), reading, since, breach)


def _stands_as(before: GuardStatus, reading: GuardReading) -> bool:
    """Tell whether a reading is the one of the tick before, within its limit then: most are, twice a second."""
    old = before.reading
    return (
        before.beyond_since is None
        and old.value == reading.value
        and old.whole == reading.whole
        and old.about == reading.about
        and old.warns is reading.warns
    )


def is_beyond(guard: Guard, value: float, limit: float) -> bool:
    """Tell whether a value is on the wrong side of its limit; the limit itself is allowed, and NaN is not."""
    return not (value >= limit if guard.is_floor else value <= limit)


def _is_near(guard: Guard, value: float, limit: float, before: GuardStatus | None) -> bool:
    was_amber = before is not None and before.indicator.colour is Colour.AMBER
    if guard.is_floor:
        return value < limit * (CLEAR_FLOOR if was_amber else AMBER_FLOOR)
    return value > limit * (CLEAR_CEILING if was_amber else AMBER_CEILING)


def _words(guard: Guard, reading: GuardReading, value: float, limit: float) -> str:
    allowed = quantity_text(guard.unit, limit)
    bound = f"at least {allowed} is required" if guard.is_floor else f"at most {allowed} is allowed"
    about = f" ({reading.about})" if reading.about else ""
    return f"{quantity_text(guard.unit, value)}{about}, {bound}"


@lru_cache(maxsize=256)
def quantity_text(unit: str, value: float) -> str:
    """Write a quantity in a guard's unit for people."""
    if not math.isfinite(value):
        return "unknown"
    if unit in ("B", "B/s"):
        return bytes_text(value) + unit[1:]
    if unit == "s":
        return seconds_text(value)
    return {"%": f"{value:.1f} %", "x": f"{digits_text(value)} times", "count": f"{value:.0f}"}[unit]
