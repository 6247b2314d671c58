"""Parameters of workloads: declared once with type, bounds and meaning; texts of the command line are converted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.errors import UsageError

Value = str | int | float | bool
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a workload. Its type is that of its default; bounds are inclusive and for numbers."""

    name: str
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None


def resolve(workload: str, declared: Sequence[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return every declared parameter with its given or default value, in the order of declaration.

    Whole numbers may be written as `2e6`. Raises UsageError on an unknown name, a wrong type or a value out of bounds.
    """
    names = [parameter.name for parameter in declared]
    for name in given:
        if name not in names:
            raise UsageError(
                f'workload "{workload}" has no parameter "{name}"', hint=f"It has {', '.join(names) or 'none'}."
            )
    return {p.name: _convert(workload, p, given.get(p.name, p.default)) for p in declared}


def _convert(workload: str, parameter: Parameter, value: Value) -> Value:
    try:
        converted = _typed(parameter.default, value)
    except ValueError:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(type(parameter.default), "a text")
        raise UsageError(
            f'parameter "{parameter.name}" of "{workload}" must be {kind}, not "{value}"', hint=_meaning(parameter)
        ) from None
    if isinstance(converted, int | float) and not isinstance(converted, bool):
        low, high = parameter.low, parameter.high
        if (low is not None and converted < low) or (high is not None and converted > high):
            known = (("at least", low), ("at most", high))
            bounds = " and ".join(f"{words} {bound:.15g}" for words, bound in known if bound is not None)
            raise UsageError(
                f'parameter "{parameter.name}" of "{workload}" must be {bounds}, not {value}', hint=_meaning(parameter)
            )
    return converted


def _meaning(parameter: Parameter) -> str:
    given = f"; the default is {parameter.default}" if parameter.default != "" else ""
    return f"It means: {parameter.doc}{given}."


def _typed(default: Value, value: Value) -> Value:
    if isinstance(default, bool):
        text = str(value).lower()
        if text not in _TRUE + _FALSE:
            raise ValueError(text)
        return text in _TRUE
    if isinstance(value, bool) and isinstance(default, int | float):
        raise ValueError(value)
    if isinstance(default, int):
        number = float(value)
        if not number.is_integer():
            raise ValueError(value)
        return int(number)
    if isinstance(default, float):
        if not math.isfinite(float(value)):
            raise ValueError(value)
        return float(value)
    return str(value)
