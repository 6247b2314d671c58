"""The guards of a target while others load it: jobs of a batch, a migration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pgdyno.model.guard import GuardPlan
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.targets.target import Target
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text


@contextmanager
def guarded(
    target: Target, plan: GuardPlan, sessions: int, announce: Callable[[str], None]
) -> Iterator[Callable[[], str]]:
    """Watch disk, memory and connections of the target, and yield what says which guard was breached."""
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
