"""When a closed gate is opened."""

from __future__ import annotations

from typing import Any

from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.stalls import opens_at

NOW, STALL = 1_000_000, 250_000
ASKED = NOW - 9_000
"""The look was planned for then, and the engine is late."""


def opens(**others: dict[str, Any]) -> int:
    """Return when session 0 is let go, which waits for session 1; `others` by their letter, from 1 on."""
    mine = ReplaySession(0, 0, 0, 9, gates=[(1, 5)], is_held=True)
    rest = (ReplaySession(number, number, 0, 9, **one) for number, one in enumerate(others.values(), start=1))
    return opens_at(mine, {one.ordinal: one for one in (mine, *rest)}, ASKED, NOW, STALL)


def test_a_gate_is_opened_where_what_it_waits_for_may_wait_for_a_lock() -> None:
    assert opens(b={"is_busy": True, "sent": NOW - 2 * STALL}) == ASKED
    assert opens(b={"is_busy": True, "sent": NOW - STALL - 5_000}) == NOW - 5_000
    assert opens(b={"is_busy": True, "sent": NOW - 50_000}) == NOW + 200_000
    assert opens(b={"is_held": True, "gates": [(2, 1)]}, c={"is_busy": True, "sent": ASKED - STALL}) == ASKED


def test_what_is_late_not_due_or_being_opened_is_waited_for() -> None:
    assert opens(b={}) == NOW + STALL
    assert opens(b={"is_busy": True, "sent": -1}) == NOW + STALL
    assert opens(b={"is_held": True, "gates": [(2, 1)]}, c={}) == NOW + STALL
    assert opens() == ASKED, "nobody is there"


def test_gates_in_a_circle_are_opened() -> None:
    assert opens(b={"is_held": True, "gates": [(0, 1)]}) == ASKED
    assert opens(b={"is_held": True, "gates": [(2, 1)]}, c={"is_held": True, "gates": [(1, 1)]}) == NOW + STALL
