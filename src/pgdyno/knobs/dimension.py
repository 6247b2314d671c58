"""A dimension of the search: one knob, the values worth trying, and its coordinates for the optimiser.

Pure. A numeric knob has one coordinate in [0, 1] (linear or logarithmic in its range), and one more that is 1 at
each special value such as -1 or 0, because the server jumps there instead of going on smoothly. A choice of two has
one coordinate, a longer choice one for each of its words (one-hot).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pgdyno.errors import UsageError
from pgdyno.units import BYTES, format_quantity, parse_quantity, split_unit

Value = int | float | str
Kind = Literal["integer", "real", "choice"]

SPECIAL_SHARE = 0.15
"""The part of the unit interval that `from_unit` gives to each special value; three or more share 0.45."""
LINEAR_LEVELS = 50
"""The least number of steps in which a wide linear range is searched; round values make it up to 125."""
LOG_RESOLUTION = 0.1
"""The least relative step in a logarithmic range: no knob's effect is known to turn within a tenth of its value."""
LOG_LEVELS = 400
"""The most steps in which a logarithmic range is searched, before they are rounded down to round values."""


@dataclass(frozen=True)  # no slots: the levels are computed once and kept
class Dimension:
    """A knob to search: integers and reals have `low`, `high` and `special`, choices have `choices`.

    `special` values lie anywhere, usually outside of [low, high]; values are in base units of `unit`
    (`pg_settings.unit`, None for a bare number). `default` is the value at the baseline: inside the range or special
    (see `including`). Raises UsageError on a dimension that cannot be searched.
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    special: tuple[float, ...] = ()
    choices: tuple[str, ...] = ()
    unit: str | None = None
    default: Value = 0
    bare: bool = False
    """The text of a value is its number of base units, as the kernel reads it."""

    def __post_init__(self) -> None:
        if self.kind == "choice":
            self._check(len(self.choices) >= 1, "has no choices")
            self._check(len(set(self.choices)) == len(self.choices), "lists a choice twice")
            self._check(self.default in self.choices, f'has the default "{self.default}" outside of its choices')
            return
        self._check(math.isfinite(self.low) and math.isfinite(self.high), "has a bound that is not finite")
        self._check(self.low <= self.high, f"has the range {self.low} to {self.high}, which is empty")
        if self.kind == "integer":
            whole = float(self.low).is_integer() and float(self.high).is_integer()
            self._check(whole, f"is an integer with the range {self.low} to {self.high}")
        default = _number(self.default, self.name)
        inside = self.low <= default <= self.high or default in self.special
        self._check(inside, f"has the default {self.default} outside of {self.low} to {self.high}")

    def _check(self, holds: bool, problem: str) -> None:
        if not holds:
            raise UsageError(f'dimension "{self.name}" {problem}')

    @property
    def width(self) -> int:
        """Return the number of coordinates of `encode`."""
        if self.kind == "choice":
            return 1 if len(self.choices) <= 2 else len(self.choices)
        return 1 + len(self.special)

    def clip(self, value: Value) -> Value:
        """Return the nearest value of this dimension; a word that is no choice becomes the default."""
        if self.kind == "choice":
            return str(value) if str(value) in self.choices else self.default
        number = _number(value, self.name)
        if number not in self.special:
            number = min(max(number, self.low), self.high)
        return self._typed(number)

    def encode(self, value: Value) -> tuple[float, ...]:
        """Return the coordinates of a value, each in [0, 1]; a value out of range counts as the nearest one."""
        value = self.clip(value)
        if isinstance(value, str):
            place = self.choices.index(value)
            if len(self.choices) <= 2:
                return (float(place),)
            return tuple(float(place == other) for other in range(len(self.choices)))
        flags = tuple(float(value == special) for special in self.special)
        return (self._position(min(max(float(value), self.low), self.high)), *flags)

    def decode(self, coordinates: Sequence[float]) -> Value:
        """Return the value at these coordinates: the inverse of `encode`, exact for integers and for written reals."""
        if self.kind == "choice":
            if len(self.choices) <= 2:
                return self.choices[min(round(coordinates[0]), len(self.choices) - 1)]
            return self.choices[max(range(len(self.choices)), key=lambda place: coordinates[place])]
        for special, flag in zip(self.special, coordinates[1:], strict=True):
            if flag > 0.5:
                return self._typed(special)
        return self._typed(self._at(min(max(coordinates[0], 0.0), 1.0)))

    def from_unit(self, u: float) -> Value:
        """Return the value for a uniform number in [0, 1): equal cells for choices, a fixed share for specials."""
        if self.kind == "choice":
            return self.choices[min(int(u * len(self.choices)), len(self.choices) - 1)]
        share = min(SPECIAL_SHARE, 0.45 / max(len(self.special), 1))
        place = int(u / share)
        if place < len(self.special):
            return self._typed(self.special[place])
        taken = share * len(self.special)
        return self.nearest_level(self._at((u - taken) / (1.0 - taken)))

    @cached_property
    def levels(self) -> tuple[Value, ...]:
        """Return the values worth trying, round ones as a person would write them, ascending; specials come last."""
        if self.kind == "choice":
            return self.choices
        regular = self._round_values
        seen = set(regular)
        return tuple(self._typed(v) for v in (*regular, *(s for s in self.special if s not in seen)))

    def nearest_level(self, value: float) -> Value:
        """Return the round value of the range that lies nearest on this dimension's scale."""
        at = self._position(min(max(value, self.low), self.high))
        return min(self._regular, key=lambda pair: abs(pair[0] - at))[1]

    def to_text(self, value: Value) -> str:
        """Write a value as `postgresql.conf` would: the largest unit that divides it; or as the kernel reads it."""
        if isinstance(value, str):
            return value
        return format_quantity(value, None if self.bare else self.unit)

    def from_text(self, text: str) -> Value:
        """Read a setting's text; raises UsageError where `units.parse_quantity` does."""
        if self.kind == "choice":
            return text
        return self._typed(parse_quantity(text, self.unit))

    @cached_property
    def _regular(self) -> tuple[tuple[float, Value], ...]:
        return tuple((self._position(v), self._typed(v)) for v in self._round_values)

    def _typed(self, number: float) -> Value:
        # Twelve digits: enough for every setting, few enough that encode and decode give back what was written.
        return round(number) if self.kind == "integer" else float(f"{number:.12g}")

    @property
    def _shift(self) -> float:
        # A logarithmic range that begins at 0 or -1 is moved so that it begins at 1.
        return 0.0 if self.low > 0 else 1.0 - self.low

    def _position(self, number: float) -> float:
        if self.high == self.low:
            return 0.0
        if not self.log:
            return (number - self.low) / (self.high - self.low)
        low, high = self.low + self._shift, self.high + self._shift
        return math.log((number + self._shift) / low) / math.log(high / low)

    def _at(self, position: float) -> float:
        if not self.log:
            return self.low + position * (self.high - self.low)
        low, high = self.low + self._shift, self.high + self._shift
        return min(max(low * math.exp(position * math.log(high / low)) - self._shift, self.low), self.high)

    def _step(self) -> Callable[[float], float]:
        """Return how far it is from a value to the next one."""
        to_round = _power_of_two if _counts_bytes(self.unit) else _one_two_five
        least, shift = 1.0 if self.kind == "integer" else 0.0, self._shift
        if not self.log:
            step = max(to_round((self.high - self.low) / LINEAR_LEVELS), least)
            return lambda _number: step
        ratio = max(LOG_RESOLUTION, math.expm1(math.log((self.high + shift) / (self.low + shift)) / LOG_LEVELS))
        return lambda number: max(to_round(ratio * (number + shift)), least)

    @cached_property
    def _round_values(self) -> tuple[float, ...]:
        if self.high == self.low:
            return (float(self.low),)
        values, step_at = [float(self.low)], self._step()
        while values[-1] < self.high:
            step = step_at(values[-1])
            following = float(f"{(math.floor(values[-1] / step + 1e-9) + 1) * step:.12g}")
            if following >= self.high - 1e-9 * abs(self.high):
                break
            values.append(following)
        return (*values, float(self.high)) if self.high > values[-1] else tuple(values)


def _number(value: Value, name: str) -> float:
    if isinstance(value, str):
        raise UsageError(
            f'"{value}" is not a number, and dimension "{name}" takes numbers', hint=f"See pgdyno knobs show {name}."
        )
    return float(value)


def _counts_bytes(unit: str | None) -> bool:
    return unit is not None and split_unit(unit)[1] in BYTES


def _power_of_two(wanted: float) -> float:
    return 2.0 ** math.floor(math.log2(wanted))


def _one_two_five(wanted: float) -> float:
    decade = 10.0 ** math.floor(math.log10(wanted))
    return max(factor * decade for factor in (1.0, 2.0, 5.0) if factor * decade <= wanted * (1 + 1e-9))
