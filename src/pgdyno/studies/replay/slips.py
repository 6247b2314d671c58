"""Slips in what a replay is asked for, told before a state is brought back or a statement is sent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.guard import GuardPlan
from pgdyno.replay.captured import Asked
from pgdyno.replay.restore import Restore
from pgdyno.studies.replay.options import ReplayOptions

_OF_TRIALS = frozenset({"temp", "errors", "deadlocks", "throughput", "p99"})
"""Guards that watch the load of a trial: in a replay they have nothing to read."""


def require_watched(guards: GuardPlan) -> None:
    """Raise UsageError for the limit of a guard that does not watch a replay: nobody would find out."""
    for name, limit in guards.limits.items():
        if name in _OF_TRIALS and limit.value is not None:
            raise UsageError(
                f"guard {name} watches the load of a trial, and not a replay",
                hint="Leave it out: --error-limit judges the answers of a replay, and compare its times.",
            )


def require_new(outcomes: Iterable[Path]) -> None:
    """Raise UsageError where the folder of an outcome is there already: the last of many runs would find that out."""
    for folder in outcomes:
        if os.path.lexists(folder):
            raise UsageError(
                f'"{folder}" already exists, and an outcome goes into a folder of its own',
                hint="Name another --output, or move that one away.",
            )


def require_no_stop(options: ReplayOptions) -> None:
    """Raise UsageError where the file that ends a run is there from the begin, as from the run before."""
    if options.stop_file is not None and os.path.lexists(options.stop_file):
        raise UsageError(
            f'the stop file "{options.stop_file}" exists already: the run would end at once', hint="Remove it first."
        )


def require_known(options: ReplayOptions, asked: Asked) -> None:
    """Raise UsageError where a map names a role or database in which no session of the trace is."""
    _of_trace("--user-map", "role", options.users, asked.users)
    _of_trace("--database-map", "database", options.databases, asked.databases)


def require_restored(restore: Restore, options: ReplayOptions, asked: Asked) -> None:
    """Raise UsageError where the load goes to a database whose state does not come back."""
    if restore.databases is None:
        return
    for captured in asked.databases:
        name = options.databases.get(captured, captured)
        if name not in restore.databases:
            raise UsageError(
                f'the load goes to database "{name}", and --restore brings back {", ".join(restore.databases)} alone',
                hint=f"Map to it: --database-map {captured}={restore.databases[0]}, or cut the trace: "
                "pgdyno trace cut --database.",
            )


def _of_trace(flag: str, what: str, given: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(
                f'{flag} names {what} "{name}", and no session of the trace is of it',
                hint=f"The trace has {', '.join(known[:10])}.",
            )
