"""Why a replayed statement answered unlike the capture: the environment, another order, row identity, or none. Pure.

What cannot be explained is unexpected. The explanations are evidence, not proof: that a statement of another session
with the same value overlapped, or that a statement binds a number where its session was given generated keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgdyno.model.replay_comparison import Cause, ErrorLine, Errors

CONCURRENT = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: only another session can be the reason."""
RACES = frozenset({"23505", "23P01"})
"""A key that is there already: where a statement of another session with the same value explains it."""
KEYS = frozenset({"23505", "23503", "P0002"})
"""What a key that another database generated differently leads to."""
IN_FAILED = "25P02"
"""Of statements in a transaction that has failed: they have the cause of what failed first."""
ROW_WORDS = (
    "ctid", "xmin", "xmax", "cmin", "cmax", "nextval", "currval", "lastval", "txid_current", "pg_current_xact_id",
)  # fmt: skip
"""What a database chooses for itself, in a statement's text."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Answers of one kind that are not the captured ones, and what is known of their statements.

    An SQLSTATE is empty for success. `first` has the two of what failed first in a failed transaction, else its own.
    `names_rows`: its text has one of ROW_WORDS; `overlaps`: a statement of another
    session with the same fingerprint and value overlapped it or changed places with it; `has_keys`: it binds a whole
    number, and its session was given rows of RETURNING before; `in_control`: the control run answered the same.
    """

    answer: str
    captured: str
    came: str
    first: tuple[str, str]
    names_rows: bool
    overlaps: bool
    has_keys: bool
    in_control: bool
    count: int
    fingerprint: str


def cause_of(one: Suspect) -> Cause:
    """Return the first cause that explains it, in this order: environment, row identity by text, order, keys."""
    states = set(one.first) - {""}
    if one.in_control:
        return Cause.ENVIRONMENT
    if one.names_rows:
        return Cause.ROW_IDENTITY
    if states & CONCURRENT or (states & RACES and one.overlaps):
        return Cause.ORDER
    if states & KEYS and one.has_keys:
        return Cause.ROW_IDENTITY
    return Cause.UNEXPECTED


def told_errors(suspects: Iterable[Suspect], expected: int, texts: dict[str, str], *, has_control: bool) -> Errors:
    """Return all errors by what was captured, what came, and why; those of the platform first, then by number.

    `suspects` are kinds of answers that are not the captured ones, `expected` counts the errors that the capture had
    too, and `texts` are statements by fingerprint, in hexadecimal digits. `has_control` says that a replay on the old
    platform was compared, A itself or a second one.
    """
    lines = dict[tuple[str, str, str, Cause], list[Suspect]]()
    for one in suspects:
        lines.setdefault((one.answer, one.captured, one.came, cause_of(one)), []).append(one)
    found = [
        ErrorLine(*key, sum(one.count for one in group), texts.get(_most(group), ""))
        for key, group in lines.items()
    ]  # fmt: skip
    found.sort(key=lambda line: (line.cause is not Cause.UNEXPECTED, -line.count, line.captured, line.came))
    return Errors(expected, tuple(found), has_control)


def _most(group: list[Suspect]) -> str:
    counts = dict[str, int]()
    for one in group:
        counts[one.fingerprint] = counts.get(one.fingerprint, 0) + one.count
    return max(counts, key=lambda name: counts[name])
