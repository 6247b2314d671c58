"""Where a line is not broken: between a number and its unit, and inside an interval, and how long one is.

Both wrapping libraries break at blanks; rich does at U+00A0 too. A blank that must stay is a letter of the private use
area while lines are made.
"""

from __future__ import annotations

import os
import re
import textwrap

HELD = "\ue000"
"""Stands for a blank that is not broken at; as wide as one."""
_NUMBER = r"(?<![\w.,])[+\-−]?\d+(?:[.,:]\d+)*x?"
_UNIT = r"(?:%|[kKMGT]?i?B(?:/s)?|[kMG]?Hz|[nuµm]?s|min|h|days?|tps|cores?|[kM]?/s|1/s)(?![\w/])"
_INTERVAL = r"\[[+\-−]?[\d.,]+x?, (?:[+\-−]?[\d.,]+x?|∞)\]"
_TOGETHER = re.compile(rf"(?:{_NUMBER}|{_INTERVAL}) {_UNIT}|{_INTERVAL}")

NARROWEST = 40


def asked_width() -> int | None:
    """Return the columns that an exported COLUMNS asks for, at least 40; None where it asks for none."""
    asked = os.environ.get("COLUMNS", "")
    return max(NARROWEST, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 5 else None


def held(text: str, width: int) -> str:
    """Return a text of the same length whose numbers hold to their units, where both fit into `width` columns."""
    return _TOGETHER.sub(lambda one: one[0].replace(" ", HELD) if len(one[0]) <= width else one[0], text)


def let_go(text: str) -> str:
    """Return the text with its blanks again."""
    return text.replace(HELD, " ")


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return the lines of a text, each after the first behind `indent`; what is longer than a line is left whole."""
    lines = textwrap.wrap(
        held(text, width), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [let_go(line) for line in lines]
