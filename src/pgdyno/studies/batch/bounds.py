"""What bounds a run of a chain before it begins: jobs at a time, the database's size, room on both sides."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Facts, Unknown
from pgdyno.studies.batch.chain import Chain
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text, plural
from pgdyno.workloads.disk_room import require_here

_SIZE = "SELECT pg_catalog.pg_database_size(%s::name) AS bytes"


def require_clients(chain: Chain, most: int) -> None:
    """Raise UsageError where more jobs of the chain may run at a time."""
    if chain.parallel > most:
        raise UsageError(
            f"the chain runs {plural(chain.parallel, 'job')} at a time, and --max-clients is {most}",
            hint="Give fewer in the chain, or a larger --max-clients.",
        )


def require_size(target: Target, database: str, most: int) -> None:
    """Raise EnvironmentUnsuitable where the database of the jobs is larger, or its size cannot be read."""
    size = int(str(target.postgres.fetch(_SIZE, [database])[0]["bytes"]))
    if size > most:
        raise EnvironmentUnsuitable(
            f'database "{database}" has {bytes_text(size)}, more than --max-size {bytes_text(most)}',
            hint="Give a larger --max-size, or a smaller database.",
        )


def require_room(facts: Facts) -> str:
    """Return what is free on both sides, in words; nobody knows beforehand how much jobs write.

    Raises EnvironmentUnsuitable where there is too little here. The server's side has guard disk.
    """
    folder = Path(tempfile.gettempdir())
    here = require_here(folder, "the jobs write what they say", "Name another folder by the variable TMPDIR.")
    free = facts.host.data_disk_free_bytes
    there = str(free) if isinstance(free, Unknown) else f"{bytes_text(free)} free"
    return f"where the server's data lie: {there}; here in {folder}: {bytes_text(here)} free; guard disk ends the run"
