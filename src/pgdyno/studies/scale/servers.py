"""Levels with servers of their own: each is one that may be changed, no two are the same, and CPUs go with the load."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Facts, Unknown
from pgdyno.replay.target_facts import ALLOWED, allowed_targets
from pgdyno.server import places
from pgdyno.studies.scale.plan import ScalePlan, is_even
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target


def request_of(plan: ScalePlan, server: str) -> TargetRequest:
    """Return how a server of the plan is reached, by what the plan calls it."""
    level = next(one for one in plan.levels if one.server == server)
    return TargetRequest(dsn=level.target, host=level.host or None)


def check_servers(plan: ScalePlan) -> None:
    """Open and close each, before anything is loaded on the first. Raises as the three below, and as opening does."""
    names, facts = dict[str, str](), dict[str, Facts]()
    for one in filter(None, plan.targets):
        with opened(request_of(plan, one)) as target:
            require_named(target)
            names[one], facts[one] = target.name, read_facts(target)
    require_apart(names)
    require_proportion(plan, facts)


def require_named(target: Target) -> None:
    """Raise EnvironmentUnsuitable for a server that nobody named as one whose data may be changed: a plan is a file."""
    if not target.disposable and target.name not in allowed_targets(places.data_dir()):
        raise EnvironmentUnsuitable(
            f'no level is run on "{target.name}": it is not in the list of servers whose data may be changed',
            hint=f'If it may be loaded, write the line "{target.name}" into {places.data_dir() / ALLOWED}.',
        )


def require_apart(names: Mapping[str, str]) -> None:
    """Raise UsageError where two targets of a plan, by what it calls them, are one server."""
    for target, name in names.items():
        other = next((one for one, its in names.items() if its == name and one != target), None)
        if other is not None:
            raise UsageError(
                f'target "{target or other}" is "{name}", and so is that of other levels',
                hint="Name one server by one conninfo everywhere; levels may share it.",
            )


def require_proportion(plan: ScalePlan, facts: Mapping[str, Facts]) -> None:
    """Raise UsageError where the CPUs of levels on several servers do not go with their load, as far as they are known.

    Levels whose server is not in `facts`, or does not show its CPUs, are left out; the page says so.
    """
    if not plan.proportion or len(plan.targets) < 2:
        return
    known = {level: facts[level.server].host.cores for level in plan.levels if level.server in facts}
    cores = {level.percent: count for level, count in known.items() if not isinstance(count, Unknown)}
    if not is_even(count / percent for percent, count in cores.items()):
        told = ", ".join(f"{percent:g} % on {count}" for percent, count in cores.items())
        raise UsageError(
            f"CPUs of the servers and load are not in proportion: {told}",
            hint="Name servers whose CPUs go with the load, or write proportion = false in [scale].",
        )
