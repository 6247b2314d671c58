"""Count the restarts that the trials of a study need, and make each one only when its budget allows it.

Which trial needs a restart follows from the configurations alone, so a study that is resumed counts the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime

from pgdyno.control.restart_budget import Permission, RestartBudget, RestartLedger
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import SEEN_AT_START

LOOK_S = 15.0
"""How often the clock is looked at while a window is waited for."""


class Restarts:
    """The restarts of one study. `always` says that every trial begins with one, needed or not."""

    def __init__(
        self,
        facts: Facts,
        budget: RestartBudget | None = None,
        *,
        always: bool = True,
        now: Callable[[], datetime] = datetime.now,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._facts = facts
        self._ledger = RestartLedger(budget or RestartBudget(), now=now)
        self._always = always
        self._sleep = sleep
        self._in_force = BASELINE

    @property
    def used(self) -> int:
        """Return how many the study's trials have needed so far."""
        return self._ledger.used

    def most(self, configurations: Iterable[Configuration]) -> int:
        """Return how many running these once each takes at most, in whatever order."""
        states = [self._state(configuration) for configuration in configurations]
        if self._always or any(state != states[0] for state in states):
            return len(states)
        return int(bool(states) and states[0] != self._state(self._in_force))

    def _state(self, configuration: Configuration) -> dict[str, str]:
        return {name: value for name, value in configuration.items() if needs_restart(name, self._facts)}

    def replay(self, configuration: Configuration) -> None:
        """Count the restart of a trial that was made before the study was resumed."""
        if self._needs_one(configuration):
            self._ledger.spend()
        self._in_force = configuration

    def allow(self, configuration: Configuration, waiting: Callable[[Permission], None]) -> None:
        """Return when this configuration may be applied; waits for the window, telling `waiting` each time it looks.

        Raises EnvironmentUnsuitable when the budget is spent.
        """
        if self._needs_one(configuration):
            while not (permission := self._ledger.permission()).allowed:
                if permission.final:
                    raise EnvironmentUnsuitable(
                        permission.reason,
                        detail="The next trial needs one. Restoring the server does not count towards the limit.",
                        hint="Start again with more --restarts. To continue a tune: pgdyno tune --resume last "
                        "--restarts N, where N counts from its start.",
                    )
                waiting(permission)
                self._sleep(LOOK_S)
            self._ledger.spend()
        self._in_force = configuration

    def _needs_one(self, configuration: Configuration) -> bool:
        before = self._in_force
        changed = {name for name in before.keys() | configuration.keys() if before.get(name) != configuration.get(name)}
        return self._always or any(needs_restart(name, self._facts) for name in changed)


def needs_restart(name: str, facts: Facts) -> bool:
    """Return True for a knob whose new value only a restart brings into force; the pool of huge pages is one."""
    fact = facts.settings.get(name)
    return name in SEEN_AT_START if fact is None else fact.context == "postmaster"
