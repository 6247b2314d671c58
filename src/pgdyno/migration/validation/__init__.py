"""Whether all arrived: source and target compared after the migration. Reads only."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.contents.comparing import compare_contents
from pgdyno.migration.mover import MigrationSide, nobody_halts
from pgdyno.model.results.migrate import ValidationFinding, ValidationResult


def validate(
    source: MigrationSide,
    target: MigrationSide,
    *,
    jobs: int = 1,
    halt: Callable[[], str] = nobody_halts,
    tell: Callable[[str], None] = lambda _: None,
) -> ValidationResult:
    """Return how the target's database differs from the source's; what cannot be read is told as unread."""
    found = compare_contents(source.postgres, target.postgres, jobs=jobs, announce=tell)
    rows = [
        ValidationFinding(
            topic="rows",
            object=one.table,
            expected=f"{one.rows_a:,} rows",
            found=one.sentence,
            rows=tuple(row.text for row in one.examples),
        )
        for one in found.different
    ]
    sequences = [
        ValidationFinding(topic="sequence", object=one.sequence, expected=str(one.value_a), found=str(one.value_b))
        for one in found.sequences
    ]
    return ValidationResult(
        compared={"tables": found.tables, "rows": found.rows}, findings=(*rows, *sequences), unread=found.unlike
    )
