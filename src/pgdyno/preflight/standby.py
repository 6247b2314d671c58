"""Whether a change would stop a physical standby. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_server import ServerReading
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused


def standbys(plan: StartPlan, server: ServerReading, ordered: Collection[str]) -> Result:
    """Refuse every change of a standby-ordered knob while a physical standby is attached, or on a standby itself.

    A standby must have at least the primary's values (PostgreSQL documentation, 26.4), and which of the two is
    changed first depends on the direction: that is a person's work. A value that goes back to what the files say is
    a note: the way back must stay open.
    """
    check = "standbys"
    changed = sorted(name for name in ordered if plan.changes(name))
    if not server.standbys and not server.in_recovery:
        return not_applicable(check, "no physical standby is attached")
    there = ", ".join(server.standbys) or "this server is one"
    if not changed:
        return passed(check, "no standby-ordered knob changes", there=there)
    asked = ", ".join(f"{plan.now[name].setting} to {plan.figure(name)}" for name in changed)
    words = f"{', '.join(changed)} cannot be changed while a physical standby is attached ({there})"
    if not any(name in plan.asked for name in changed):
        sentence = f"{', '.join(changed)} go back to what the files say, with a standby attached"
        return noted(check, sentence, asked=asked, there=there)
    hint = "Leave these knobs out, or change them on the standbys and the primary by hand, in the documented order."
    return refused(check, words, asked=asked, there=there, hint=hint)
