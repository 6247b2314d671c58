"""What a matrix comes to: a row a cell, and what the rows say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.matrix import Cell, MatrixRow, SkippedCell
from pgdyno.model.results.parts import RefusedTrial, StudyResult
from pgdyno.model.shapes import FLAT, OMITTED, Named
from pgdyno.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleRecord:
    """Little's law for one row: `demand` sessions are busy on average by throughput and latency.

    `edges` of them were busy outside the measured window: a transaction that it cuts counts whole, or not at all. A
    stall of 0.1 s at the begin of a window of 2 s is 5 %, and no contradiction. `deviation` is the relative distance of
    the others from the connections, 0.01 is 1 % too many; `flagged` says that the row contradicts itself.
    """

    demand: float
    edges: float = 0.0
    deviation: float
    flagged: bool

    @property
    def busy(self) -> float:
        """Return how many sessions were busy in the measured window, on average."""
        return self.demand - self.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """One row with what follows from it."""

    row: Annotated[MatrixRow, FLAT]
    connections: int
    little: LittleRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigure:
    """A cell with its transactions per second."""

    cell: Cell
    tps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGrowthRecord:
    """How many times load, throughput and locks grew along one curve."""

    load: float
    throughput: float
    locks: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastLoad:
    """The load under which two cells are compared."""

    instances: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastRecord:
    """Two cells that differ in one axis alone."""

    axis: str
    before: Annotated[str, Named("from")]
    after: Annotated[str, Named("to")]
    load: ContrastLoad
    a: Cell
    b: Cell
    change_pct: float
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult(StudyResult):
    """The whole result; `printed` where the rows were printed elsewhere and nothing else is known of their runs."""

    rows: tuple[RowRecord, ...]
    best: CellFigure | None = None
    best_by_mode: tuple[CellFigure, ...] = ()
    knees: tuple[CellFigure, ...] = ()
    lock_growth: tuple[LockGrowthRecord, ...] = ()
    contrasts: tuple[ContrastRecord, ...] = ()
    skipped: tuple[SkippedCell, ...] = ()
    data: Annotated[str, OMITTED] = ""
    driver: str
    method: Mapping[str, str]
    network: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: tuple[RefusedTrial, ...] = ()
    printed: Annotated[bool, OMITTED] = False

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 when every row came out whole."""
        return ExitCode.OK if all(one.row.state == "complete" for one in self.rows) else ExitCode.NOT_RESOLVED
