"""The flags that say when a study is ended for the server's sake: guards and watchdog; kept for a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.cli.arguments.numbers import Time

if TYPE_CHECKING:
    from pgdyno.model.guard import GuardPlan
    from pgdyno.undo.watch import Deadlines


@dataclass(frozen=True, slots=True)
class Safety:
    """What was asked for: the words of --guard, how many trips, and the watchdog's patience with the server."""

    guards: tuple[str, ...]
    trips: int
    deadline_s: float

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values for the study's options."""
        return {"guards": list(self.guards), "trips": self.trips, "deadline_s": self.deadline_s}

    def plan(self) -> GuardPlan:
        """Return the guards' limits. Raises UsageError on a word that is not one."""
        from pgdyno.trial.guard_settings import guard_plan

        return guard_plan(self.guards, self.trips)

    def deadlines(self) -> Deadlines:
        """Return the watchdog's deadlines."""
        from pgdyno.undo.watch import Deadlines

        return Deadlines(health_s=self.deadline_s)


class SafetyFlags(Flags):
    """When a study is ended for the server's sake, and what stays on the server."""

    guards: tuple[str, ...] = flag(
        "Limit at which a guard trips, such as disk=2GB or errors=20%, or NAME=off; see pgdyno guards.",
        "--guard",
        metavar="NAME=VALUE",
    )
    guard_trips: int = flag(
        "How many configurations guards may reject before the study ends.", default=3, type=click.IntRange(1)
    )
    watchdog_deadline: float = flag(
        "How long the server may be silent before the watchdog restores it.", default=30.0, type=Time("s", 1, 3600)
    )
    keep_data: bool = flag("Keep the load's databases on the server, so that the next study need not load them.")


def safety(flags: SafetyFlags, stored: Mapping[str, object] | None = None) -> Safety:
    """Read the flags; those of a resumed study come first, so that a guard given again has the new limit."""
    words, trips, deadline_s = flags.guards, flags.guard_trips, flags.watchdog_deadline
    if stored is not None:
        before = stored.get("guards")
        words = (*(map(str, before) if isinstance(before, list) else ()), *words)
        trips, deadline_s = int(str(stored.get("trips", trips))), float(str(stored.get("deadline_s", deadline_s)))
    return Safety(words, trips, deadline_s)
