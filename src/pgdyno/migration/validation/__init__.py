"""Whether all arrived: source and target compared after the migration. Reads only."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.migration.mover import MigrationSide, nobody_halts
from pgdyno.migration.validation.comparing import compare_databases
from pgdyno.model.results.migrate import ValidationResult


def validate(
    source: MigrationSide,
    target: MigrationSide,
    *,
    jobs: int = 1,
    halt: Callable[[], str] = nobody_halts,
    tell: Callable[[str], None] = lambda _: None,
) -> ValidationResult:
    """Return how the target's database differs from the source's; what cannot be read is told as unread.

    Compares the databases of `source` and `target` with `jobs` sessions on each server; `tell` is given a line of
    progress at each step. Raises Halted once `halt` says why to end.
    """
    return compare_databases(source.postgres, target.postgres, jobs=jobs, halt=halt, tell=tell)
