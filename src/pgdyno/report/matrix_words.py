"""The sentences and tables of a matrix, from its rows: what is best, where the knee is, what each factor does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.matrix import LOCK_MODES, Cell, MatrixRow
from pgdyno.report.wording import NOT_MEASURED, number_text, plural
from pgdyno.stats.matrix import Contrast, Curve, LockGrowth, best, curves, knee, little, lock_growth

COLUMNS = ("Test", "PODs", "C/J", "TPS", "LAT", "CPU %", "SMT", "Row Exclusive", "Access Share", "Exclusive Lock")
"""The columns of the published study, in its order and spelling."""
SYSTEM_COLUMNS = ("System", "Core", "vCPU")
"""The columns that it adds where systems are compared."""
AXIS_WORDS = {"configuration": "settings", "server_cpus": "server's CPUs", "smt": "SMT"}
WIDEST = 4.0
"""An interval whose ends are further apart than this factor is not worth its digits."""
MODE_WORDS = {"tpcb-like": "default script", "simple-update": "-N", "select-only": "-S", "custom": "custom script"}


def matrix_table(rows: Sequence[MatrixRow], *, systems: bool = False) -> Table:
    """Return the table with exactly the published columns; with `systems` those of the system come first."""
    columns = (*SYSTEM_COLUMNS, *COLUMNS) if systems else COLUMNS
    test = _test_names([row.cell for row in rows])
    lines = []
    for row in rows:
        system = (row.system, _text(row.cores), _text(row.vcpus)) if systems else ()
        locks = (_locks(row, name) for name in LOCK_MODES)
        lines.append(
            (
                *system,
                test[row.cell] + _mark(row),
                str(row.cell.instances),
                load_text(row.cell),
                figure(row.tps, 1),
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


def _test_names(cells: Sequence[Cell]) -> dict[Cell, str]:
    """Return a name for each cell: its configuration, and those factors that differ within the table."""
    differing = [
        name for name in ("mode", "scale", "server_cpus", "placement") if len({getattr(c, name) for c in cells}) > 1
    ]
    return {cell: ", ".join([cell.configuration, *(_level(cell, name) for name in differing)]) for cell in cells}


def _level(cell: Cell, name: str) -> str:
    value = getattr(cell, name)
    if name == "mode":
        return MODE_WORDS[value]
    return {"scale": f"scale {value}", "server_cpus": f"CPUs {value or 'all'}"}.get(name, str(value))


def load_text(cell: Cell) -> str:
    """Write clients and threads of one load generator: `7` where they are equal, as the study does, else `7/2`."""
    return str(cell.clients) if cell.clients == cell.jobs else f"{cell.clients}/{cell.jobs}"


def figure(value: float | None, digits: int) -> str:
    """Write a figure with as many decimals as its column has; no thousands are separated, so that it can be copied."""
    return "" if value is None else f"{value:.{digits}f}"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _locks(row: MatrixRow, name: str) -> str:
    mean, most = row.locks.get(name), row.locks_max.get(name)
    if mean is None:
        return ""
    return number_text(mean) if most is None else f"{number_text(mean)} (max {number_text(most)})"


def describe(row: MatrixRow) -> str:
    """Return a cell as a reader names it."""
    cell = row.cell
    extra = " [X]" if row.durability == "X" else ""
    extra += f", SMT {cell.smt}" if cell.smt else ""
    extra += f", {cell.placement}" if cell.placement != "socket" else ""
    extra += f", {MODE_WORDS[cell.mode]}" if cell.mode != "tpcb-like" else ""
    load = f"{plural(cell.instances, 'load generator')} with {plural(cell.clients, 'client')} each"
    return f"{cell.configuration}{extra}, {load}"


def best_sentence(rows: Sequence[MatrixRow]) -> str | None:
    """Name the best cell; None when none was measured whole."""
    row = best(rows)
    if row is None:
        return None
    runs = "one run" if len(row.runs) < 2 else f"{len(row.runs)} runs"
    return (
        f"Best cell: {describe(row)}, {figure(row.tps, 1)} transactions per second "
        f"at {figure(row.latency_ms, 2)} ms ({runs})."
    )


def knee_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the knee of every curve that has one, and say of the others why not."""
    found = [sentence for curve in curves(rows) if (sentence := _knee_sentence(curve)) is not None]
    return found or ["No knee can be named: that takes three loads of one curve."]


def _knee_sentence(curve: Curve) -> str | None:
    row = knee(curve)
    if row is None:
        return None
    most = max(curve, key=lambda one: one.tps or 0.0)
    share = 100 * (row.tps or 0.0) / (most.tps or 1.0)
    if row is most:
        return (
            f"Knee of {curve_name(curve)}: not within the loads that were run; the most, "
            f"{plural(row.cell.connections, 'connection')}, has the greatest throughput."
        )
    return (
        f"Knee of {curve_name(curve)}: {plural(row.cell.connections, 'connection')} already give {share:.1f} % of the "
        f"greatest throughput, which {most.cell.connections} reach."
    )


def curve_name(curve: Curve) -> str:
    """Return what a curve is called: the factors that its rows share, as far as they are not the plain ones."""
    cell = curve[0].cell
    extra = " [X]" if curve[0].durability == "X" else ""
    extra += "" if cell.mode == "tpcb-like" else f", {MODE_WORDS[cell.mode]}"
    extra += f", SMT {cell.smt}" if cell.smt else ""
    return f"{cell.configuration}{extra}" + (f", {cell.placement}" if cell.placement != "socket" else "")


def growth_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Say how locks grew with the load on each curve."""
    grown = [(curve, growth) for curve in curves(rows) if (growth := lock_growth(curve)) is not None]
    return [_growth_sentence(curve, growth) for curve, growth in grown]


def _growth_sentence(curve: Curve, growth: LockGrowth) -> str:
    locks = ", ".join(f"{LOCK_MODES[name]} {ratio:.3g} times" for name, ratio in growth.locks.items())
    change = 100 * (growth.throughput - 1)
    said = (
        f"{curve_name(curve)}: from {growth.first.cell.connections} to {growth.last.cell.connections} connections "
        f"({growth.load:.3g} times) locks held grew to {locks}, throughput by {change:+.1f} %."
    ).replace("-", "−")
    if growth.outgrown and growth.throughput < growth.load:
        kinds = " and ".join(LOCK_MODES[name] for name in growth.outgrown)
        return f"{said} {kinds} grew faster than the load, as locks do where sessions hold them while they wait."
    return said


def contrast_table(found: Sequence[Contrast]) -> Table:
    """Return one line for each comparison at equal load, percentages computed from the rows."""
    columns = ("factor", "from", "to", "at", "TPS before", "TPS after", "change %", "claim")
    return Table(columns, tuple(_contrast_line(one) for one in found), ("TPS before", "TPS after", "change %"))


def side_table(found: Sequence[Contrast]) -> Table:
    """Return what else went with each comparison: latency, CPU and locks, before and after."""
    columns = ("factor", "from", "to", "at", "LAT", "CPU %", *COLUMNS[-len(LOCK_MODES) :])
    lines = [
        (
            *_contrast_line(one)[:4],
            _both(one.a.latency_ms, one.b.latency_ms, 2),
            _both(one.a.cpu_pct, one.b.cpu_pct, 1),
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


def _contrast_line(one: Contrast) -> tuple[str, ...]:
    a, b = one.a, one.b
    change = f"{100 * one.change:+.2f}".replace("-", "−")
    return (
        AXIS_WORDS.get(one.axis, one.axis),
        _labelled(_level_word(one, one.level_a), a),
        _labelled(_level_word(one, one.level_b), b),
        _where(one),
        figure(a.tps, 1),
        figure(b.tps, 1),
        change,
        claim(one),
    )


def _level_word(one: Contrast, level: str) -> str:
    return MODE_WORDS.get(level, level) if one.axis == "mode" else level


def _where(one: Contrast) -> str:
    cell, words = one.a.cell, []
    if one.axis != "configuration":
        words.append(cell.configuration)
    if one.axis != "mode" and cell.mode != "tpcb-like":
        words.append(MODE_WORDS[cell.mode])
    if one.axis != "smt" and cell.smt:
        words.append(f"SMT {cell.smt}")
    if one.axis != "placement" and cell.placement != "socket":
        words.append(cell.placement)
    if one.axis != "server_cpus" and cell.server_cpus:
        words.append(f"CPUs {cell.server_cpus}")
    return ", ".join([f"{cell.instances} x {load_text(cell)}", *words])


def claim(one: Contrast) -> str:
    """Return the verdict's word with its interval, or why nothing is claimed."""
    verdict = one.verdict
    if verdict is None:
        runs = min(len(one.a.runs), len(one.b.runs))
        return "no claim: one run each" if runs <= 1 else "no claim: no common repetitions"
    if verdict.interval.hi > WIDEST * verdict.interval.lo:
        return f"{verdict.word.value}: {verdict.pairs} pairs leave it open"
    bounds = [f"{100 * (bound - 1):+.1f}".replace("-", "−") for bound in (verdict.interval.lo, verdict.interval.hi)]
    return f"{verdict.word.value} [{', '.join(bounds)}] %, {verdict.pairs} pairs"


def little_table(rows: Sequence[MatrixRow]) -> Table:
    """Return Little's law for every row, with the flag where a row contradicts itself."""
    test = _test_names([row.cell for row in rows])
    lines = []
    for row in rows:
        check = little(row)
        flag = NOT_MEASURED if check is None else ("contradiction" if check.flagged else "holds")
        demand = (
            ("", "") if check is None else (f"{check.demand:.2f}", f"{100 * check.deviation:+.2f}".replace("-", "−"))
        )
        history = "" if row.history_rows is None else f"{row.history_rows} of {row.transactions}"
        lines.append(
            (
                test[row.cell],
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
