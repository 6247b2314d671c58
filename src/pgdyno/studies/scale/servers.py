"""Levels with servers of their own: each is one that may be changed, no two are the same, and CPUs go with the load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from pgdyno.errors import EnvironmentUnsuitable, UsageError, naming
from pgdyno.model.facts import Facts, Unknown
from pgdyno.replay.target_facts import ALLOWED, allowed_targets
from pgdyno.server import places
from pgdyno.studies.scale.plan import ScalePlan, is_even
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target

_STARTED = "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text AS started"


def request_of(plan: ScalePlan, server: str) -> TargetRequest:
    """Return how a server of the plan is reached, by what the plan calls it."""
    level = next(one for one in plan.levels if one.server == server)
    return TargetRequest(dsn=level.target, host=level.host or None)


def check_servers(plan: ScalePlan) -> None:
    """Open and close each, before anything is loaded on the first. Raises as the three below, and as opening does."""
    seen, facts = dict[str, SeenServer](), dict[str, Facts]()
    for one in filter(None, plan.targets):
        with naming("target of [[level]]"), opened(request_of(plan, one)) as target:
            require_named(target)
            seen[one], facts[one] = seen_server(target), read_facts(target)
    require_apart(seen)
    require_proportion(plan, facts)


def require_named(target: Target) -> None:
    """Raise EnvironmentUnsuitable for a server that nobody named as one whose data may be changed: a plan is a file."""
    if not target.disposable and target.name not in allowed_targets(places.data_dir()):
        raise EnvironmentUnsuitable(
            f'no level is run on "{target.name}": it is not in the list of servers whose data may be changed',
            hint=f'If it may be loaded, write the line "{target.name}" into {places.data_dir() / ALLOWED}.',
        )


@dataclass(frozen=True, slots=True)
class SeenServer:
    """What a server is called here, and when it was started, in seconds since the epoch: two names may lead to one.

    The system identifier would not tell: servers of levels may be copies of one.
    """

    name: str
    started: str


def seen_server(target: Target) -> SeenServer:
    """Ask a server since when it runs."""
    (row,) = target.postgres.fetch(_STARTED)
    return SeenServer(target.name, str(row["started"]))


def require_apart(servers: Mapping[str, SeenServer]) -> None:
    """Raise UsageError where two targets of a plan, by what it calls them, are one server."""
    for (target, seen), (other, also) in combinations(servers.items(), 2):
        if seen.name == also.name or seen.started == also.started:
            raise UsageError(
                f"{_called(target, seen)} and {_called(other, also)} are one server, and would count as two",
                hint="Name one server by one conninfo everywhere; levels may share it.",
            )


def _called(target: str, seen: SeenServer) -> str:
    return f'"{target}"' if target else f'the study\'s own "{seen.name}"'


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
