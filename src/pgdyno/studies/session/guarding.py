"""What ends a run from outside: the guards of its target, a stop file, the time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pgdyno.model.guard import GuardPlan
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.targets.target import Target
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text


@contextmanager
def guarded(
    target: Target, plan: GuardPlan, sessions: int, announce: Callable[[str], None]
) -> Iterator[Callable[[], str]]:
    """Watch disk, memory and connections of the target, and yield what says which guard was breached.

    What is yielded returns the breach in words, empty while there is none. `plan` has the limits that the user set, and
    `sessions` is how many the load will open, for the guard of connections. `announce` takes one line: which guards
    watch and which do not. Raises EnvironmentUnsuitable as `Sentry.begin`, where a guard is breached before the load
    begins.
    """
    reader = GuardReader(target)
    try:
        sentry = Sentry(reader, plan)
        announce(off_text(sentry.begin(sessions)))

        def breach() -> str:
            try:
                sentry.check()
            except GuardBreached as stopped:
                return str(stopped.breach)
            return ""

        with sentry.watch():
            yield breach
    finally:
        reader.close()


class Halting(Protocol):
    """Says why to end."""

    def __call__(self, needed_s: float = 0.0) -> str:
        """Return why to end now, or before what takes so many seconds more; empty while nothing is in its way."""
        ...


def halting(max_seconds: float, stop_file: Path | None, breach: Callable[[], str] = str) -> Halting:
    """Return what says why to end; `max_seconds` count from now, a guard comes last."""
    ends = time.monotonic() + max_seconds

    def halt(needed_s: float = 0.0) -> str:
        if stop_file is not None and os.path.lexists(stop_file):
            return "the stop file"
        left_s = ends - time.monotonic()
        if left_s <= 0 or left_s < needed_s:
            return f"--max-seconds {max_seconds:.15g}"
        return breach()

    return halt
