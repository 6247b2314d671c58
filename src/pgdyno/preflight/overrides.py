"""Whether ALTER ROLE or ALTER DATABASE would override a configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_server import ServerReading
from pgdyno.preflight.result import Result, noted, passed, refused
from pgdyno.server.effectiveness import same_value
from pgdyno.server.role_settings import Override, reset, statement
from pgdyno.targets.overrides import is_of
from pgdyno.units import parse_quantity

_CHECK = "roles and databases"


def overrides(plan: StartPlan, server: ServerReading, databases: Collection[str]) -> Result:
    """Refuse a knob that is set for our role, in our database or the load's: what is in force would not be ours.

    That holds for an equal value too: a session that reads the value back finds that it comes from elsewhere. A knob
    that is set otherwise for other roles or databases is a note: what is measured does not hold for their sessions.
    """
    asked = [override for override in server.overrides if override.name in plan.asked]
    own = {server.database, *databases}
    if ours := [override for override in asked if is_of(override, server.role, own)]:
        words = "; ".join(f"{plan.figure(o.name)} is overridden by {statement(o)}" for o in ours)
        hint = f"Remove it with {reset(ours[0])}, or leave this knob out."
        return refused(_CHECK, words, asked=_names(ours), there=statement(ours[0]), hint=hint)
    if found := [override for override in asked if _differs(plan, override)]:
        words = "; ".join(statement(override) for override in found)
        return noted(_CHECK, f"not for sessions of {words}", asked=_names(found), there=f"{len(found)} settings")
    return passed(_CHECK, "no role or database overrides the configuration")


def _differs(plan: StartPlan, override: Override) -> bool:
    """Tell whether the override is of another value than the one asked for."""
    state = plan.now.get(override.name)
    if state is None:
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
