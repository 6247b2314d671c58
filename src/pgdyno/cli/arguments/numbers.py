"""Numbers and times of flags: finite, called N and TIME in the help of every verb, times with a unit or without."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import SupportsIndex, SupportsInt

import click

from pgdyno.errors import UsageError
from pgdyno.units import parse_quantity

_BITS = 63
_LEAST_BYTES = 1 << 20
"""Of --max-size: an empty database is larger."""


def max_bytes(text: str) -> int:
    """Return the bytes that `--max-size` allows. Raises UsageError below 1 MB: -1 is no "without limit"."""
    size = parse_quantity(text, "B")
    if not _LEAST_BYTES <= size < 1 << _BITS - 1:
        raise UsageError(f"--max-size {text} is out of range", hint="Give a size such as 20GB; at least 1MB.")
    return int(size)


class Bounded(click.types.IntParamType):
    """A whole number of 64 bits: nothing that keeps or counts numbers takes more."""

    def convert(
        self, value: SupportsInt | SupportsIndex, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number. Raises BadParameter for what is none, or is beyond 64 bits."""
        return _checked(self, super().convert(value, param, ctx), param, ctx)


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Raises BadParameter for what is none, is out of bounds or beyond 64 bits."""
        return _checked(self, super().convert(value, param, ctx), param, ctx)


def _checked(
    kind: click.types.IntParamType, value: int, param: click.Parameter | None, ctx: click.Context | None
) -> int:
    number = int(value)
    if number.bit_length() > _BITS:
        kind.fail(f"{str(number)[:40]} is larger than any number here may be", param, ctx)
    return number


class Finite(click.FloatRange):
    """A number within bounds; `nan` and `inf`, which click lets through them, are none."""

    name = "number"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises BadParameter for what is none, is out of bounds or has no end."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Time(Finite):
    """A time within bounds, with a unit as PostgreSQL writes it (`90s`, `5min`, `1.5h`) or as a bare number of `unit`.

    The value is in `unit`, which is s or min; so are the bounds.
    """

    def __init__(self, unit: str, low: float, high: float | None = None, *, min_open: bool = False) -> None:
        super().__init__(low, high, min_open)
        self.unit = unit

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time in `unit`. Raises BadParameter for what is no time, or is out of bounds."""
        typed = value
        if isinstance(value, str) and value.strip()[-1:].isalpha() and value.lower() not in ("nan", "inf", "infinity"):
            text = re.sub(r"(?<=[\d .])m$", "min", value.strip())
            try:
                value = parse_quantity(text, self.unit)
            except UsageError:
                self.fail(
                    f"{value!r} is not a time: write 90s, 5min or 1.5h; a bare number is in {self.unit}", param, ctx
                )
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            if isinstance(value, float) and math.isfinite(value):  # it was converted: tell it as it was typed
                self.fail(f"{typed} is not in the range {self._describe_range()}", param, ctx)
            raise

    def _describe_range(self) -> str:
        return f"{super()._describe_range()} {self.unit}"


class Share(Finite):
    """A share from 0 to 1, as `5%` or as `0.05`; a bare number above 1 is refused, since it may mean either.

    1 itself is a share only `with_all`.
    """

    def __init__(self, *, with_all: bool = False) -> None:
        super().__init__(0, 1, max_open=not with_all)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share. Raises BadParameter for what is none, or is out of bounds."""
        if isinstance(value, str) and value.strip().endswith("%"):
            value = float(click.FLOAT.convert(value.strip()[:-1].strip(), param, ctx)) / 100
        return super().convert(value, param, ctx)


def parameters(verb: click.Command) -> Iterator[click.Parameter]:
    """Yield the parameters of a verb and of its sub-verbs."""
    yield from verb.params
    for child in verb.commands.values() if isinstance(verb, click.Group) else ():
        yield from parameters(child)


def settle_number(param: click.Parameter) -> None:
    """Let a number within bounds be finite, and be N or TIME in help; the default of a time is shown with its unit."""
    kind = param.type
    if isinstance(kind, click.FloatRange) and not isinstance(kind, Finite):
        param.type = Finite(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if isinstance(kind, click.IntRange) and not isinstance(kind, Whole):
        param.type = Whole(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if kind is click.INT:
        param.type = Bounded()
    if isinstance(kind, Time) and isinstance(param.default, int | float):
        param.default = f"{param.default:g}{kind.unit}"  # as help shows it; it is converted like what is typed
    if param.metavar is None and isinstance(kind, click.IntRange | click.FloatRange):
        word = "TIME" if isinstance(kind, Time) else "SHARE" if isinstance(kind, Share) else "N"
        param.metavar = " ".join([word] * param.nargs)
