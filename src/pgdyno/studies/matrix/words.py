"""The sentences and tables of a matrix, from its rows: what is best, where the knee is, what each factor does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.matrix import LOCK_MODES, WITH_HISTORY, MatrixRow, SkippedCell
from pgdyno.report.wording import NOT_MEASURED, number_text, rounded_text
from pgdyno.stats.matrix import Contrast, best_by_mode, little, rivals
from pgdyno.stats.ratios import signed
from pgdyno.studies.matrix.names import MODE_WORDS, CellNames, load_text
from pgdyno.units import plural, some_text

COLUMNS = ("Test", "PODs", "C/J", "TPS", "LAT", "CPU %", "SMT", "Row Exclusive", "Access Share", "Exclusive Lock")
"""The columns of the published study, in its order and spelling."""
LOCK_COLUMNS = COLUMNS[-len(LOCK_MODES) :]
SYSTEM_COLUMNS = ("System", "Core", "vCPU")
"""The columns that it adds where systems are compared."""
AXIS_WORDS = {"configuration": "settings", "server_cpus": "server's CPUs", "smt": "SMT", "jobs": "threads"}
MOST_RIVALS = 3
"""So many cells that may be as good as the best are named; the others are counted."""
WIDEST = 4.0
"""An interval whose ends are further apart than this factor is not worth its digits."""


def matrix_table(rows: Sequence[MatrixRow], *, systems: bool = False) -> Table:
    """Return the table with exactly the published columns; with `systems` those of the system come first."""
    columns = (*SYSTEM_COLUMNS, *COLUMNS) if systems else COLUMNS
    names = CellNames.of_rows(rows)
    lines = []
    for row in rows:
        system = (row.system, _text(row.cores), _text(row.vcpus)) if systems else ()
        locks = (_locks(row, name) for name in LOCK_MODES)
        lines.append(
            (
                *system,
                names.test(row.cell) + _mark(row),
                str(row.cell.instances),
                load_text(row.cell),
                figure(row.tps),
                figure(row.latency_ms, 2),
                figure(row.cpu_pct, 2),
                row.smt or "unknown",
                *locks,
            )
        )
    return Table(columns, tuple(lines), tuple(name for name in columns if name not in ("System", "Test", "SMT")))


def _mark(row: MatrixRow) -> str:
    labelled = f" [{row.durability}]" if row.durability == "X" else ""
    return labelled if row.usable else f"{labelled} ({row.state})"


def figure(value: float | None, digits: int = 2) -> str:
    """Write a figure, rounded half up; no thousands are separated, so that it can be copied. Empty: not measured."""
    return rounded_text(value, digits).replace(",", "")


def latency_text(milliseconds: float | None) -> str:
    """Write a mean latency with its unit, unknown where a table that was printed elsewhere has none."""
    return "an unknown mean latency" if milliseconds is None else f"{number_text(milliseconds)} ms"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _locks(row: MatrixRow, name: str) -> str:
    mean, most = row.locks.get(name), row.locks_max.get(name)
    if mean is None:
        return ""
    return number_text(mean) if most is None else f"{number_text(mean)} (max {number_text(most)})"


def best_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the best cell of every script, and which others may be as good; empty when none was measured whole."""
    names, found = CellNames.of_rows(rows), []
    for row in best_by_mode(rows):
        runs = "one run" if len(row.runs) < 2 else plural(len(row.runs), "run")
        found.append(
            f"Best cell: {names.cell(row)}, {plural(number_text(row.tps), 'transaction')} per second "
            f"at {latency_text(row.latency_ms)} ({runs})."
        )
        found += _rivals(rivals(rows, row), names)
    return found


def _rivals(found: Sequence[MatrixRow] | None, names: CellNames) -> list[str]:
    if found is None:
        return []
    if not found:
        return ["It is better than every other cell of its script, by its repetitions."]
    return [f"Not proved worse than it: {some_text([names.cell(row) for row in found], MOST_RIVALS)}."]


def contrast_table(found: Sequence[Contrast]) -> Table:
    """Return one line for each comparison at equal load, percentages computed from the rows."""
    columns = ("factor", "from", "to", "at", "TPS before", "TPS after", "change %", "claim")
    names = _names(found)
    return Table(columns, tuple(_contrast_line(one, names) for one in found), ("TPS before", "TPS after", "change %"))


def _names(found: Sequence[Contrast]) -> CellNames:
    return CellNames.of_rows([row for one in found for row in (one.a, one.b)])


def side_table(found: Sequence[Contrast]) -> Table:
    """Return what else went with each comparison: latency, CPU and locks, before and after."""
    columns = ("factor", "from", "to", "at", "LAT", "CPU %", *LOCK_COLUMNS)
    names = _names(found)
    lines = [
        (
            *_contrast_line(one, names)[:4],
            _both(one.a.latency_ms, one.b.latency_ms, 2),
            _both(one.a.cpu_pct, one.b.cpu_pct, 2),
            *(_both(one.a.locks.get(name), one.b.locks.get(name), 1) for name in LOCK_MODES),
        )
        for one in found
    ]
    return Table(columns, tuple(lines))


def _both(before: float | None, after: float | None, digits: int) -> str:
    return "" if before is None or after is None else f"{figure(before, digits)} → {figure(after, digits)}"


def _labelled(level: str, row: MatrixRow) -> str:
    """Return a level with the label of class X where its figures were bought with durability."""
    return f"{level} [X]" if row.durability == "X" else level


def _contrast_line(one: Contrast, names: CellNames) -> tuple[str, ...]:
    a, b = one.a, one.b
    return (
        AXIS_WORDS.get(one.axis, one.axis),
        _labelled(_level_word(one, one.level_a), a),
        _labelled(_level_word(one, one.level_b), b),
        names.where(a.cell, one.axis),
        *map(figure, one.throughputs),
        signed(100 * one.change),
        claim(one),
    )


def _level_word(one: Contrast, level: str) -> str:
    return MODE_WORDS.get(level, level) if one.axis == "mode" else level


def claim(one: Contrast) -> str:
    """Return the verdict's word with its interval, or why nothing is claimed."""
    verdict = one.verdict
    if verdict is None:
        runs = min(len(one.a.runs), len(one.b.runs))
        return "no claim: one run each" if runs <= 1 else "no claim: no common repetitions"
    if verdict.interval.hi > WIDEST * verdict.interval.lo:
        return f"{verdict.word.value}: {verdict.pairs} pairs leave it open"
    bounds = [signed(100 * (bound - 1), 1) for bound in (verdict.interval.lo, verdict.interval.hi)]
    return f"{verdict.word.value} [{', '.join(bounds)}] %, {plural(verdict.pairs, 'pair')}"


def _history(row: MatrixRow) -> str:
    """Return how the history table grew, beside what should be in it: nothing by scripts that write none."""
    if row.history_rows is None or (row.cell.mode not in WITH_HISTORY and not row.history_rows):
        return ""
    exact = row.history_rows == row.transactions
    return f"{row.history_rows}" if exact else f"{row.history_rows} of {row.transactions}"


def little_table(rows: Sequence[MatrixRow]) -> Table:
    """Return Little's law for every row, with the flag where a row contradicts itself."""
    names = CellNames.of_rows(rows)
    lines = []
    for row in rows:
        check = little(row)
        unjudged = NOT_MEASURED if row.tps is None else "not judged"
        flag = unjudged if check is None else ("contradiction" if check.flagged else "holds")
        demand = (
            ("", "", "")
            if check is None
            else (figure(check.demand), "" if row.edges is None else signed(row.edges), signed(100 * check.deviation))
        )
        lines.append(
            (
                names.test(row.cell),
                f"{row.cell.instances} x {load_text(row.cell)}",
                str(row.cell.connections),
                *demand,
                flag,
                _history(row),
                row.state,
                "; ".join([*([row.reason] if row.reason else row.checks), *row.warnings]),
            )
        )
    numbers = ("connections", "TPS x LAT", "edges", "off by %")
    return Table(("test", "load", *numbers, "Little's law", "history rows", "state", "why"), tuple(lines), numbers)


MOST_NAMED = 3
"""So many rows or reasons are told one by one; the others are counted."""


def notices(rows: Sequence[MatrixRow], skipped: Sequence[SkippedCell]) -> list[str]:
    """Return the warnings that stand under the answer, on the page and in the terminal."""
    found = [*_lost(rows), *_skipped(skipped), *_flagged(rows), *_loads(rows)]
    if any(row.durability == "X" for row in rows):
        found.append(
            "Rows marked [X] were measured with settings that can lose committed data: a measurement, no advice."
        )
    if any(row.usable for row in rows) and not any(len(row.runs) > 1 for row in rows):
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
    checked = [(row, check) for row in rows if (check := little(row)) is not None and check.flagged]
    found = [f"{names.cell(row)} ({signed(100 * check.deviation, 1)} %)" for row, check in checked]
    told = f"Little's law is off by more than 1 % in {plural(len(found), 'row')}: {some_text(found, MOST_NAMED)}."
    return [told] if found else []


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
