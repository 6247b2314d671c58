"""Why an arm is faster or slower, in sentences made from what its own pairs counted: never only a score. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from pgdyno.model.results.live import LiveChange, LiveSwitch
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.verdict import Word
from pgdyno.units import bytes_text, digits_text

MOVED = 0.1
"""A counter that moved by less is not told as a reason."""
MOST_STATEMENTS = 3
UNEXPLAINED = "No counter of the server moved by a tenth, and the same way in every pair: the reason is not known"
LEAST_BYTES = {"temp_bytes": 8192.0, "wal_bytes": 8192.0}
"""Temporary files, or WAL, of less than a block for a second of work are none."""


class Used(Protocol):
    """What the server used in both arms for a second of offered work, by its name in `ServerUse`."""

    @property
    def name(self) -> str:
        """Return the counter's name."""

    @property
    def a(self) -> float:
        """Return it under A."""

    @property
    def b(self) -> float:
        """Return it under B."""

    @property
    def in_each_pair(self) -> bool:
        """Return whether it moved the same way in each pair: what did not is no reason."""


def reasons(used: Iterable[Used], plans: Iterable[PlanChange] = ()) -> tuple[str, ...]:
    """Return what moved with the arm: another plan first, then counters, both arms' figures in each."""
    found = [
        f"Statement {one.statement} has another plan: {', '.join(one.what)}" for one in plans if one.word == "changed"
    ]
    found += [text for one in used if (text := _moved(one))]
    return tuple(found) or (UNEXPLAINED,)


def rationale(switch: LiveSwitch) -> tuple[str, ...]:
    """Return why B differs, with the statements that make most of it; empty without a pair."""
    if not switch.pairs:
        return ()
    shown = [one for one in switch.second if one.verdict is None or one.verdict.word in (Word.BETTER, Word.WORSE)]
    return (*_statements(switch.statements), *reasons(shown, switch.plans))


def _statements(changes: Sequence[LiveChange]) -> list[str]:
    told = [one for one in changes if one.ratio is not None and not one.ratio.lo <= 1 <= one.ratio.hi]
    told.sort(key=lambda one: -one.share * abs(math.log(one.ratio.ratio)) if one.ratio else 0.0)
    return [
        f"Statement {one.queryid}, {100 * one.share:.0f} % of the time, takes {digits_text(one.ratio.ratio, 2)} times "
        "as long"
        for one in told[:MOST_STATEMENTS]
        if one.ratio is not None
    ]


def _moved(one: Used) -> str:
    most = max(one.a, one.b)
    if not one.in_each_pair or most <= LEAST_BYTES.get(one.name, 0.0) or abs(one.b - one.a) < MOVED * most:
        return ""
    is_less = one.b < one.a
    match one.name:
        case "temp_bytes":
            what = "Sorts and hashes spill less" if is_less else "Sorts and hashes spill more"
            return f"{what}: {bytes_text(one.a)} of temporary files for a second of work became {bytes_text(one.b)}"
        case "wal_bytes":
            return f"WAL for a second of work went from {bytes_text(one.a)} to {bytes_text(one.b)}"
        case "blocks_read":
            said = "Fewer blocks were missing from shared buffers" if is_less else "More blocks were read"
            return f"{said}: {_from_to(one)} for a second of work, from disk or the page cache"
        case "device_requests":
            said = f"The host's disks had {'less' if is_less else 'more'} to do"
            return f"{said}, by whomever: {_from_to(one)} requests for a second of work"
        case "cpu_ms":
            return f"Server CPU {'fell' if is_less else 'rose'}: {_from_to(one)} ms for a second of work"
        case _:  # database time is what is to be explained
            return ""


def _from_to(one: Used) -> str:
    return f"{digits_text(one.a)} became {digits_text(one.b)}"
