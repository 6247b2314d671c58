"""What the levels of a scalability study come to, beside the laws that fit its client curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import Named
from pgdyno.model.verdict import Interval

SUCCESS, RESPONSE, PATH = "success rate", "response time", "path length"
"""The figures of a level that are compared, by name."""


class Constancy(StrEnum):
    """What the interval of a ratio says of a figure at another level."""

    CONSTANT = "constant"
    NOT_CONSTANT = "not constant"
    NOT_RESOLVED = "not resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class LawFigure:
    """A figure of a law with the ends of its interval; None where there is no bound."""

    value: float | None
    lo: float | None
    hi: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLaw:
    """A law fitted to runs: X(n) = rate n / (1 + contention (n - 1) + coherency n (n - 1)).

    `rate` is the throughput of a load of 1, `contention` and `coherency` the shares that it loses by waiting in line
    and by exchange with each other one. `peak` is the load with the greatest throughput, `limit` that throughput; of
    Amdahl's law, whose coherency is 0, the load has no bound, and the limit is what no load exceeds. `knee` is the load
    at which a straight ascent would reach the limit: beyond it more load waits rather than works.
    """

    rate: LawFigure
    contention: LawFigure
    coherency: LawFigure
    peak: LawFigure
    limit: LawFigure
    knee: LawFigure

    @property
    def declines(self) -> bool:
        """Tell whether throughput is shown to fall beyond some load: coherency is above 0 for certain."""
        return (self.coherency.lo or 0.0) > 0

    def at(self, loads: Sequence[float]) -> list[float]:
        """Return the throughput that the law has at any loads."""
        rate, contention, coherency = (one.value or 0.0 for one in (self.rate, self.contention, self.coherency))
        return [rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1)) for n in loads]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """One criterion at one level: the ratio over the reference with its interval, None with too few pairs."""

    criterion: str
    tolerance: float
    word: Constancy
    ratio: Interval | None
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """One level, medians over its qualified runs; None where it has none.

    `percent` is of production; `cpus` and `memory_bytes` are the bound, or of the host where servers differ. `success`
    is a share, `path_s` CPU seconds of the server for each transaction, `busy` how much of the level's CPUs they used.
    `others` counts the runs that did not qualify by why, `run` stands for the level. `reason` says why its standing is
    what it is where no check does.
    """

    percent: float
    cpus: float | None
    memory_bytes: int | None
    target: str = ""
    """The server that it ran on, and in `environment` what that was; empty in studies of earlier versions."""
    environment: str = ""
    study: str = ""
    """Which study has its runs where the level has a server of its own; empty for this one."""
    load: str
    runs: int
    qualified: tuple[int, ...]
    others: Mapping[str, int] = field(default_factory=dict)
    throughput: float | None = None
    response_ms: float | None = None
    success: float | None = None
    path_s: float | None = None
    busy: float | None = None
    checks: tuple[LevelCheck, ...] = ()
    standing: Constancy
    reason: str = ""
    bottleneck: Annotated[str, Named("held_back")] = ""
    evidence: tuple[str, ...] = ()
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLoad:
    """One number of connections in a closed loop: `runs` holds the throughput of each qualified run."""

    connections: int
    runs: tuple[float, ...]
    of: int
    """How many runs were made, qualified or not."""
    throughput: float | None = None
    latency_ms: float | None = None
    cpu_pct: float | None = None
    locks: Mapping[str, float] = field(default_factory=dict)
    bottleneck: Annotated[str, Named("held_back")] = ""
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCurve:
    """Throughput by connections; a law is None where the runs are too few, and `no_law` says why."""

    loads: tuple[CurveLoad, ...]
    usl: ScalingLaw | None = None
    amdahl: ScalingLaw | None = None
    no_law: str = ""

    @property
    def peak(self) -> CurveLoad | None:
        """Return the load with the greatest measured throughput."""
        measured = [one for one in self.loads if one.throughput is not None]
        return max(measured, key=lambda one: one.throughput or 0.0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleResult(StudyResult):
    """Levels against the reference one, and the client curve where one was planned."""

    plan: str
    reference: float
    response: str
    """What the response time is, such as latency_p95."""
    levels: tuple[LevelFigures, ...]
    curve: ClientCurve | None = None
    part_of: str = ""
    """The study of all levels, where these are those of one server; empty where they are all."""
    ended: str = ""
    """Why not all runs were made; empty where all were."""

    @property
    def standing(self) -> Constancy:
        """Return the word for all levels: one that is not constant decides."""
        words = [one.standing for one in self.levels if one.percent != self.reference]
        if Constancy.NOT_CONSTANT in words:
            return Constancy.NOT_CONSTANT
        return Constancy.CONSTANT if words and set(words) == {Constancy.CONSTANT} else Constancy.NOT_RESOLVED

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 where every level is constant, 1 where one is not, 3 where it is not resolved."""
        codes = {Constancy.CONSTANT: ExitCode.OK, Constancy.NOT_CONSTANT: ExitCode.FINDINGS}
        return codes.get(self.standing, ExitCode.NOT_RESOLVED)
