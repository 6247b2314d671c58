"""What failed in a server during a run, counted from the run's events: none is a result as well. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pgdyno.model.samples import Event

FAILURES: Mapping[str, tuple[str, str]] = {
    "crash": ("crash", "crashes"),
    "panic": ("PANIC", "PANICs"),
    "oom": ("process of the server killed for lack of memory", "processes of the server killed for lack of memory"),
    "stop": ("shutdown that somebody asked for", "shutdowns that somebody asked for"),
    "restart": ("restart", "restarts"),
    "down": ("time without an answer at the end", "times without an answer at the end"),
    "oom_kill": ("out-of-memory kill on the host", "out-of-memory kills on the host"),
    "session_killed": ("session ended by an operator", "sessions ended by an operator"),
    "session_fatal": ("session ended by a fatal error", "sessions ended by a fatal error"),
    "deadlock": ("deadlock", "deadlocks"),
}
"""Kinds of failures, as one and as several are called; `failure_log` tells the first ones apart."""
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


def failure_text(kind: str, count: float) -> str:
    """Say how often something failed: `2 crashes`."""
    one, several = FAILURES[kind]
    return f"{count:.0f} {one if count == 1 else several}"


def failure_warning(counts: Mapping[str, float], events: Iterable[Event] = ()) -> str | None:
    """Return the sentence that flags a run in which something failed, and why; None for a healthy one.

    A kill on the host is not the server's own failure: it may have hit anybody's process.
    """
    kinds = [kind for kind in GRAVE if counts.get(COUNTER + kind)]
    if not kinds:
        return None
    who = "the host ran out of memory" if kinds == ["oom_kill"] else "the server failed"
    told = list(dict.fromkeys(event.text for event in events if event.kind in GRAVE))
    because = f" ({'; '.join(told)})" if told else ""
    return f"{who} during the run: {', '.join(failure_text(kind, counts[COUNTER + kind]) for kind in kinds)}{because}"
