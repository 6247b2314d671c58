"""What the rows of a matrix say: Little's law, the best cell, the knee, the growth of locks, one factor's effect. Pure.

A difference is a claim only with the interval of interleaved repetitions, by the rule of `sequential`, and then its
percentage is of those; another one is computed from the rows. The intervals of one matrix hold together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from pgdyno.errors import UsageError
from pgdyno.model.matrix import LOCK_MODES, Cell, MatrixRow
from pgdyno.model.results.matrix import LittleRecord
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.stats.sequential import Design, judge

LITTLE_BOUND = 0.01
"""Throughput times latency may differ from the connections by this share; beyond it a row contradicts itself."""
KNEE_SHARE = 0.95
"""The knee is the smallest load with this share of the curve's greatest throughput."""
FEWEST_ON_A_CURVE = 3
"""Below this many loads a curve has no knee that could be named."""
AXES = ("configuration", "mode", "placement", "smt", "server_cpus", "scale", "jobs")
"""The factors whose levels are compared at equal load, in this order."""
_FIRST = {"mode": "tpcb-like", "placement": "socket"}
SMALLEST_EFFECT = 0.02
CONFIDENCE = 0.95
Curve = tuple[MatrixRow, ...]


def little(row: MatrixRow) -> LittleRecord | None:
    """Return Little's law for a row: in a closed loop connections = throughput x latency.

    None when not measured, or not by all its load generators: clients that were lost are no contradiction.
    """
    if row.tps is None or row.latency_ms is None or row.state != "complete":
        return None
    demand, edges = row.tps * row.latency_ms / 1000, row.edges or 0.0
    deviation = (demand - edges) / row.cell.connections - 1
    return LittleRecord(demand=demand, edges=edges, deviation=deviation, flagged=abs(deviation) > LITTLE_BOUND)


def best(rows: Sequence[MatrixRow]) -> MatrixRow | None:
    """Return the usable row of the greatest throughput, the first of equals; None without any.

    A row of class X is a measurement that nobody is to run: it is best only among its like.
    """
    usable = [row for row in rows if row.usable]
    usable = [row for row in usable if row.durability != "X"] or usable
    return max(usable, key=lambda row: row.rate, default=None)


def best_by_mode(rows: Sequence[MatrixRow]) -> list[MatrixRow]:
    """Return the best row of every mode that has one: transactions of unlike scripts are not the same work."""
    modes = dict.fromkeys(row.cell.mode for row in rows)
    found = [best([row for row in rows if row.cell.mode == mode]) for mode in modes]
    return [row for row in found if row is not None]


def rivals(rows: Sequence[MatrixRow], top: MatrixRow) -> list[MatrixRow] | None:
    """Return the rows of its mode that are not proved worse than the best one, the greatest throughput first.

    None when no other row has two repetitions in common with it. The intervals hold together with 95 % confidence.
    """
    alike = [row for row in rows if row.usable and row.cell.mode == top.cell.mode and row is not top]
    others = [row for row in alike if (row.durability == "X") <= (top.durability == "X")]
    claims = sum(len(_common(top, row)) >= 2 for row in others)
    if not claims:
        return None
    verdicts = [(row, _verdict(top, row, claims)) for row in others]
    found = [row for row, verdict in verdicts if verdict is None or verdict.word is not Word.WORSE]
    return sorted(found, key=lambda row: -row.rate)


def curves(rows: Sequence[MatrixRow]) -> list[Curve]:
    """Return the usable rows that differ in their load alone, each curve by number of connections.

    Threads belong to the load while they go with the clients; where equal clients ran with several, each is a curve.
    """
    usable = [row for row in rows if row.usable]
    threads = () if threads_differ([row.cell for row in usable]) else ("jobs",)
    found: dict[object, list[MatrixRow]] = {}
    for row in usable:
        found.setdefault((row.system, _without(row.cell, "instances", "clients", *threads)), []).append(row)
    return [tuple(sorted(each, key=lambda row: row.cell.connections)) for each in found.values()]


def threads_differ(cells: Sequence[Cell]) -> bool:
    """Return True when cells that are alike otherwise have several numbers of threads: these are a factor then."""
    threads: dict[object, set[int]] = {}
    for cell in cells:
        threads.setdefault(_without(cell, "jobs"), set()).add(cell.jobs)
    return any(len(each) > 1 for each in threads.values())


def _without(cell: Cell, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple(item for item in cell.factors().items() if item[0] not in names)


def knee(curve: Curve) -> MatrixRow | None:
    """Return the smallest load that has nearly all of the curve's throughput; None for a curve of too few loads."""
    if len({row.cell.connections for row in curve}) < FEWEST_ON_A_CURVE:
        return None
    most = max(row.rate for row in curve)
    return next(row for row in curve if row.rate >= KNEE_SHARE * most)


OUTGROWN = 1.1
"""Locks are counted once a second: a ratio within 10 % of the load's is no more than that (a choice of the project)."""


@dataclass(frozen=True, slots=True)
class LockGrowth:
    """How locks grew from the smallest to the largest load of a curve. Ratios of the last to the first."""

    first: MatrixRow
    last: MatrixRow
    load: float
    throughput: float
    locks: Mapping[str, float]

    @property
    def outgrown(self) -> tuple[str, ...]:
        """Return the kinds of lock that grew visibly more than the load did."""
        return tuple(name for name, ratio in self.locks.items() if ratio > OUTGROWN * self.load)


def lock_growth(curve: Curve) -> LockGrowth | None:
    """Return how locks grew with the load; None when there is but one load, or no lock was counted at its ends."""
    if len(curve) < 2:
        return None
    first, last = curve[0], curve[-1]
    ratios = {
        name: last.locks[name] / first.locks[name]
        for name in LOCK_MODES
        if first.locks.get(name) and last.locks.get(name) is not None
    }
    if not ratios or last.cell.connections == first.cell.connections:
        return None
    throughput = last.rate / first.rate
    return LockGrowth(first, last, last.cell.connections / first.cell.connections, throughput, ratios)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Row `b` against row `a`, which differ in the factor `axis` alone. `verdict` is None when nothing is claimed.

    Figures and change of one with a verdict are of the repetitions that it rests on, of another one of the rows.
    """

    axis: str
    a: MatrixRow
    b: MatrixRow
    verdict: Verdict | None

    @property
    def throughputs(self) -> tuple[float | None, float | None]:
        """Return the throughput of both in transactions per second; geometric means, whose ratio is the verdict's."""
        if self.verdict is None:
            return self.a.tps, self.b.tps
        common = _common(self.a, self.b)
        return geometric_mean(self.a.runs[run] for run in common), geometric_mean(self.b.runs[run] for run in common)

    @property
    def change(self) -> float:
        """Return the relative change of the throughput, 0.2096 for 20.96 %."""
        if self.verdict is not None:
            return self.verdict.interval.ratio - 1
        return self.b.rate / self.a.rate - 1

    @property
    def level_a(self) -> str:
        """Return the factor's level of row `a`."""
        return level(self.a, self.axis)

    @property
    def level_b(self) -> str:
        """Return the factor's level of row `b`."""
        return level(self.b, self.axis)


def level(row: MatrixRow, axis: str) -> str:
    """Return the level of a factor; one that was left as it is has a word too."""
    return str(getattr(row.cell, axis)) or "as found"


def contrasts(rows: Sequence[MatrixRow]) -> list[Contrast]:
    """Return every pair of usable rows that differ in one factor at equal load, the reference level first.

    The reference is the default configuration, the default script, the socket; else the level that comes first.
    Pairs with two common repetitions or more carry a verdict; together its intervals hold with 95 % confidence.
    """
    pairs = [(axis, a, b) for axis in AXES for a, b in _pairs(rows, axis)]
    claims = sum(len(_common(a, b)) >= 2 for _, a, b in pairs)
    return [Contrast(axis, a, b, _verdict(a, b, claims)) for axis, a, b in pairs]


def _pairs(rows: Sequence[MatrixRow], axis: str) -> Iterator[tuple[MatrixRow, MatrixRow]]:
    groups: dict[object, list[MatrixRow]] = {}
    for row in rows:
        if row.usable:
            groups.setdefault((row.system, _without(row.cell, axis, "stands_for")), []).append(row)
    for group in groups.values():
        reference = next((row for row in group if _is_first(row.cell, axis)), group[0])
        for row in group:
            if row is not reference:
                yield reference, row


def _is_first(cell: Cell, axis: str) -> bool:
    return cell.is_default if axis == "configuration" else getattr(cell, axis) == _FIRST.get(axis)


def _common(a: MatrixRow, b: MatrixRow) -> list[int]:
    return sorted(a.runs.keys() & b.runs.keys())


def _verdict(a: MatrixRow, b: MatrixRow, claims: int) -> Verdict | None:
    common = _common(a, b)
    if len(common) < 2:
        return None
    design = Design(
        smallest_effect=SMALLEST_EFFECT, confidence=CONFIDENCE, min_pairs=len(common), max_pairs=len(common)
    )
    return judge(
        [a.runs[block] for block in common],
        [b.runs[block] for block in common],
        metric=Metric.THROUGHPUT,
        design=family_design(design, claims),
    )


def family_design(design: Design, claims: int) -> Design:
    """Return the design for each of `claims` effects whose intervals shall hold together (Bonferroni).

    All intervals cover their truths at once with the confidence of `design`, also when each effect is looked at after
    every pair: Holm's gain needs p-values at a fixed number of pairs. Raises UsageError for fewer than one claim.
    """
    if claims < 1:
        raise UsageError(f"a family of {claims} claims is not possible")
    return replace(design, confidence=1 - (1 - design.confidence) / claims)
