"""Which names a route may touch, and which values must not be written down: pure rules for routes without file images.

ALTER SYSTEM and Patroni's dynamic configuration keep their settings one by one. What a session adds there can be
told from what others add only by name, so a route touches, and takes away again, what the policy lets anyone set.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.errors import PolicyError
from pgdyno.knobs.policy import load_policy, ruling_of

_SECRETIVE = ("_command", "_conninfo")


def is_ours(name: str) -> bool:
    """Return True for a parameter that pgdyno may set: one that is there and was not before is from a session."""
    ruling = ruling_of(name)
    return ruling is not None and (ruling.settable or ruling.name in load_policy().capture)


def refuse_strange(names: Iterable[str]) -> None:
    """Raise PolicyError for parameters that pgdyno may not set: the way back would not know them for ours."""
    strange = sorted(name for name in names if not is_ours(name) or may_hold_secret(name))
    if strange:
        raise PolicyError(f"{', '.join(strange)} may not be set by pgdyno", hint="Leave it out.")


def may_hold_secret(name: str) -> bool:
    """Return True for a parameter whose value may hold a password: it is left where it is and never written down.

    Those are connection strings, shell commands and the parameters of extensions and applications (`jwt.secret`).
    """
    return name.lower().endswith(_SECRETIVE) or "." in name
