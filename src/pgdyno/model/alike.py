"""Sentences that differ in their numbers alone, told once. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d[\d.,]*")


def told_once(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts in their order; of those that differ in numbers alone the first, with how many are like it."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_NUMBER.sub("0", text), []).append(text)
    return tuple(
        same[0] if len(same) == 1 else f"{same[0]} (and {len(same) - 1} more like it)" for same in alike.values()
    )
