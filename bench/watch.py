"""Print how often `pgdyno watch` would be wrong, and how soon it would be right, on simulated loads.

    python bench/watch.py [--weeks 20] [--changes 40] [--period 60] [--statements 200] [--calls 1200] [--drift 0.12]
        [--spread 0] [--events] [--first-seed 0] [--keep FILE]

A week of equal periods (`live_simulation`: mix, load and each statement's mean wander by themselves): alarms are false.
What is said to be faster again is no alarm, and counted apart.
With `--events` each of its days has a restart, after which all statements take up to three times as long for some
minutes, a reset of the counters, and ten statements that were not there before in place of others.
Then one of the dearest statements takes so many times as long, or all of them do, from a known moment on.
With `--keep` a run that was ended goes on: each week that is over is in FILE, a line of JSON. Other flags of the load
and other code need another file.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from live_real import read_rows
from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.regressions import Regressions, Slowdown
from pgdyno.stats.statement_deltas import StatementDeltas

WEEK_S = 7 * 86400
DAY, DEPLOYED = 1440, 10
COLD = (3.0, 2.4, 1.9, 1.5, 1.3, 1.15, 1.05)
"""So many times as long do all statements take in the periods after a restart."""


class Days:
    """What happens to a server each day, in periods of a minute: the numbers of its statements, and how cold it is."""

    def __init__(self, statements: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 2])
        self.ids, self._next, self._restarted = np.arange(statements), statements, -len(COLD)

    def then(self, period: int, simulation: LiveSimulation) -> tuple[str, float]:
        """Return what happens in this period, and how many times as long all statements take."""
        at = period % DAY
        if at == 300:
            self._restarted = period
        if at == 900:
            gone = self._rng.choice(self.ids.size, DEPLOYED, replace=False)
            self.ids[gone] = np.arange(self._next, self._next + DEPLOYED)
            self._next += DEPLOYED
            simulation.means[gone] *= np.exp(self._rng.normal(0.0, 0.7, DEPLOYED))
        since = period - self._restarted
        return {300: "restart", 600: "reset"}.get(at, ""), COLD[since] if since < len(COLD) else 1.0


def as_deltas(period: PeriodCounts, cvs: np.ndarray, seconds: float) -> StatementDeltas:
    """Return a simulated period as two readings would give it."""
    ids = np.flatnonzero(period.calls > 0)
    calls, time_ms = period.calls[ids], period.time_ms[ids]
    none = np.zeros(ids.size)
    m2 = (cvs[ids] * time_ms / calls) ** 2 * np.maximum(calls - 1, 0)
    return StatementDeltas(seconds, ids, calls, time_ms, time_ms, m2, none, none, none)


def watched(
    load: SimulatedLoad,
    seed: int,
    periods: int,
    period_s: float,
    *,
    slow: int | None = None,
    factor: float = 1.0,
    at: int = 60,
    has_events: bool = False,
) -> tuple[list[tuple[int, Slowdown]], int]:
    """Watch so many periods; from `at` on the `slow`-th dearest statement (None: all) takes `factor` as long."""
    simulation, watch, told, number = LiveSimulation(load, seed), Regressions(), [], -1
    days = Days(load.statements, seed) if has_events else None
    for period in range(periods):
        factors = np.ones(load.statements)
        if days is not None:
            what, cold = days.then(period, simulation)
            factors *= cold
            if what:
                simulation.period(period_s, factors)
                watch.forget() if what == "restart" else watch.hold()
                continue
        if period >= at and factor != 1.0:
            if number < 0 and slow is not None:
                number = int(np.argsort(-simulation.rates * simulation.means * (simulation.rates > 0.2))[slow % 15])
            factors[slice(None) if slow is None else number] = factor
        found = as_deltas(simulation.period(period_s, factors), simulation.cvs, period_s)
        if days is not None:
            found = replace(found, ids=days.ids[found.ids])
        told += [(period, one) for one in watch.add(found)]
    return told, number


def weeks_of(
    load: SimulatedLoad, seeds: range, period_s: float, keep: Path | None, *, has_events: bool = False
) -> list[int]:
    """Return the alarms of weeks without a change, one a seed; those that `keep` has are not run."""
    found = {row["week"]: row["alarms"] for row in read_rows(keep)} if keep is not None else {}
    for seed in seeds:
        if seed in found:
            continue
        cpu = time.process_time()
        periods = int(WEEK_S / period_s)
        told = [one for _, one in watched(load, seed, periods, period_s, has_events=has_events)[0]]
        found[seed] = alarms = sum(not one.is_back for one in told)
        back, spent = len(told) - alarms, round(time.process_time() - cpu, 1)
        row = {"week": seed, "alarms": alarms, "back": back, "cpu_s": spent}
        print(row, flush=True)
        if keep is not None:
            with keep.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return [int(str(found[seed])) for seed in seeds]


def main() -> None:
    """Parse the flags and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=20)
    parser.add_argument("--changes", type=int, default=40)
    parser.add_argument("--period", type=float, default=60.0)
    parser.add_argument("--statements", type=int, default=200)
    parser.add_argument("--calls", type=float, default=1200.0, help="a second, of all statements together")
    parser.add_argument("--drift", type=float, default=0.12)
    parser.add_argument("--spread", type=float, default=0.0, help="of the drift among statements, in ln")
    parser.add_argument("--events", action="store_true", help="restarts, resets and deployments in these weeks")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="go on from what this file has")
    options = parser.parse_args()
    load = SimulatedLoad(
        statements=options.statements, calls_a_second=options.calls, drift=options.drift, drift_spread=options.spread
    )
    first = options.first_seed
    weeks = weeks_of(load, range(first, first + options.weeks), options.period, options.keep, has_events=options.events)
    print(f"{options.weeks} weeks without a change: alarms {weeks}, more than one in {sum(one > 1 for one in weeks)}")
    for what, factor in (("one statement", 1.5), ("one statement", 2.0), ("one statement", 3.0), ("all", 1.3)):
        minutes, others = [], 0
        for seed in range(first, first + options.changes):
            slow = random.Random(seed).randrange(50) if what != "all" else None
            told, number = watched(load, 1000 + seed, 120, options.period, slow=slow, factor=factor)
            hits = [period for period, one in told if period >= 60 and one.number == (None if slow is None else number)]
            others += len(told) - len(hits[:1])
            if hits:
                minutes.append((hits[0] - 60 + 1) * options.period / 60)
        within = sum(one <= 30 for one in minutes)
        print(
            f"{what} {factor} x as long: told within 30 min in {within} of {options.changes}, median "
            f"{median(minutes) if minutes else float('nan'):.0f} min; {others} other alarms"
        )


if __name__ == "__main__":
    main()
