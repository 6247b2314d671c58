"""What the cells of a matrix do not have in common: where their facts are listed, every level stands there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.trial import Trial


def levels(trials: Sequence[Trial], factor: str) -> tuple[str, ...]:
    """Return the levels of a factor among the runs of a study; empty where there is one only."""
    found = tuple(dict.fromkeys(one for trial in trials if (one := trial.spec.factors.get(factor))))
    return tuple(sorted(found, key=_size)) if len(found) > 1 else ()


def listed(words: Sequence[str], last: str = "or") -> str:
    """Write `1, 2 or 4`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _size(word: str) -> tuple[int, int]:
    """Order numbers by size, and leave words in the order of the runs."""
    return (0, int(word)) if word.isdecimal() else (1, 0)
