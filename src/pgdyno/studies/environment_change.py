"""What of an environment is another than when a study was begun: the words beside two hashes that differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.facts import NOT_OF_ENVIRONMENT, OF_SERVER
from pgdyno.model.linux import SWAP_AREA

MOST_NAMED = 5


def environment_changes(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Name what differs between two images of facts, of what makes an environment; None where they do not tell."""
    old, new = _members(before), _members(now)
    found = [
        f"{name} was {old.get(name, 'not known')}, is {new.get(name, 'not known')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{'; '.join(found[:MOST_NAMED])}{more}." if found else None


def _members(image: Mapping[str, object]) -> dict[str, object]:
    """Return what `Facts.environment_hash` covers, by name; what could not be read is in none."""
    found: dict[str, object] = {}
    for part in ("host", "server", "kernel"):
        values = image.get(part)
        for name, value in values.items() if isinstance(values, Mapping) else ():
            left_out = {
                "host": name in NOT_OF_ENVIRONMENT,
                "server": name not in OF_SERVER,
                "kernel": name == SWAP_AREA,
            }
            if not left_out[part] and not isinstance(value, Mapping):
                found[f"PostgreSQL's {name}" if part == "server" else str(name)] = value
    return found
