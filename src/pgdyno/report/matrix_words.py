"""The sentences and tables of a matrix, from its rows: what is best, where the knee is, what each factor does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.matrix import LOCK_MODES, MatrixRow
from pgdyno.report.matrix_names import MODE_WORDS, Names, load_text
from pgdyno.report.wording import NOT_MEASURED, number_text, plural, rounded_text
from pgdyno.stats.matrix import Contrast, Curve, LockGrowth, best_by_mode, curves, knee, little, lock_growth, rivals
from pgdyno.stats.ratios import signed

COLUMNS = ("Test", "PODs", "C/J", "TPS", "LAT", "CPU %", "SMT", "Row Exclusive", "Access Share", "Exclusive Lock")
"""The columns of the published study, in its order and spelling."""
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
    names = Names.of_rows(rows)
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


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _locks(row: MatrixRow, name: str) -> str:
    mean, most = row.locks.get(name), row.locks_max.get(name)
    if mean is None:
        return ""
    return number_text(mean) if most is None else f"{number_text(mean)} (max {number_text(most)})"


def best_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the best cell of every script, and which others may be as good; empty when none was measured whole."""
    names, found = Names.of_rows(rows), []
    for row in best_by_mode(rows):
        runs = "one run" if len(row.runs) < 2 else f"{len(row.runs)} runs"
        found.append(
            f"Best cell: {names.cell(row)}, {figure(row.tps)} transactions per second "
            f"at {figure(row.latency_ms)} ms ({runs})."
        )
        found += _rivals(rivals(rows, row), names)
    return found


def _rivals(found: Sequence[MatrixRow] | None, names: Names) -> list[str]:
    if found is None:
        return []
    if not found:
        return ["It is better than every other cell of its script, by its repetitions."]
    listed = "; ".join(names.cell(row) for row in found[:MOST_RIVALS])
    more = f"; and {len(found) - MOST_RIVALS} more" if len(found) > MOST_RIVALS else ""
    return [f"Not proved worse than it: {listed}{more}."]


def knee_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the knee of every curve that has one, and say of the others why not."""
    names = Names.of_rows(rows)
    found = [sentence for curve in curves(rows) if (sentence := _knee_sentence(curve, names)) is not None]
    return found or ["No knee can be named: that takes three loads of one curve."]


def _knee_sentence(curve: Curve, names: Names) -> str | None:
    row = knee(curve)
    if row is None:
        return None
    name, here = names.curve(curve), row.cell.connections
    if here == curve[-1].cell.connections:
        return (
            f"Knee of {name}: not within the loads that were run; the most, {plural(here, 'connection')}, "
            "has the greatest throughput."
        )
    most = max(curve, key=lambda one: one.tps or 0.0)
    if row is most:
        reached = f"the greatest throughput is that of {plural(here, 'connection')}, and more load does not raise it"
    else:
        share = figure(100 * (row.tps or 0.0) / (most.tps or 1.0), 1)
        give = "gives" if here == 1 else "give"
        reached = (
            f"{plural(here, 'connection')} already {give} {share} % of the greatest throughput, "
            f"which {most.cell.connections} reach"
        )
    return f"Knee of {name}: {reached}."


def growth_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Say how locks grew with the load on each curve."""
    names = Names.of_rows(rows)
    return [
        _growth_sentence(names.curve(curve), growth)
        for curve in curves(rows)
        if (growth := lock_growth(curve)) is not None
    ]


def _growth_sentence(name: str, growth: LockGrowth) -> str:
    locks = ", ".join(f"{LOCK_MODES[mode]} {ratio:.3g} times" for mode, ratio in growth.locks.items())
    change = signed(100 * (growth.throughput - 1), 1)
    said = (
        f"{name}: from {growth.first.cell.connections} to {growth.last.cell.connections} connections "
        f"({growth.load:.3g} times) locks held went to {locks}, throughput by {change} %."
    )
    if growth.outgrown and growth.throughput < growth.load:
        *first, last = (LOCK_MODES[mode] for mode in growth.outgrown)
        kinds = f"{', '.join(first)} and {last}" if first else last
        return f"{said} {kinds} grew faster than the load, as locks do where sessions hold them while they wait."
    return said


def contrast_table(found: Sequence[Contrast]) -> Table:
    """Return one line for each comparison at equal load, percentages computed from the rows."""
    columns = ("factor", "from", "to", "at", "TPS before", "TPS after", "change %", "claim")
    names = _names(found)
    return Table(columns, tuple(_contrast_line(one, names) for one in found), ("TPS before", "TPS after", "change %"))


def _names(found: Sequence[Contrast]) -> Names:
    return Names.of_rows([row for one in found for row in (one.a, one.b)])


def side_table(found: Sequence[Contrast]) -> Table:
    """Return what else went with each comparison: latency, CPU and locks, before and after."""
    columns = ("factor", "from", "to", "at", "LAT", "CPU %", *COLUMNS[-len(LOCK_MODES) :])
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


def _contrast_line(one: Contrast, names: Names) -> tuple[str, ...]:
    a, b = one.a, one.b
    return (
        AXIS_WORDS.get(one.axis, one.axis),
        _labelled(_level_word(one, one.level_a), a),
        _labelled(_level_word(one, one.level_b), b),
        names.where(a.cell, one.axis),
        figure(a.tps),
        figure(b.tps),
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
    return f"{verdict.word.value} [{', '.join(bounds)}] %, {verdict.pairs} pairs"


def little_table(rows: Sequence[MatrixRow]) -> Table:
    """Return Little's law for every row, with the flag where a row contradicts itself."""
    names = Names.of_rows(rows)
    lines = []
    for row in rows:
        check = little(row)
        flag = NOT_MEASURED if check is None else ("contradiction" if check.flagged else "holds")
        demand = ("", "") if check is None else (figure(check.demand), signed(100 * check.deviation))
        history = "" if row.history_rows is None else f"{row.history_rows} of {row.transactions}"
        lines.append(
            (
                names.test(row.cell),
                f"{row.cell.instances} x {load_text(row.cell)}",
                str(row.cell.connections),
                *demand,
                flag,
                history,
                row.state,
                row.reason or "; ".join(row.checks),
            )
        )
    columns = ("test", "load", "connections", "TPS x LAT", "off by %", "Little's law", "history rows of transactions",
               "state", "why")  # fmt: skip
    return Table(columns, tuple(lines), ("connections", "TPS x LAT", "off by %"))
