"""Numbers of flags: finite, and called N in the help of every verb."""

from __future__ import annotations

import math
from collections.abc import Iterator

import click


class Finite(click.FloatRange):
    """A number within bounds; `nan` and `inf`, which click lets through them, are none."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises BadParameter for what is none, is out of bounds or has no end."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def parameters(verb: click.Command) -> Iterator[click.Parameter]:
    """Yield the parameters of a verb and of its sub-verbs."""
    yield from verb.params
    for child in verb.commands.values() if isinstance(verb, click.Group) else ():
        yield from parameters(child)


def settle_number(param: click.Parameter) -> None:
    """Let a number within bounds be finite, and be N in help, where click writes FLOAT RANGE."""
    kind = param.type
    if isinstance(kind, click.FloatRange) and not isinstance(kind, Finite):
        param.type = Finite(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if param.metavar is None and isinstance(kind, click.IntRange | click.FloatRange):
        param.metavar = " ".join("N" * param.nargs)
