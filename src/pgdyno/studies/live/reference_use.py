"""What is read off a reference later: guards' limits, the busiest database, and whether a study may go on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.environment import same_environment
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardLimit, GuardPlan
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study
from pgdyno.probes.statements import DatabaseTotals
from pgdyno.stats.body_index import StatementReference
from pgdyno.studies.live.reference import Watched
from pgdyno.studies.live.server_world import LOAD_LEFT
from pgdyno.studies.session.environment_change import environment_changes, facts_image, other_server, settings_changes

ERRORS_ROOM, ERRORS_MORE = 3.0, 2.0
"""Guard errors: a load that rolls back on purpose is given so many times its usual share, and so many percent more."""


def busiest(reference: StatementReference, names: Mapping[int, str], databases: list[int]) -> str:
    """Return the database that most of the statements' time is spent in."""
    spent: dict[int, float] = {}
    for database, time_ms in zip(databases, reference.time_ms.tolist(), strict=True):
        spent[database] = spent.get(database, 0.0) + time_ms
    return names.get(max(spent, key=lambda one: spent[one]), "") if spent else ""


def _rolled_back(first: DatabaseTotals, last: DatabaseTotals) -> float:
    rollbacks, commits = last.rollbacks - first.rollbacks, last.commits - first.commits
    return 100 * rollbacks / (rollbacks + commits) if rollbacks > 0 and commits >= 0 else 0.0


def with_errors(plan: GuardPlan, seen: Watched) -> GuardPlan:
    """Let guard errors begin above what the reference rolled back, unless the user has set it."""
    if "errors" in plan.limits:
        return plan
    limit = ERRORS_ROOM * _rolled_back(seen.first, seen.last) + ERRORS_MORE
    return replace(plan, limits={**plan.limits, "errors": GuardLimit(max(5.0, min(100.0, limit)))})


def require_same_server(study: Study, facts: Facts) -> None:
    """Refuse to go on with pairs of another server, or of one with other settings: raise EnvironmentUnsuitable."""
    image = facts_image(facts)
    differs = other_server(study.facts, image)
    if differs or not same_environment(study.environment, facts.environment_hash()):
        raise EnvironmentUnsuitable(
            f"study {study.id} was begun on another server" if differs else f"{study.target} is not what it was",
            detail=f"{'; '.join(differs)}." if differs else environment_changes(study.facts, image),
            hint=f"The pairs of study {study.id} say nothing of this one: start a new study, without --resume.",
        )
    if changed := settings_changes(study.facts, facts):
        raise EnvironmentUnsuitable(
            f"settings of {study.target} are not those that study {study.id} was begun with",
            detail=changed,
            hint="Put them back as they were, or start a new study, without --resume: its pairs had another A.",
        )


def require_load(then: StatementReference, now: StatementReference) -> None:
    """Refuse to go on under a load of which too little is left: raise EnvironmentUnsuitable."""
    before, today = (float(one.calls.sum()) / max(one.seconds, 1e-9) for one in (then, now))
    if today < LOAD_LEFT * before:
        raise EnvironmentUnsuitable(
            f"the load has {today:.0f} calls a second, and had {before:.0f} in the reference",
            hint="Nothing was changed. Resume it when the load is back, or start a new study.",
        )


def reference_alone(study: Study) -> LiveResult:
    """Return what the reference of a study came to. Raises UsageError where it was not finished."""
    found = study.told(LiveResult)
    if found is None:
        raise UsageError(
            f"the reference of study {study.id} was not finished",
            hint="There is nothing to continue from: start a new study, without --resume.",
        )
    return replace(found, switch=None, search=None)
