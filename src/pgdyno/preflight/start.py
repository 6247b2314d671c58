"""Whether the server program would start with the planned settings. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_start import StartReading
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused

_HINT = "Change or leave out what the server names; pgdyno knobs show NAME gives its range."


def start(plan: StartPlan, reading: StartReading) -> Result:
    """Judge what `postgres -C` said, and the combinations that 13 and 14 would only refuse at start."""
    if not plan.restart:
        return not_applicable("start", "a reload is enough")
    broken = combinations(plan)
    if broken is not None:
        return refused("start", f"the server would not start: {broken}", hint=_HINT)
    if isinstance(reading.complaints, Unknown):
        return not_applicable("start", reading.complaints.reason)
    if not reading.complaints:
        return passed("start", "the server program accepts the configuration")
    words = "; ".join(reading.complaints)
    if reading.known:
        return noted("start", f"the server program says this of the values in force too: {words}")
    return refused("start", f"the server would not start: {words}", hint=_HINT)


def combinations(plan: StartPlan) -> str | None:
    """Return the combination of settings that keeps a server from starting (postmaster.c, 13 to 18), or None."""
    reserved = (plan.number("superuser_reserved_connections") or 0) + (plan.number("reserved_connections") or 0)
    most = plan.number("max_connections")
    if most is not None and reserved >= most:
        return f"{reserved:.0f} reserved connections must be less than {plan.figure('max_connections')}"
    if plan.text("wal_level") != "minimal":
        return None
    if plan.text("archive_mode") not in ("off", None):
        return f"archive_mode = {plan.text('archive_mode')} needs wal_level = replica or logical"
    if (plan.number("max_wal_senders") or 0) > 0:
        return f"{plan.figure('max_wal_senders')} needs wal_level = replica or logical"
    return None
