"""The two arms of a live study: what they set, what of it this server refuses, and what a person should know. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.knobs.constraints import check_for_all, require
from pgdyno.knobs.policy import Durability, check_settings, worst_class
from pgdyno.knobs.values import canonical_text
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import is_linux_knob
from pgdyno.trial.restarts import needs_restart

NO_EXPERIMENTS = frozenset({"huge_pages", "shared_preload_libraries"})
"""Whether a server can start with these is seen beforehand, and what they bring is known: advise has rules for them."""
_SAME = "Both arms have the same values: a study that ought to show no difference."


@dataclass(frozen=True, slots=True)
class Arms:
    """What A and B set; an empty A is the server as it is. `before` has the values as found, of all knobs of both."""

    a: Configuration
    b: Configuration
    before: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the knobs that either arm sets."""
        return tuple(self.before)

    @property
    def worst(self) -> Durability | None:
        """Return the worst class among the knobs."""
        return worst_class(self.names)


def arms_of(
    a: Mapping[str, str], b: Mapping[str, str], facts: Facts, *, connections: int, may_restart: bool = False
) -> Arms:
    """Return the arms in canonical text, checked against policy, server and the memory that is there.

    `a` and `b` are values by knob, an empty `a` the server as it is; `facts` are those of the server as found.
    `connections` is how many sessions may be at work at one time. Raises UsageError for a knob that needs a restart,
    unless the study `may_restart`, where none does although it may, and for one of Linux; else as
    `policy.check_settings` and `constraints.require`.
    """
    for name in (*a, *b):
        if is_linux_knob(name):
            raise UsageError(
                f'knob "{name}" is of Linux, and a live study sets only what a reload of the server brings into force',
                hint="Leave it out; pgdyno tune and pgdyno experiment measure Linux knobs with a load of their own.",
            )
    first, second = check_settings(a, facts), check_settings(b, facts)
    names = tuple(sorted({*first, *second}))
    for name in names:
        if name in NO_EXPERIMENTS and may_restart:
            raise UsageError(
                f"{name} is no experiment on a server that people use",
                hint="Leave it out; pgdyno advise says whether the server could start with it, and what it brings.",
            )
        if needs_restart(name, facts) and not may_restart:
            raise UsageError(
                f"{name} needs a restart, and without --allow-restart a live study makes none",
                hint="Leave it out, measure it on a sandbox with pgdyno experiment, or name maintenance windows: "
                "--allow-restart --windows 01:00-05:00.",
            )
    if may_restart and not any(needs_restart(name, facts) for name in names):
        raise UsageError(
            f"nothing of {', '.join(names)} needs a restart",
            hint="Leave out --allow-restart: by reloads, periods are short and many.",
        )
    for word, configuration in (("A", first), ("B", second)):
        require(configuration, facts, connections=connections, what=f"arm {word}")
    before = {name: canonical_text(row, row.setting) for name in names if (row := facts.row(name)) is not None}
    same = all(first.get(name, before[name]) == second.get(name, before[name]) for name in before)
    return Arms(first, second, before, (_SAME,) if same else ())


def not_kept(settings: Configuration, facts: Facts, *, connections: int) -> tuple[str, ...]:
    """Return a note where memory does for so many sessions, and not for all that the server admits."""
    found = check_for_all(settings, facts, measured=connections)
    if found is None:
        return ()
    most, refusal = found
    return (
        f"For all {most} sessions that the server admits it would be too much memory, so that pgdyno apply does not "
        f"keep it without --force: {refusal.reason}.",
    )
