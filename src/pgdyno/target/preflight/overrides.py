"""Whether ALTER ROLE or ALTER DATABASE would override a configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.target.effectiveness import quoted, same_value
from pgdyno.target.preflight.plan import Plan
from pgdyno.target.preflight.reading_server import Override, ServerReading
from pgdyno.target.preflight.result import Result, noted, passed, refused
from pgdyno.units import parse_quantity

_CHECK = "roles and databases"


def overrides(plan: Plan, server: ServerReading, databases: Collection[str]) -> Result:
    """Refuse a knob that is set otherwise for our role, in our database or the load's: it would not be in force.

    One that is set for other roles or databases is a note: what is measured does not hold for their sessions.
    """
    found = [override for override in server.overrides if _differs(plan, override)]
    own = {server.database, *databases}
    ours = [o for o in found if o.role in (None, server.role) and (o.database is None or o.database in own)]
    if ours:
        words = "; ".join(f"{plan.figure(o.name)} is overridden by {statement(o)}" for o in ours)
        hint = f"Take it out of the way with {reset(ours[0])}, or leave this knob out."
        return refused(_CHECK, words, asked=_names(ours), there=statement(ours[0]), hint=hint)
    if found:
        words = "; ".join(statement(override) for override in found)
        return noted(_CHECK, f"not for sessions of {words}", asked=_names(found), there=f"{len(found)} settings")
    return passed(_CHECK, "no role or database overrides the configuration")


def statement(override: Override) -> str:
    """Return the statement that made the setting, for people."""
    return f"{_subject(override)} SET {override.name} = {override.value}"


def reset(override: Override) -> str:
    """Return the statement that takes the setting away."""
    return f"{_subject(override)} RESET {override.name}"


def _subject(override: Override) -> str:
    if override.role is None and override.database is not None:
        return f"ALTER DATABASE {quoted(override.database)}"
    role = "ALTER ROLE ALL" if override.role is None else f"ALTER ROLE {quoted(override.role)}"
    return role if override.database is None else f"{role} IN DATABASE {quoted(override.database)}"


def _differs(plan: Plan, override: Override) -> bool:
    """Tell whether the override is of a knob that is asked for, and of another value."""
    state = plan.now.get(override.name)
    if state is None or override.name not in plan.asked:
        return False
    return not same_value(plan.asked[override.name], replace(state, setting=_bare(override.value, state.unit)))


def _bare(text: str, unit: str | None) -> str:
    """Return a value in base units, as `pg_settings` shows it; text that is no quantity as it is."""
    try:
        return f"{parse_quantity(text, unit):.12g}"
    except UsageError:
        return text


def _names(found: list[Override]) -> str:
    return ", ".join(sorted({override.name for override in found}))
