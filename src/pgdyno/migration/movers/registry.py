"""Finds a mover by its word in a plan; its module is imported then."""

from __future__ import annotations

from importlib import import_module

from pgdyno.errors import UsageError
from pgdyno.migration.mover import Mover
from pgdyno.model.tables import near_hint

MOVERS: dict[str, str] = {
    "dump": "dump_restore:DumpRestore",
    "pgcopydb": "pgcopydb:PgCopyDb",
    "logical": "logical:LogicalReplication",
    "pg_upgrade": "pg_upgrade:PgUpgrade",
}
"""By its word the class of each mover, `module:class` below this folder."""


def mover_of(word: str) -> Mover:
    """Return the mover of this word. Raises UsageError on one that is not known."""
    if word not in MOVERS:
        raise UsageError(f'there is no mover "{word}"', hint=near_hint(word, list(MOVERS)))
    module, _, name = MOVERS[word].partition(":")
    found: Mover = getattr(import_module(f"pgdyno.migration.movers.{module}"), name)()
    return found
