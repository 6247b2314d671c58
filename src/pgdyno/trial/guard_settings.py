"""`--guard NAME=VALUE`: the text of a limit becomes a number in the guard's unit. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno.errors import UsageError
from pgdyno.model.guard import TRIPS, Guard, GuardLimit, GuardPlan
from pgdyno.model.guard_table import GUARDS
from pgdyno.trial.guards import quantity_text
from pgdyno.units import parse_quantity

_EXAMPLES = {"B": "512MB", "B/s": "64MB/s", "s": "30s", "%": "20%", "x": "10x", "count": "3"}


def guard_plan(words: Sequence[str], trips: int = TRIPS, table: Mapping[str, Guard] = GUARDS) -> GuardPlan:
    """Return the plan that the words ask for. Raises UsageError on a guard not in `table` or a value it cannot have.

    A guard given twice has the last value, as other flags do.
    """
    limits = {}
    for word in words:
        name, _, value = word.partition("=")
        if not value:
            raise UsageError(f'guard "{word}" is not NAME=VALUE', hint="Write it as --guard disk=2GB.")
        guard = table.get(name)
        if guard is None:
            raise UsageError(f'there is no guard "{name}"', hint=f"The guards are {', '.join(table)}.")
        limits[name] = parse_limit(guard, value)
    return GuardPlan(limits, trips)


def parse_limit(guard: Guard, text: str) -> GuardLimit:
    """Return the limit that the text stands for: `off`, a number with the guard's unit, or a share where it has one."""
    word = text.strip()
    if word.lower() == "off":
        if not guard.can_be_off:
            raise UsageError(
                f"guard {guard.name} cannot be switched off",
                detail=guard.reason,
                hint=f"Set another limit, such as --guard {guard.name}={_example(guard)}.",
            )
        return GuardLimit(None)
    is_share = guard.default_is_share and word.endswith("%")
    value = _number(guard, word[:-1] if is_share else word, is_share)
    ceiling = 100.0 if is_share or guard.unit == "%" else math.inf
    if not (0 <= value <= ceiling and math.isfinite(value)) or (value == 0 and guard.is_floor):
        raise UsageError(
            f'guard {guard.name}: "{text}" is out of range',
            hint=f"Give a number above 0, such as --guard {guard.name}={_example(guard)}.",
        )
    return GuardLimit(value, is_share)


def limit_text(guard: Guard, limit: GuardLimit | None = None) -> str:
    """Write a limit, or the default where none was set, for people."""
    if limit is not None and limit.value is None:
        return "off"
    if limit is None and guard.default_is_share:
        least, most = guard.least_default, guard.most_default
        bounds = f", between {quantity_text('B', least)} and {quantity_text('B', most)}" if least else ""
        return f"{guard.default:g} %{bounds}"
    value = guard.default if limit is None or limit.value is None else limit.value
    is_share = guard.unit == "%" or (limit is not None and limit.is_share)
    return f"{value:g} %" if is_share else quantity_text(guard.unit, value)


def _number(guard: Guard, word: str, is_share: bool) -> float:
    try:
        if is_share or guard.unit == "%":
            return float(word.removesuffix("%"))
        if guard.unit == "B":
            return parse_quantity(word, "B")
        if guard.unit == "B/s":
            return parse_quantity(word.removesuffix("/s"), "B")
        if guard.unit == "s":
            return parse_quantity(word, "s")
        return float(int(word)) if guard.unit == "count" else float(word.removesuffix("x"))
    except (ValueError, UsageError) as error:
        raise UsageError(
            f'guard {guard.name}: "{word}" is not a limit in {guard.unit}',
            hint=f"Write it as --guard {guard.name}={_example(guard)}.",
        ) from error


def _example(guard: Guard) -> str:
    return "2%" if guard.default_is_share else _EXAMPLES[guard.unit]
