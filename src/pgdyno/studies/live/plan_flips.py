"""Which of the dearest statements would get another plan under an arm: asked before its first period, never executed.

The plans are generic ones, taken in a session of ours that sets what the arm sets; settings that a role has of its own
are not in them. Texts are forgotten: a statement is called by its queryid, and a plan by its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pgdyno.errors import PgdynoError
from pgdyno.knobs.catalogue import Group, load_catalogue
from pgdyno.model.facts import Facts
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.parts import PlanChange
from pgdyno.probes.statements import StatementKey
from pgdyno.server.postgres import Postgres
from pgdyno.stats.body_index import StatementReference
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.others_plans import others_plans
from pgdyno.workloads.script_statements import is_planned

MOST = 50
"""So many of the dearest statements are planned."""
CHANGED = "changed"
_GROUPS = (Group.PLANNER, Group.PARALLEL, Group.MEMORY)
_CONTEXT = "user"
"""What any session may set for itself."""


class TextReader(Protocol):
    """What is needed of `probes.statements.StatementReader`."""

    def texts(self, queryids: Sequence[int]) -> Mapping[int, str]:
        """Return the texts of statements."""


@dataclass(slots=True)
class PlanFlips:
    """The statements to be planned: text by queryid, for each database. Each configuration is asked for once."""

    postgres: Postgres
    facts: Facts
    texts: Mapping[str, Mapping[str, str]]
    numbers: Mapping[str, int]
    """The number of each in the reference."""
    roles: Mapping[str, int]
    """Who runs each, as the server numbers them."""
    _known: dict[tuple[tuple[str, str], ...], list[PlanRecord]] = field(default_factory=dict)

    def between(self, a: Mapping[str, str], b: Mapping[str, str]) -> tuple[PlanChange, ...]:
        """Return the plans of both arms, those that differ first; nothing where no setting of theirs can change one."""
        ones, others = self._planning(a), self._planning(b)
        if ones == others:
            return ()
        return tuple(plan_changes([self._plans(ones)], [self._plans(others)]))

    def critical(self, plans: Sequence[PlanChange]) -> tuple[int, ...]:
        """Return the numbers of the statements whose plan changed: each is watched alone, between closer bounds."""
        return tuple(self.numbers[one.statement] for one in plans if one.word == CHANGED)

    def _planning(self, settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return what of an arm a session may set for itself and the planner looks at."""
        catalogue = load_catalogue()
        return tuple(
            (name, value)
            for name, value in sorted(settings.items())
            if (row := self.facts.row(name)) is not None
            and row.context == _CONTEXT
            and (name.startswith("enable_") or (name in catalogue and catalogue[name].group in _GROUPS))
        )

    def _plans(self, settings: tuple[tuple[str, str], ...]) -> list[PlanRecord]:
        if settings not in self._known:
            found: list[PlanRecord] = []
            for database, texts in self.texts.items():
                found += others_plans(self.postgres, database, texts, dict(settings), self.roles)
            self._known[settings] = found
        return self._known[settings]


def plan_flips(
    postgres: Postgres,
    facts: Facts,
    reader: TextReader,
    reference: StatementReference,
    keys: Sequence[StatementKey],
    databases: Mapping[int, str],
) -> PlanFlips:
    """Return the dearest statements of a reference with a plan; none where their texts cannot be read.

    `keys` identify the statements in the order of the arrays of `reference`, and `databases` has names by OID;
    statements of a database that it lacks are left out. `reader` gives the texts; plans are asked for later, on
    `postgres`, and `facts` tell which settings a session may change for that.
    """
    dearest = [int(one) for one in np.argsort(-reference.time_ms)[:MOST] if reference.time_ms[one] > 0]
    try:
        texts = reader.texts(sorted({keys[one].queryid for one in dearest}))
    except PgdynoError:
        texts = {}
    found: dict[str, dict[str, str]] = {}
    numbers: dict[str, int] = {}
    roles: dict[str, int] = {}
    for number in dearest:
        key, name = keys[number], str(keys[number].queryid)
        text, database = texts.get(key.queryid, "").strip(), databases.get(key.database)
        if database is not None and name not in numbers and is_planned(text):
            found.setdefault(database, {})[name] = text
            numbers[name], roles[name] = number, key.role
    return PlanFlips(postgres, facts, found, numbers, roles)


def flips_text(plans: Sequence[PlanChange]) -> tuple[str, ...]:
    """Return a note on the plans that change, with what of each; none where no plan does."""
    return tuple(
        f"Statement {one.statement} would get another plan under B ({', '.join(one.what)}): it is watched more closely."
        for one in plans
        if one.word == CHANGED
    )
