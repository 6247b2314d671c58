"""What the rules of a live study do on simulated loads: false claims, pairs to an effect, vetoes, raw time per call.

    python bench/live.py [--studies 1000] [--seed 1] [--guard-days 1] [--carry-over 40]
    python bench/live.py --promises 100
    python bench/live.py --searches 20
    python bench/live.py --hours 8 [--folder ~/pgdyno-live-bench] [--rows L5 L6 L8 L9 L12 L13]

Loads are those of `live_simulation`: a drifting mix, waves, drifting parameters and rare reports. Real servers are no
part of these figures: `--hours` runs real studies instead (`live_real`), and goes on where it was ended.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_carry_over import print_carry_over
from live_promises import print_promises
from live_queue import QueueLoad, Readings, calls_of, trips
from live_search import print_searches
from live_simulation import LiveSimulation, SimulatedLoad, simulated_study
from pgdyno.model.guard import GuardPlan
from pgdyno.stats.body_index import body_of, pair_index
from pgdyno.stats.sequential import Design
from pgdyno.stats.veto import VetoState
from pgdyno.trial.live_guards import STEP_S, LiveGuards, LiveLoad
from simulation import Studies, run_studies

LOADS = {
    "usual": SimulatedLoad(),
    "50 statements": SimulatedLoad(statements=50),
    "waves": SimulatedLoad(waves=0.4),
    "drifting parameters": SimulatedLoad(drift=0.3),
    "thin": SimulatedLoad(calls_a_second=200.0),
}
QUEUES = {
    "bursts that the cores hold": QueueLoad(burst=2.0),
    "bursts that queue": QueueLoad(),
    "busy, more bursts": QueueLoad(rate=250.0, burst=2.5, burst_every_s=300.0),
}
QUEUE_SEEDS, QUEUE_REFERENCE_S = 3, 1800.0
EFFECTS = (1.0, 0.97, 0.95, 0.9, 0.7, 1.1)
COUNTED_S = 25.0
SWITCH_STEPS = 15
"""Readings of a period of 30 s, after which the guard begins anew."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guard-days", type=float, default=0.0, help="only simulate the guards for so long")
    parser.add_argument("--carry-over", type=int, default=0, help="only simulate effects that come late, so often")
    parser.add_argument("--promises", type=int, default=0, help="only simulate what references promise, so often")
    parser.add_argument("--searches", type=int, default=0, help="only simulate searches, so often")
    parser.add_argument("--hours", type=float, default=0.0, help="only run real studies for so long")
    parser.add_argument("--folder", type=Path, default=Path.home() / "pgdyno-live-bench", help="where they are kept")
    parser.add_argument("--rows", nargs="+", default=[], help="only real studies of these rows; usually L1 to L3")
    parser.add_argument("--reference", type=float, default=3.0, help="minutes of a real study's reference")
    parser.add_argument("--period", type=float, default=None, help="seconds of a real study's periods; else it chooses")
    given = parser.parse_args()
    if given.hours:
        from live_real import run_hours

        run_hours(
            given.hours, given.folder, given.rows, reference_s=60 * given.reference, period_s=given.period,
            seed=given.seed,
        )  # fmt: skip
        return
    if given.carry_over:
        print_carry_over(given.carry_over, given.seed)
        return
    if given.promises:
        print_promises(LOADS, given.promises, given.seed)
        return
    if given.searches:
        print_searches(given.searches, given.seed)
        return
    if given.guard_days:
        _print_guard(given.guard_days, given.seed)
        return
    each = max(1, given.studies // len(LOADS))
    print(
        f"{each} studies a row; every effect on the same equal arms. claims: better or worse. coverage: of the truth."
    )
    print("load                  effect  claims  right  coverage  pairs median  p90  raw claims  scatter  raw scatter")
    for name, load in LOADS.items():
        rows = [simulated_study(load, effect=1.0, pairs=48, seed=given.seed * 100_000 + one) for one in range(each)]
        index = np.array([one.log_ratios for one in rows])
        raw = np.array([one.raw for one in rows])
        for effect in EFFECTS:
            _print(name, effect, index + math.log(effect), raw + math.log(effect))
    print("\nfactor of one statement  found  pairs median  false vetoes (equal arms)")
    for factor in (2.0, 2.5):
        found = [_veto(seed, factor) for seed in range(given.seed, given.seed + max(1, each // 4))]
        false = sum(_veto(seed, 1.0) is not None for seed in range(given.seed, given.seed + max(1, each // 4)))
        pairs = [one for one in found if one is not None]
        print(f"{factor:<23}  {len(pairs)} of {len(found)}  {np.median(pairs):g}  {false} of {len(found)}")


def _print_guard(days: float, seed: int) -> None:
    """Print how often guard statement-time trips on equal arms, and after how many seconds on a slower one."""
    steps = round(days * 86400 / STEP_S)
    print("load                  trips on equal arms  largest window  seconds until it trips, all x times slower")
    for name, load in LOADS.items():
        tripped, most = guard_trips(load, seed, steps)
        found = "  ".join(f"{factor:g}x: {_until_trip(load, seed, factor)}" for factor in (4.0, 10.0))
        print(f"{name:<20}  {tripped} in {days:g} days  {most:.2f}  {found}")
    print("\nall guards on a bursty load that queues  trips on equal arms, by guard")
    for name, queue in QUEUES.items():
        counted: Counter[str] = Counter()
        for one in range(QUEUE_SEEDS):
            counted += queue_trips(queue, seed + one, 86400 * days)
        words = ", ".join(f"{guard} {number}" for guard, number in counted.items()) or "none"
        print(f"{name:<38}  {words} in {QUEUE_SEEDS} x {days:g} days")
    for what, factor in (("10 times slower", 10.0), ("no statement ends", math.inf)):
        times = [queue_until_trip(QueueLoad(), seed + one, factor) for one in range(20)]
        print(f"{what:<38}  seconds until a guard trips: median {np.median(times):g}, at most {max(times):g}")


def queue_trips(load: QueueLoad, seed: int, seconds: float) -> Counter[str]:
    """Return how often each guard trips in so long of equal arms, after a reference of half an hour."""
    whole = QUEUE_REFERENCE_S + seconds
    found = Readings(calls_of(load, whole, seed), load, whole)
    guards = LiveGuards(found.usual(int(QUEUE_REFERENCE_S / STEP_S), load.cores), GuardPlan())
    return Counter(name for _, name in trips(guards, found, QUEUE_REFERENCE_S, whole))


def queue_until_trip(load: QueueLoad, seed: int, factor: float) -> float:
    """Return after how many seconds the first guard trips when every call takes so many times as long."""
    began, whole = QUEUE_REFERENCE_S + 30.0, QUEUE_REFERENCE_S + 150.0
    found = Readings(calls_of(load, whole, seed, slow_from_s=began, factor=factor), load, whole)
    guards = LiveGuards(found.usual(int(QUEUE_REFERENCE_S / STEP_S), load.cores), GuardPlan())
    return next((at - began for at, _ in trips(guards, found, began, whole)), math.inf)


def _guards(simulation: LiveSimulation) -> LiveGuards:
    reference = simulation.reference(60, 10.0)
    body = body_of(reference, COUNTED_S)
    calls = float(reference.calls[body.ids].sum()) / reference.seconds
    return LiveGuards(LiveLoad(body, calls, 1.0, 2.0, 2, 0.0, 0), GuardPlan())


def guard_trips(load: SimulatedLoad, seed: int, steps: int) -> tuple[int, float]:
    """Return how often the guard trips in so many readings of a baseline, and the largest ratio that it saw."""
    simulation = LiveSimulation(load, seed)
    guards, tripped, most = _guards(simulation), 0, 0.0
    for step in range(steps):
        if step % SWITCH_STEPS == 0:
            guards.begin()
        if guards.statements(STEP_S * step, simulation.period(STEP_S)) is not None:
            tripped += 1
            guards.begin()
        most = max(most, guards.statement_time)
    return tripped, most


def _until_trip(load: SimulatedLoad, seed: int, factor: float) -> str:
    found = []
    for one in range(seed, seed + 20):
        simulation = LiveSimulation(load, one)
        guards = _guards(simulation)
        steps = (step for step in range(1, 16) if guards.statements(STEP_S * step, simulation.period(STEP_S, factor)))
        found.append(STEP_S * next(steps, math.inf))
    return f"median {np.median(found):g}, at most {max(found):g}"


def _print(name: str, effect: float, index: NDArray[np.float64], raw: NDArray[np.float64]) -> None:
    told, told_raw = run_studies(index, Design()), run_studies(raw, Design())
    pairs = told.pairs[told.lower | told.higher]
    middle, most = (np.median(pairs), np.quantile(pairs, 0.9)) if pairs.size else (math.nan, math.nan)
    print(
        f"{name:<20}  {effect:<6}  {_share(told)}  {_right(told, effect)}  {told.coverage(math.log(effect)):.3f}  "
        f"{middle:g}  {most:g}  {_share(told_raw)}  {index.std(axis=1).mean():.3f}  {raw.std(axis=1).mean():.3f}"
    )


def _share(told: Studies) -> str:
    return f"{int((told.lower | told.higher).sum())}"


def _right(told: Studies, effect: float) -> str:
    return "-" if effect == 1.0 else f"{int((told.lower if effect < 1 else told.higher).sum())}"


def _veto(seed: int, factor: float, pairs: int = 48) -> int | None:
    """Return the pair at which the frequent statement that became slower, or any other, is vetoed."""
    simulation = LiveSimulation(replace(SimulatedLoad(), drift=0.12), seed)
    reference = simulation.reference(60, 10.0)
    body, state = body_of(reference, COUNTED_S), VetoState.begin(reference, COUNTED_S)
    often = [number for number in state.ids if simulation.rates[number] * COUNTED_S > 100]
    factors = np.ones(simulation.rates.size)
    factors[often[seed % len(often)]] = factor
    coin, done = np.random.default_rng(seed + 5), 0
    while done < pairs:
        first_is_b = bool(coin.integers(2))
        one = simulation.period(COUNTED_S, factors if first_is_b else 1.0)
        other = simulation.period(COUNTED_S, 1.0 if first_is_b else factors)
        a, b = (other, one) if first_is_b else (one, other)
        pair = pair_index(body, a, b)
        if pair is not None and pair.is_matched:
            done += 1
            state = state.then(body, a, b)
            if state.vetoed():
                return done
    return None


if __name__ == "__main__":
    main()
