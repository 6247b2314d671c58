"""Make the dimension of one knob on one server, or say why there is none to search.

The range is the catalogue's, evaluated over the facts, clipped to the server's own bounds and widened to hold the
current value: the baseline is always in the space.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import Knob, Scale
from pgdyno.knobs.current import current_value
from pgdyno.knobs.dimension import Dimension
from pgdyno.knobs.expressions import Expression, Quantity
from pgdyno.knobs.values import bounds, number_of
from pgdyno.model.facts import Facts, SettingFact, Unknown
from pgdyno.units import BYTES, format_quantity, parse_quantity, split_unit


def make_dimension(knob: Knob, facts: Facts, budget: TrialBudget) -> Dimension | str:
    """Return the dimension of a knob that this server has, or the reason why there is none."""
    fact = facts.row(knob.name)
    if fact is None:
        return "is not known here"
    countable = fact.vartype in ("enum", "bool") or (knob.choices and fact.vartype in ("integer", "real"))
    if (knob.scale is Scale.ENUM) != bool(countable):
        return f"is of type {fact.vartype} on this server, not as the catalogue knows it"
    return _choice(knob, fact) if knob.scale is Scale.ENUM else _numeric(knob, fact, facts, budget)


def _choice(knob: Knob, fact: SettingFact) -> Dimension | str:
    current = _current_text(fact)
    choices = tuple(word for word in _narrowed(knob, fact) if _takes(fact, word))
    if current not in choices:
        choices = (current, *choices)
    if len(choices) < 2:
        return f'this server offers one choice only, "{current}"'
    return Dimension(fact.name, "choice", choices=choices, default=current)


def _narrowed(knob: Knob, fact: SettingFact) -> tuple[str, ...]:
    return ("off", "on") if fact.vartype == "bool" else knob.choices or fact.enumvals


def _takes(fact: SettingFact, text: str) -> bool:
    if fact.vartype == "bool":
        return True
    if fact.vartype == "enum":
        return text in fact.enumvals
    low, high = bounds(fact)
    return low <= parse_quantity(text, fact.unit) <= high


def _current_text(fact: SettingFact) -> str:
    current = current_value(fact, (-1.0, 0.0))
    return current if isinstance(current, str) else format_quantity(current, fact.unit)


def _numeric(knob: Knob, fact: SettingFact, facts: Facts, budget: TrialBudget) -> Dimension | str:
    ends: list[float] = []
    for expression in (knob.low, knob.high):
        value = _evaluate(expression, facts, budget) if expression else Unknown("no expression")
        if isinstance(value, Unknown):
            return f"its range needs a fact that is {value}"
        ends.append(value.in_units(fact.unit))
    least, most = bounds(fact)
    low, high = max(ends[0], least), min(ends[1], most)
    if fact.vartype == "integer":
        low, high = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if low >= high:
        return f"its range is empty here: {knob.range_text()} comes to {low:g} .. {high:g} {fact.unit or ''}".rstrip()
    return _numeric_dimension(knob, fact, *_rounded(low, high, fact))


def _numeric_dimension(knob: Knob, fact: SettingFact, low: float, high: float) -> Dimension:
    least, most = bounds(fact)
    special = tuple(value for value in knob.special if least <= value <= most)
    current = current_value(fact, special)
    number = float(current)
    if number in (-1.0, 0.0) and not low <= number <= high and number not in special:
        special = (*special, number)  # a sentinel, not an end of the range
    if number not in special:
        low, high = min(low, number), max(high, number)
    return Dimension(
        name=fact.name,
        kind="integer" if fact.vartype == "integer" else "real",
        low=low,
        high=high,
        log=knob.scale is Scale.LOG,
        special=special,
        unit=fact.unit,
        default=current,
        bare=fact.context == "kernel",
    )


def _rounded(low: float, high: float, fact: SettingFact) -> tuple[float, float]:
    """Round the ends of a range in bytes inwards to four binary digits, so that they read as a person writes them."""
    if fact.vartype != "integer" or fact.unit is None or split_unit(fact.unit)[1] not in BYTES or low < 1:
        return low, high
    ends = _to_step(low, math.ceil), _to_step(high, math.floor)
    return ends if ends[0] < ends[1] else (low, high)


def _to_step(number: float, towards: Callable[[float], int]) -> float:
    step = 1 << max(0, math.floor(math.log2(number)) - 3)
    return float(towards(number / step) * step)


def _evaluate(expression: Expression, facts: Facts, budget: TrialBudget) -> Quantity | Unknown:
    return expression.evaluate(lambda name: _fact(name, facts, budget))


def _fact(name: str, facts: Facts, budget: TrialBudget) -> Quantity | Unknown:
    host = facts.host
    if name == "ram":
        limit = host.memory_limit_bytes
        return limit if isinstance(limit, Unknown) else Quantity(limit, "bytes")
    if name == "data_disk_free":
        free = host.data_disk_free_bytes
        return free if isinstance(free, Unknown) else Quantity(free, "bytes")
    if name == "huge_page":
        page = host.huge_page_bytes
        return page if isinstance(page, Unknown) else Quantity(page, "bytes")
    if name == "cores":
        return host.cores if isinstance(host.cores, Unknown) else Quantity(host.cores)
    if name == "connections":
        return Quantity(budget.connections or facts.server.max_connections)
    if name == "measure":
        return Quantity(budget.measure_s * 1_000_000, "time")
    setting = facts.settings.get(name)
    if setting is None or setting.vartype not in ("integer", "real"):
        return Unknown(f"{name} is not a numeric setting of this server")
    return Quantity.of_setting(number_of(setting), setting.unit)
