"""What came of bringing a configuration into force: it is, or why it is not and what is in force instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgdyno.errors import ApplyError, PgdynoError, RollbackError
from pgdyno.model.configuration import Configuration
from pgdyno.undo.restore import Restored

When = Literal["always", "as-needed", "never"]
"""When a server is restarted for a configuration."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A configuration that is in force.

    `values` are the configuration's knobs as `pg_settings` shows them, in base units. `fingerprint` names everything
    that is set on the server (see `snapshot.fingerprint`). `seconds` is what it took, a restart included;
    `outage_s` what the restart alone took, from the order to stop to the first session, None without one.
    """

    restarted: bool
    seconds: float
    values: Mapping[str, str]
    fingerprint: str
    outage_s: float | None = None


def not_applied(configuration: Configuration, error: PgdynoError) -> ApplyError:
    """Return the error for a configuration with which the server did not come up; the one before is in force."""
    if isinstance(error, ApplyError):
        return error
    text = ", ".join(f"{name} = {value}" for name, value in configuration.items()) or "the baseline"
    return ApplyError(
        f"the server did not come up with {text}",
        detail=error.detail or error.message,
        hint="The configuration before is in force again. Change or leave out what the detail names.",
    )


def stranded(session: str, error: PgdynoError) -> RollbackError:
    """Return the error for an attempt that failed, and after which the configuration before could not come back."""
    return RollbackError(
        f"the configuration before could not be brought back: {error.message}",
        detail=error.detail,
        # The end of the session restores the server a second way: who reads this may have nothing left to do.
        hint=f"{f'{error.hint} ' if error.hint else ''}If pgdyno rollback --list shows session {session} open, run "
        f"pgdyno rollback {session}.",
    )


def damage_error(session: str, restored: Restored) -> RollbackError:
    """Return the error for a rollback that left something different from how it was found."""
    lines = [*restored.damage, *(str(difference) for difference in restored.settings_differences)]
    return RollbackError(
        f"session {session} was rolled back, but the server is not as it was found",
        detail="\n".join(lines),
        hint=f"Fix the problem and run pgdyno rollback {session} (with --dry-run it only prints each line that it will "
        f"change), or accept it with pgdyno rollback {session} --forget.",
    )
