"""Which part of the load an arm reaches: sessions may have settings of their own, and plans that were cached. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.catalogue import Group, load_catalogue
from pgdyno.model.configuration import Configuration
from pgdyno.probes.statements import StatementKey
from pgdyno.server.role_settings import Override, statement
from pgdyno.stats.body_index import StatementBody, StatementReference
from pgdyno.stats.statement_deltas import StatementDeltas

MOST_OVERRIDDEN = 0.5
"""Of the time: more in sessions that see neither arm, and the study is about the others."""
REUSED = 0.5
"""A statement with fewer plans than this many a call runs a cached plan."""
MOST_CACHED = 0.2
"""Of the body's weight: more in cached plans, and a planner's setting is not tested."""
_PLANNING = (Group.PLANNER, Group.PARALLEL)


def overridden(
    arms: Mapping[str, object],
    overrides: Sequence[Override],
    reference: StatementReference,
    keys: Sequence[StatementKey],
    names: tuple[Mapping[int, str], Mapping[int, str]],
) -> tuple[str, ...]:
    """Return notes on what outranks a knob of the arms, with the share of the time that its sessions took.

    `arms` is keyed by knob; its values are not read. `overrides` are the settings of roles and databases. `keys`
    identify the statements in the order of the arrays of `reference`, and `names` are (databases, roles), both from OID
    to name. Raises EnvironmentUnsuitable where that is most of the load: it would see neither arm.
    """
    databases, roles = names
    found, notes = np.zeros(len(keys), dtype=bool), []
    for one in overrides:
        if one.name not in arms:
            continue
        inside = np.array(
            [one.role in (None, roles.get(key.role)) and one.database in (None, databases.get(key.database))
             for key in keys],
            dtype=bool,
        )  # fmt: skip
        found |= inside
        share = 100 * float(reference.shares[inside].sum())
        notes.append(f"{statement(one)} outranks every file: {share:.0f} % of the time is of sessions like that.")
    share = float(reference.shares[found].sum())
    if share > MOST_OVERRIDDEN:
        raise EnvironmentUnsuitable(
            f"{100 * share:.0f} % of the statements' time is of sessions that would see neither arm",
            detail="\n".join(notes),
            hint="Nothing was changed. Remove the setting from the role or the database, or leave the knob out.",
        )
    return tuple(notes)


def cached(steps: Sequence[StatementDeltas], body: StatementBody, *, counts_plans: bool) -> float | None:
    """Return the share of the body's weight in statements that run cached plans; None where it does not count plans.

    A cached generic plan does not notice a reload: its sessions see a planner's setting when they connect again. Where
    all that runs was planned before, no plan is counted at all.
    """
    size = int(body.ids.max(initial=-1)) + 1
    calls, plans = np.zeros(size), np.zeros(size)
    for step in steps:
        known = step.ids < size
        calls[step.ids[known]] += step.calls[known]
        plans[step.ids[known]] += step.plans[known]
    if not counts_plans or size == 0:
        return None
    return float(body.weights[plans[body.ids] < REUSED * calls[body.ids]].sum())


def untested(arms: Sequence[Configuration], share: float | None) -> str:
    """Say that a planner's setting was hardly tested, where cached plans are too much of the load; else nothing."""
    catalogue = load_catalogue()
    names = sorted({name for arm in arms for name in arm})
    planning = [
        name
        for name in names
        if name.startswith("enable_") or (name in catalogue and catalogue[name].group in _PLANNING)
    ]
    if not planning or share is None or share <= MOST_CACHED:
        return ""
    return (
        f"{100 * share:.0f} % of the body runs cached plans, which do not notice {', '.join(planning)} before their "
        "sessions connect again: for those the change is not tested"
    )
