"""When a search trial is ended at half of its window: it runs so far behind the best that the rest would say nothing.

The floor comes from the search (`studies.search`), the judgement from the load's own rates by the second. What was seen
until then is the trial's figure: a poor one, which the model takes as it takes any other. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import BESIDE_OTHERS, ENDED_EARLY, LoadPlan, Outcome, TrialState
from pgdyno.probes.window import foreign_cpu_pct, server_cpu_s, steal_pct
from pgdyno.trial.assess import Bounds, disturbance
from pgdyno.workloads.protocol import LoadReading

FLOOR_SHARE = 0.75
"""Of the best throughput so far, less what its uncertainty takes off, a run must have this much to go on."""
HALF = 0.5
LEAST_READINGS = 5
"""Fewer seconds than these say nothing; windows below ten seconds are never cut."""
SURE = 3.0
"""By so many standard errors the mean must lie below the floor: rates of neighbouring seconds are alike."""


@dataclass
class Rates:
    """The rates of a running load, second by second, held against `floor_tps`; None never ends anything."""

    floor_tps: float | None
    plan: LoadPlan
    seconds: list[tuple[float, float]] = field(default_factory=list)
    """When each was heard, in seconds since the load began, and the rate."""
    last: float = 0.0
    is_judged: bool = False
    began_at: float = 0.0
    ended_at: float = 0.0

    def hear(self, elapsed_s: float, reading: LoadReading | None) -> bool:
        """Hear a reading; return True at half of the window, once, where the load is hopeless."""
        if self.floor_tps is None or self.is_judged or reading is None or reading.t <= self.last:
            return False
        self.last = reading.t
        if elapsed_s > self.plan.warmup_s:
            self.began_at = self.began_at or reading.t - 1.0
            self.seconds.append((elapsed_s, reading.tps))
        if elapsed_s < self.plan.warmup_s + HALF * self.plan.measure_s:
            return False
        self.is_judged, self.ended_at = True, reading.t
        return is_hopeless(self.seconds, self.plan.duration_s, self.floor_tps)

    @property
    def tps(self) -> float:
        """Return the mean rate since the warm-up."""
        return float(np.mean([tps for _, tps in self.seconds]))

    def sentence(self) -> str:
        """Return why the load was ended."""
        assert self.floor_tps is not None, "without a floor nothing is ended"
        return (
            f"ended early: {self.tps:,.0f} tps at half of the window, below the {self.floor_tps:,.0f} tps that a whole "
            "one is worth"
        )


def is_hopeless(seconds: Sequence[tuple[float, float]], end_s: float, floor_tps: float) -> bool:
    """Tell whether rates lie surely below the floor, and would still at `end_s` if they went on rising as they do."""
    if len(seconds) < LEAST_READINGS:
        return False
    at, tps = (np.array(each, dtype=np.float64) for each in zip(*seconds, strict=True))
    mean, error = float(tps.mean()), float(tps.std(ddof=1)) / float(np.sqrt(tps.size))
    spread = at - at.mean()
    slope = float(spread @ tps) / float(spread @ spread)
    rising = max(0.0, slope) * (end_s - float(at.mean()))
    return mean + SURE * error < floor_tps and mean + rising < floor_tps


def poor_outcome(
    rates: Rates,
    rows: Collection[SampleRow],
    bounds: Bounds,
    *,
    driver_is_here: bool = True,
    used_by: str,
    beside_others: bool,
) -> Outcome:
    """Return the outcome of a load that was ended: its rate and CPU, no latencies, as its log lacks the last block.

    `rates` has its rates by the second and when they began and ended. CPU is taken from the samples `rows` between
    these. Above the CPU limits of `bounds` it is disturbed by others like any other run, and repeated;
    `driver_is_here`, `used_by` and `beside_others` are those of `assess`.
    """
    begin, end = rates.began_at, rates.ended_at
    foreign = foreign_cpu_pct(rows, begin, end, driver_is_here=driver_is_here)
    steal = steal_pct(rows, begin, end)
    disturbed = disturbance(foreign, steal, bounds, used_by)
    company = {BESIDE_OTHERS: 1.0} if disturbed and beside_others else {}
    count = round(rates.tps * (end - begin))
    server = server_cpu_s(rows, begin, end, load_ended_at=end)
    outcome = Outcome(
        state=TrialState.COMPLETE,
        reason=rates.sentence(),
        began_at=begin,
        steady_from=begin,
        ended_at=end,
        throughput=rates.tps,
        transactions=count,
        server_cpu_s=server,
        server_cpu_ms_per_tx=None if server is None or not count else 1000 * server / count,
        foreign_cpu_pct=foreign,
        steal_pct=steal,
        counters={**company, ENDED_EARLY: 1.0, "window_s": end - begin},
    )
    return outcome if disturbed is None or company else replace(outcome, state=TrialState.DISTURBED, reason=disturbed)
