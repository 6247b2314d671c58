"""Numbers in text of others: no server takes one of a thousand digits, and Python fails far behind the reader."""

from __future__ import annotations

import math
import re

MOST_DIGITS = 40
"""A 64-bit integer has 20; a decimal fraction that a tool prints in full has no more than this."""
_NUMBER = re.compile(r"\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?:\s*[A-Za-z]+)?\s*")
_RUN = re.compile(rf"\d{{{MOST_DIGITS + 1},}}")


def is_without_measure(text: str) -> bool:
    """Tell whether a text is a number, with or without a unit, that is too large or too long to be one of a setting."""
    found = _NUMBER.fullmatch(text)
    return found is not None and (_RUN.search(text) is not None or not math.isfinite(float(found[1])))


def longest_run(text: str) -> int:
    """Return how many digits the longest number of a text has, 0 when none has more than `MOST_DIGITS`."""
    return max((match.end() - match.start() for match in _RUN.finditer(text)), default=0)
