"""What failed in a server during a run, counted from the run's events: none is a result as well. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pgdyno.model.samples import Event

FAILURES: Mapping[str, str] = {
    "crash": "crashes",
    "panic": "PANICs",
    "oom": "processes of the server killed for want of memory",
    "stop": "shutdowns that somebody asked for",
    "restart": "restarts",
    "down": "times that it did not answer at the end",
    "oom_kill": "moments in which the kernel killed on the host for want of memory",
    "session_killed": "sessions ended by an operator",
    "session_fatal": "sessions ended by a fatal error",
    "deadlock": "deadlocks",
}
"""Kinds of events that are failures, and how they are called; `failure_log` tells the first ones apart."""
GRAVE = ("crash", "panic", "oom", "stop", "restart", "down", "oom_kill", "session_killed", "session_fatal")
"""What no healthy run has: such a run is flagged."""
_SESSIONS = ("session_killed", "session_fatal")
COUNTER = "failures_"
"""What the names of the counts begin with among an outcome's counters."""


GUARD, CUT = "guard", "cut short"
"""Events after which sessions end by our doing: a guard tripped; a hopeless load was ended."""


def without_our_own(events: Sequence[Event]) -> list[Event]:
    """Return the events without the sessions that ended when a guard had tripped, or the load was cut short, by us."""
    ended = min((event.t for event in events if event.kind in (GUARD, CUT)), default=math.inf)
    return [event for event in events if event.t < ended or event.kind not in _SESSIONS]


def count_failures(events: Iterable[Event]) -> dict[str, float]:
    """Return the number of events of each kind of failure, as counters of an outcome; 0 where there was none."""
    counts = {f"{COUNTER}{kind}": 0.0 for kind in FAILURES}
    for event in events:
        if event.kind in FAILURES:
            counts[f"{COUNTER}{event.kind}"] += 1
    return counts


def failure_warning(counts: Mapping[str, float], events: Iterable[Event] = ()) -> str | None:
    """Return the sentence that flags a run in which the server failed, and why; None for a healthy one."""
    found = [f"{FAILURES[kind]} {counts[COUNTER + kind]:.0f}" for kind in GRAVE if counts.get(COUNTER + kind)]
    told = list(dict.fromkeys(event.text for event in events if event.kind in GRAVE))
    because = f" ({'; '.join(told)})" if told else ""
    return f"the server failed during the run: {', '.join(found)}{because}" if found else None
