"""How settings reach what a server reads at its next reload or restart, and how they are taken away again.

Three routes: our drop-in file where the configuration files can be reached (`file_route`), ALTER SYSTEM where only SQL
can (`sql_route`), and the dynamic configuration of a Patroni cluster (`patroni_route`). A session stages through its
route, then reloads or restarts through its control; `restore` puts back through the same route, rebuilt from the
undo bundle, so no route may keep state that the bundle does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pgdyno.model.configuration import Configuration
from pgdyno.server.snapshot import SettingDifference, SettingState, differences

FILES = frozenset({"configuration file"})


class Route(Protocol):
    """One way for settings to reach a server; those that inherit it set them in configuration files."""

    @property
    def source(self) -> Path | None:
        """Return the file that `pg_settings.sourcefile` names for what we staged; None when it cannot be known."""

    @property
    def accepted_sources(self) -> frozenset[str]:
        """Return the values of `pg_settings.source` that our settings come from: by default configuration files."""
        return FILES

    def record(self) -> dict[str, object]:
        """Return plain JSON values, never a secret, from which `route_record.from_record` rebuilds this route.

        They hold `kind`, and what the route must put back unless that is in the bundle's file images.
        """

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Write the configuration, and nothing else of ours, where the next reload or restart will read it.

        The empty configuration stages the original. Must be atomic: what is staged is all of it or what was there
        before. Raises OSError where a file cannot be written, and EnvironmentUnsuitable where a service refuses it.
        """

    def check(self, configuration: Configuration) -> None:
        """Ask the running server whether it will accept what is staged. Raises ApplyError that names knob and value."""

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Make what is staged and in force a change that stays when the session ends. Errors as `stage`."""

    def put_back(self) -> Sequence[str]:
        """Put back what was there before the session, from every state, and return what had to be changed, by name.

        Idempotent. Raises OSError, EnvironmentUnsuitable or RollbackError when it cannot.
        """

    def plan(self) -> list[str]:
        """Return what `put_back` would change, line by line, for people; no value that may be secret. Reads only.

        Errors as `put_back`.
        """

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each thing that is not as it was before the session; empty after `put_back`."""

    def differences(
        self, before: Mapping[str, SettingState], after: Mapping[str, SettingState]
    ) -> tuple[SettingDifference, ...]:
        """Return the settings that are not as they were, but for what the route knows to change by itself."""
        return differences(before, after)


Record = Mapping[str, object]
