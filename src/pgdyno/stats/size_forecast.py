"""How long a migration of the full size takes, from rehearsals of smaller ones: a stated model with an interval. Pure.

Each phase takes `a + b * work` seconds, neither of them negative, where work is the size, and for what sorts the size
times its logarithm. Runs scatter about it by a factor that is log-normal, so squares of relative distances are least
(weights from the fit, in turns). The whole is the longest chain of phases at the full size. Its scatter is that of the
runs' own chains, phases mixed as at the full size: phases of one run may well be slow together. The interval is
Student's with two degrees of freedom less than there are runs, for what one further run takes. To pool the scatter of
phases as well would make it narrower, and wrong where whole runs are slow or fast together: simulated intervals of 90 %
then covered 67 to 87 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from pgdyno.stats.arrays import Floats
from pgdyno.stats.distributions import stdtrit
from pgdyno.units import plural

CONFIDENCE = 0.9
WIDEST = 1.5
"""An interval whose ends are further apart than this factor decides little: more runs, or a larger size, are needed."""
RUNS_A_SIZE = 2
ALIKE = 1.05
"""Sizes that differ by less than this factor are one."""
_TURNS = 8
_ROUNDS = 10
"""How often at most the same rehearsals are thought to be made again."""
_LEAST_S = 1e-9
_MOST = 20.0
"""An interval of such logarithms says nothing; without a limit its end would be no number."""


@dataclass(frozen=True, slots=True)
class ScaledRun:
    """A rehearsal: its size in bytes (or rows, or any unit), and the seconds of each phase."""

    size: float
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PhaseForecast:
    """A phase at the full size: `fixed_s` whatever the size, and `seconds` in all; `sorts` by size times logarithm."""

    phase: str
    fixed_s: float
    seconds: float
    sorts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeForecast:
    """The full size: `seconds`, and `low_s` to `high_s` at `confidence`. `chain` are the phases that add up to it."""

    size: float
    seconds: float
    low_s: float
    high_s: float
    confidence: float
    reach: float
    """How many times larger than the largest rehearsal the full size is."""
    runs: int
    wanted: int
    """How many runs that scatter as these do make the interval narrow enough; 0 where no number is known that does."""
    chain: tuple[str, ...]
    phases: tuple[PhaseForecast, ...]

    @property
    def factor(self) -> float:
        """Return how far apart the ends of the interval are."""
        return self.high_s / self.low_s

    @property
    def is_narrow(self) -> bool:
        """Return whether the interval is narrow enough to decide by."""
        return self.factor <= WIDEST

    @property
    def model(self) -> str:
        """Return the model in words, for whoever reads the figure."""
        sorts = [one.phase for one in self.phases if one.sorts]
        by_log = f"; {', '.join(sorts)} with size times logarithm" if sorts else ""
        return (
            f"each phase takes a fixed time and one that grows with the size{by_log}; "
            f"fitted to {plural(self.runs, 'rehearsal')}, {self.reach:.3g} times beyond the largest"
        )


@dataclass(frozen=True, slots=True)
class NoForecast:
    """Why nothing can be said of the full size."""

    reason: str


def forecast_size(
    runs: Sequence[ScaledRun],
    size: float,
    *,
    after: Mapping[str, Set[str]] | None = None,
    sorting: Set[str] = frozenset(),
    confidence: float = CONFIDENCE,
) -> SizeForecast | NoForecast:
    """Return how long `size` takes, in the unit of the runs' sizes, or why that cannot be said.

    `runs` must have the same phases. `after` maps a phase to those that it waits for, and one that it lacks waits for
    none; where it is None, they are one after the other. `sorting` are those whose work is the size times its
    logarithm. `confidence` is that of the interval, in (0, 1). Needs two runs at each of two sizes.
    """
    refused = _refusal(runs, size, after)
    if refused:
        return NoForecast(refused)
    names, sizes = list(runs[0].seconds), np.array([run.size for run in runs])
    least = float(sizes.min())
    fits = {
        name: _fit(
            _work(sizes, least, name in sorting),
            np.array([max(run.seconds[name], _LEAST_S) for run in runs]),
            float(_work(np.array([size]), least, name in sorting)[0]),
        )
        for name in names
    }
    chain = _longest(names, after, {name: fit.seconds for name, fit in fits.items()})
    total = sum(fits[name].seconds for name in chain)
    apart = np.sum([fits[name].seconds / total * fits[name].apart for name in chain], axis=0)
    weights = np.sum([fits[name].seconds / total * fits[name].weights for name in chain], axis=0)
    freedom = len(runs) - 2
    scatter, moved = float(np.sqrt((apart @ apart) / freedom)), float(weights @ weights)
    factor = _end(scatter, moved, freedom, confidence)
    return SizeForecast(
        size=size,
        seconds=total,
        low_s=total / factor,
        high_s=total * factor,
        confidence=confidence,
        reach=size / float(sizes.max()),
        runs=len(runs),
        wanted=_wanted(scatter, moved, len(runs), confidence),
        chain=tuple(chain),
        phases=tuple(PhaseForecast(name, fits[name].fixed_s, fits[name].seconds, name in sorting) for name in names),
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """One phase: at the full size, how far each run lies from the fit, and how far each moves the full size; shares."""

    fixed_s: float
    seconds: float
    apart: Floats
    weights: Floats


def _end(scatter: float, moved: float, freedom: int, confidence: float) -> float:
    """Return how far the ends of the interval are from the forecast, as a factor.

    `moved` is what the scatter of the runs moves the forecast by, squared, in shares of the scatter of one run.
    """
    spread = scatter * float(np.sqrt(1 + moved))
    return float(np.exp(min(_MOST, float(stdtrit(freedom, (1 + confidence) / 2)) * spread)))


def _wanted(scatter: float, moved: float, runs: int, confidence: float) -> int:
    for rounds in range(1, _ROUNDS + 1):
        if _end(scatter, moved / rounds, rounds * runs - 2, confidence) ** 2 <= WIDEST:
            return rounds * runs
    return 0


def _refusal(runs: Sequence[ScaledRun], size: float, after: Mapping[str, Set[str]] | None) -> str:
    if not size > 0 or not all(run.size > 0 for run in runs):
        return "a size is not known, or not above zero"
    counts = _counts([run.size for run in runs])
    enough = [one for one in counts if one >= RUNS_A_SIZE]
    if len(enough) < 2:
        found = "there are none" if not counts else f"there are {', '.join(map(str, counts))} at {_sizes(len(counts))}"
        return f"two rehearsals at each of two sizes are needed; {found}"
    phases = [set(run.seconds) for run in runs]
    if not any(phases):
        return "the rehearsals have no phase with a time"
    some = sorted(set[str]().union(*phases) - set[str].intersection(*phases))
    if some:
        return f"not every rehearsal has the same phases: {', '.join(some)}"
    try:
        tuple(TopologicalSorter(after or {}).static_order())
    except CycleError:
        return "phases wait for each other in a circle"
    return ""


def _sizes(count: int) -> str:
    return "one size" if count == 1 else f"{count} sizes"


def _counts(sizes: Sequence[float]) -> list[int]:
    """Return how many runs there are at each size, the smallest first."""
    alike = list[list[float]]()
    for size in sorted(sizes):
        if alike and size <= alike[-1][0] * ALIKE:
            alike[-1].append(size)
        else:
            alike.append([size])
    return [len(each) for each in alike]


def _work(sizes: Floats, least: float, sorts: bool) -> Floats:
    """Return the work, in a unit of its own; a logarithm counts from a thousandth of the least size, as rows do."""
    relative = sizes / least
    return relative * np.log(1000 * relative) if sorts else relative


def _fit(work: Floats, seconds: Floats, full: float) -> _Fit:
    at, found = np.array([1.0, full]), _weighted(np.column_stack([np.ones_like(work), work]), seconds)
    columns = [0, 1]
    if min(found[0]) < 0:  # nothing is faster for being larger, and nothing begins before it begins
        columns = [1] if found[0][0] < 0 else [0]
        found = _weighted(np.column_stack([np.ones_like(work), work])[:, columns], seconds)
    values, lever, fitted = found
    total = float(at[columns] @ values)
    fixed = float(values[0]) if 0 in columns else 0.0
    return _Fit(fixed, total, seconds / fitted - 1, (at[columns] @ lever) * fitted / total)


def _weighted(design: Floats, seconds: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the values that make squares of relative distances least, how each run moves them, and the fit."""
    fitted = seconds
    for _ in range(_TURNS):
        lever = np.linalg.pinv(design / fitted[:, None]) / fitted
        values = lever @ seconds
        fitted = np.maximum(design @ values, _LEAST_S)
    return values, lever, fitted


def _longest(names: Sequence[str], after: Mapping[str, Set[str]] | None, seconds: Mapping[str, float]) -> list[str]:
    """Return the chain of phases, each waiting for the one before, that takes longest."""
    if after is None:
        return list(names)
    waits = {name: after.get(name, frozenset()) & set(names) for name in names}
    chains = dict[str, list[str]]()

    def length(chain: list[str]) -> float:
        return sum(seconds[name] for name in chain)

    for name in TopologicalSorter(waits).static_order():
        before = max((chains[one] for one in sorted(waits[name])), key=length, default=[])
        chains[name] = [*before, name]
    return max(chains.values(), key=length)
