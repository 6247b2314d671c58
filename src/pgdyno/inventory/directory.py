"""Which data directory a server has: what tells it from others on one host. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory


def directory_of(inventory: Inventory) -> str | None:
    """Return the data directory of the server, None where the role may not see it or no server was asked."""
    if isinstance(inventory.server, Unknown):
        return None
    fact = inventory.server.settings.get("data_directory")
    return (fact.setting or None) if fact is not None else None
