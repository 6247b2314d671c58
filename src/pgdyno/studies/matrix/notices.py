"""What a reader must know of a matrix before its answer: rows not whole, cells left out, doubtful loads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.matrix import MatrixRow, SkippedCell
from pgdyno.stats.matrix import little
from pgdyno.stats.ratios import signed
from pgdyno.studies.matrix.names import CellNames
from pgdyno.units import plural

MOST_NAMED = 3
"""So many rows or reasons are told one by one; the others are counted."""


def notices(rows: Sequence[MatrixRow], skipped: Sequence[SkippedCell]) -> list[str]:
    """Return the warnings that stand under the answer, on the page and in the terminal."""
    found = [*_lost(rows), *_skipped(skipped), *_flagged(rows), *_loads(rows)]
    if any(row.durability == "X" for row in rows):
        found.append(
            "Rows marked [X] were measured with settings that can lose committed data: a measurement, no advice."
        )
    if not any(len(row.runs) > 1 for row in rows):
        found.append(
            "One run each: no difference between cells is claimed. Best cell, knee and growth of locks are those of "
            "these runs, and may be noise."
        )
    return found


def _lost(rows: Sequence[MatrixRow]) -> list[str]:
    lost = [row for row in rows if not row.usable]
    if not lost:
        return []
    names = CellNames.of_rows(rows)
    take = "takes" if len(lost) == 1 else "take"
    told = [f"{names.cell(row)}: {row.state}, {row.reason or 'no reason was kept'}{_whose(row)}." for row in lost]
    counted = f"{len(lost)} of {plural(len(rows), 'row')} did not complete and {take} no part in this."
    return [counted, *_first(told, "row")]


def _whose(row: MatrixRow) -> str:
    """Say what the figures of a row that is not whole are figures of."""
    if row.tps is None:
        return ""
    runs = "run that was whole" if len(row.runs) == 1 else f"{len(row.runs)} runs that were whole"
    return f"; its figures are those of {f'the {runs}' if row.runs else 'the load generators that were left'}"


def _skipped(skipped: Sequence[SkippedCell]) -> list[str]:
    reasons: dict[str, int] = {}
    for one in skipped:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    told = [f"{plural(count, 'cell')} skipped: {reason}." for reason, count in reasons.items()]
    return _first(told, "reason")


def _flagged(rows: Sequence[MatrixRow]) -> list[str]:
    names = CellNames.of_rows(rows)
    found = [(row, check) for row in rows if (check := little(row)) is not None and check.flagged]
    told = [f"{names.cell(row)} ({signed(100 * check.deviation, 1)} %)" for row, check in found[:MOST_NAMED]]
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    counted = plural(len(found), "row")
    return [f"Little's law is off by more than 1 % in {counted}: {'; '.join(told)}{more}."] if found else []


def _loads(rows: Sequence[MatrixRow]) -> list[str]:
    """Tell what is doubtful about the loads themselves, at each row's last run."""
    names = CellNames.of_rows(rows)
    where: dict[str, list[str]] = {}
    for row in rows:
        for text in row.warnings:
            where.setdefault(text, []).append(names.cell(row))
    told = [f"{'; '.join(_first(cells, 'row', of_table=False))}: {text}." for text, cells in where.items()]
    return _first(told, "warning")


def _first(told: Sequence[str], noun: str, *, of_table: bool = True) -> list[str]:
    """Return the first few; a report has the others in its tables."""
    left = len(told) - MOST_NAMED
    more = f"{left} more {noun if left == 1 else f'{noun}s'}{': see the tables of the report.' if of_table else ''}"
    return [*told[:MOST_NAMED], *([more] if left > 0 else [])]
