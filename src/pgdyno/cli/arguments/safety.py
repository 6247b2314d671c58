"""The flags that say when a study is ended for the server's sake: guards and watchdog; kept for a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import F, Flags, stack
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


def safety_options(function: F) -> F:
    """Add the flags of guards and watchdog, and the one that says what stays on the server."""
    return stack(
        function,
        [
            click.option(
                "--guard",
                "guards",
                multiple=True,
                metavar="NAME=VALUE",
                help="Where a guard trips, such as disk=2GB or errors=20%, or NAME=off; see pgdyno guards.",
            ),
            click.option(
                "--guard-trips",
                type=click.IntRange(1),
                default=3,
                show_default=True,
                help="How many configurations guards may reject before the study ends.",
            ),
            click.option(
                "--watchdog-deadline",
                type=Time("s", 1, 3600),
                default=30.0,
                show_default=True,
                help="How long the server may be silent before the watchdog puts it back.",
            ),
            click.option(
                "--keep-data",
                is_flag=True,
                help="Leave the databases of the load on the server, so that the next study does not load again.",
            ),
        ],
    )


def safety(flags: Flags, stored: Mapping[str, object] | None = None) -> Safety:
    """Read the flags; those of a resumed study come first, so that a guard given again has the new limit."""
    words, trips, deadline_s = flags.words("guards"), flags.whole("guard_trips"), flags.real("watchdog_deadline")
    if stored is not None:
        before = stored.get("guards")
        words = (*(map(str, before) if isinstance(before, list) else ()), *words)
        trips, deadline_s = int(str(stored.get("trips", trips))), float(str(stored.get("deadline_s", deadline_s)))
    return Safety(words, trips, deadline_s)
