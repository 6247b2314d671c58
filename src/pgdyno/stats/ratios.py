"""Ratios and changes of plain figures, and how they are rounded: the arithmetic of every table that compares rows.

Pure. These are figures of rows, not verdicts: whether a difference is more than noise is for `sequential` and `noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from pgdyno.errors import UsageError

_PLUS, _MINUS = "+", "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class RatioChange:
    """A figure before and after. Raises UsageError for figures that are not finite, or nothing before."""

    before: float
    after: float

    def __post_init__(self) -> None:
        """Refuse what has no ratio."""
        if not math.isfinite(self.before) or not math.isfinite(self.after):
            raise UsageError(f"{self.before} and {self.after} are not two finite numbers")
        if self.before == 0:
            raise UsageError("a change from 0 has no ratio", hint="Leave out rows in which nothing was measured.")

    @property
    def ratio(self) -> float:
        """Return after / before."""
        return self.after / self.before

    @property
    def percent(self) -> float:
        """Return 100 (after / before - 1)."""
        return 100 * (self.ratio - 1)

    @property
    def points(self) -> float:
        """Return after - before, for figures that are percentages themselves."""
        return self.after - self.before

    def text(self, digits: int = 2) -> str:
        """Write the change in percent with its sign: `+20.96 %`."""
        return signed(self.percent, digits) + " %"


def per(rate: float, units: float) -> float:
    """Return a rate for each of `units`. Raises UsageError unless there is at least a part of one."""
    if not units > 0:
        raise UsageError(f"{units} is not a number to divide by", hint="Say how many there are, such as 8.")
    return rate / units


def rounded(value: float, digits: int = 2) -> str:
    """Write a number with so many decimals, halves away from zero, as people round; `-0.00` is `0.00`.

    The shortest decimal form of the number is rounded, so that 1.005 gives 1.01 though its binary form is below.
    """
    cut = Decimal(repr(float(value))).quantize(Decimal(f"1e{-digits}"), ROUND_HALF_UP)
    return f"{abs(cut) if cut == 0 else cut:,f}"


def signed(value: float, digits: int = 2) -> str:
    """Write a number like `rounded`, with its sign; nothing stands before a zero."""
    text = rounded(abs(value), digits)
    if not float(text.replace(",", "")):
        return text
    return f"{_PLUS if value > 0 else _MINUS}{text}"
