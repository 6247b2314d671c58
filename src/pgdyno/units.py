"""Quantities as PostgreSQL writes them: `128MB`, `5min`, `0.9`, their base units in `pg_settings`, and counts in words.

Pure. The units of every supported version are B, kB, MB, GB, TB (1024 apart) and us, ms, s, min, h, d.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from pgdyno.errors import UsageError

BYTES: dict[str, int] = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MICROSECONDS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
MINUTE = "%Y-%m-%d %H:%M UTC"
_QUANTITY = re.compile(r"^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?:\s*([A-Za-z]+))?\s*$")
_BASE_UNIT = re.compile(r"^(\d*)([A-Za-z]+)$")
_REMEMBERED = 4096
"""Texts and numbers whose other form is remembered: a search asks for a few thousand of them, a million times."""


@lru_cache(_REMEMBERED)
def split_unit(unit: str) -> tuple[int, str]:
    """Split a `pg_settings.unit` such as `8kB` into its multiplier and its unit name."""
    match = _BASE_UNIT.match(unit)
    if match is None:
        raise UsageError(f'unit "{unit}" is not one of PostgreSQL')
    multiplier, name = match.groups()
    if name not in BYTES and name not in MICROSECONDS:
        raise UsageError(f'unit "{unit}" is not one of PostgreSQL')
    return (int(multiplier) if multiplier else 1), name


def _scale(unit: str) -> tuple[int, dict[str, int]]:
    multiplier, name = split_unit(unit)
    table = BYTES if name in BYTES else MICROSECONDS
    return multiplier * table[name], table


def parse_quantity(text: str, unit: str | None) -> float:
    """Return the number of base units that a setting's text stands for.

    `unit` is the base unit of the setting (`pg_settings.unit`, None for a bare number). A bare number counts base
    units; -1 and 0 pass through unchanged, as PostgreSQL's special values do. Raises UsageError on text that is not
    a quantity, or on a unit of the wrong kind.
    """
    return _parsed(text, unit)


@lru_cache(_REMEMBERED)
def _parsed(text: str, unit: str | None) -> float:
    match = _QUANTITY.match(text)
    if match is None:
        raise UsageError(f'"{text}" is not a number with a unit', hint="Write it as PostgreSQL does, such as 128MB.")
    number, suffix = float(match.group(1)), match.group(2) or ""
    if not math.isfinite(number):
        raise UsageError(f'"{text}" is too large for a number', hint="Write it as PostgreSQL does, such as 128MB.")
    if not suffix:
        return number
    if unit is None:
        raise UsageError(f'"{text}" has a unit, but the setting has none', hint="Write the bare number.")
    base, table = _scale(unit)
    if suffix not in table:
        raise UsageError(
            f'"{text}": unit "{suffix}" is not one of {", ".join(table)}', hint="Units are written as PostgreSQL does."
        )
    scaled = number * table[suffix] / base
    if not math.isfinite(scaled):
        raise UsageError(f'"{text}" is too large for a number', hint="Write it as PostgreSQL does, such as 128MB.")
    return scaled


def format_quantity(value: float, unit: str | None) -> str:
    """Write a number of base units as PostgreSQL's `SHOW` does: the largest unit that divides it exactly.

    Round-trips through `parse_quantity`. Negative values and 0 stay bare, because they are special values.
    """
    if not math.isfinite(value):
        raise UsageError(f"{value} is not a finite number")
    return _formatted(value, unit)


@lru_cache(_REMEMBERED)
def _formatted(value: float, unit: str | None) -> str:
    whole = float(value).is_integer()
    if unit is None or value <= 0 or not whole:
        return str(int(value)) if whole else repr(float(value))
    base, table = _scale(unit)
    total = int(value) * base
    for name, size in sorted(table.items(), key=lambda item: -item[1]):
        if total % size == 0:
            return f"{total // size}{name}"
    return str(int(value))


def bytes_text(count: float) -> str:
    """Write a byte count for people, with three significant digits: `1.21 GB`."""
    size = float(count)
    for name in ("B", "kB", "MB", "GB"):
        if abs(size) < (1024 if name == "B" else 999.5):  # 1000 and more would come as 1e+03
            return f"{size:.0f} B" if name == "B" else f"{size:.3g} {name}"
        size /= 1024
    return f"{size:.3g} TB"


def binary_text(count: float) -> str:
    """Write a byte count as the kernel's documents do, with three significant digits: `33.5 GiB`, `64 KiB`."""
    text = bytes_text(count)
    number, _, unit = text.partition(" ")
    return text if unit == "B" else f"{number} {unit[0].upper()}iB"


def seconds_text(seconds: float) -> str:
    """Write a duration for people: `8.2 s`, `3:05 min`, `2:10 h`, `12 days`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h" if hours < _HOURS_SHOWN else f"{hours / 24:.0f} days"


_HOURS_SHOWN = 72


def digits_text(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits, and a large one in full: 10,000 and not 1e+04.

    A bound that two or three pairs left beyond all measure stays short: nobody reads forty digits.
    """
    text = f"{value:,.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < _BEYOND_MEASURE else text


_BEYOND_MEASURE = 1e12


def percent_text(share: float, digits: int = 0) -> str:
    """Write a share in percent with so many decimals: `17 %`, `99.5 %`."""
    return f"{100 * share:.{digits}f} %"


def rate_text(value: float) -> str:
    """Write how often something happens as a range, `500 to 1,000`, of which steps of 1, 2 and 5 are the ends.

    A rate sways between two looks at the same server. What is decided by it needs no more than its size.
    """
    low, high = _steps_around(value)
    return f"{low:,.0f} to {high:,.0f}" if low else "less than 1"


def bytes_rate_text(value: float) -> str:
    """Write bytes a second as `rate_text` writes a rate: `5 MB to 10 MB`."""
    if value < 1:
        return "less than 1 B"
    unit = 1024 ** min(4, int(math.log2(value) // 10))
    low, high = _steps_around(value / unit)
    low, high = (500.0, 1024.0) if low >= 500 else (low, high)  # the next unit begins at 1024
    return f"{bytes_text(low * unit)} to {bytes_text(high * unit)}"


def _steps_around(value: float) -> tuple[float, float]:
    """Return the steps of 1, 2, 5, 10, 20 ... at or below a value and above it, from 0 and 1 for less than 1."""
    if value < 1:
        return 0.0, 1.0
    ten = 10.0 ** math.floor(math.log10(value))
    steps = [step * ten for step in (1, 2, 5, 10)]
    return next((low, high) for low, high in zip(steps, [*steps[1:], math.inf], strict=True) if value < high)


def moment_text(at: float, form: str = "%Y-%m-%d %H:%M:%S UTC", zone: tzinfo | None = UTC) -> str:
    """Return a moment, in seconds since the epoch, in this time zone (None: the host's), or that there is none such.

    A store that others write to, or a bundle of a stranger, may name a moment beyond all calendars.
    """
    try:
        return datetime.fromtimestamp(at, UTC).astimezone(zone).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "unknown: out of every calendar"


def plural(count: int | str, noun: str) -> str:
    """Write a count with its noun: `1 pair`, `8,000 pairs`, `2 studies`. A number or a range may be written already."""
    said = f"{count:,}" if isinstance(count, int) else count
    if said in ("1", "less than 1"):
        return f"{said} {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{said} {noun[:-1]}ies"
    return f"{said} {noun}{'es' if noun.endswith('s') else 's'}"


def agreeing(count: int | str, noun: str, one: str, many: str) -> str:
    """Write a count with its noun and what is said of it: `1 session waits`, `2 sessions wait`.

    `count` and `noun`, in the singular, are those of `plural`; `one` is said of a single one, `many` of all others.
    """
    said = plural(count, noun)
    return f"{said} {one}" if said == f"1 {noun}" else f"{said} {many}"


def some_text(texts: Sequence[str], most: int, between: str = "; ") -> str:
    """Write the first `most` of several texts and how many more there are: `a; b; and 3 more`, `a, b and 3 more`."""
    told, more = between.join(texts[:most]), len(texts) - most
    return f"{told}{';' if between == '; ' else ''} and {more:,} more" if more > 0 else told


def first_text(texts: Sequence[str], more: str = "more") -> str:
    """Write the first of several texts and how many more there are: `a (and 3 more)`; nothing of none."""
    return f"{texts[0]} (and {len(texts) - 1:,} {more})" if len(texts) > 1 else "".join(texts)


def ranges_text(numbers: Sequence[int]) -> str:
    """Write whole numbers as ranges: `1-4, 7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
