"""Levels with servers of their own: each is one that may be changed, and no two are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.replay.target_facts import ALLOWED, allowed_targets
from pgdyno.server import places
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target


def check_servers(targets: Sequence[str]) -> None:
    """Open and close each, before anything is loaded on the first. Raises as the two below, and as opening does."""
    names = dict[str, str]()
    for one in targets:
        with opened(TargetRequest(dsn=one)) as target:
            require_named(target)
            names[one] = target.name
    require_apart(names)


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
