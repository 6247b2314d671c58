"""What a reference promises, and what studies then keep of it, simulated (rows L14 and L15 of live studies).

    python bench/live.py --promises 100

L14: of each load a reference of half an hour says which change a study shows in 10, 30 and 60 minutes with 80 %
probability. The same load then runs on with equal arms, and the change that 80 % of such studies show is found by
planting every size on the same pairs. L15: pairs of the long periods that restarts need, by the scatter that
`stats.restart_pairs` takes (none was seen on a real server); the orders' restarts are counted.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.body_index import PeriodCounts, added, body_of, pair_index
from pgdyno.stats.detect import POWER
from pgdyno.stats.period_choice import MINUTES, SWITCH_S, effects_within, period_noise
from pgdyno.stats.restart_pairs import USUAL_SD, restart_pairs, restarts_of
from pgdyno.stats.sequential import Design, judge
from simulation import run_studies

STEP_S, PERIOD_S, REFERENCE_STEPS = 5.0, 30.0, 360
WORST = 1.5
"""What is kept may differ from what was promised by this factor."""


def promise(load: SimulatedLoad, seed: int, pairs: int) -> tuple[list[float | None], NDArray[np.float64], float]:
    """Return what a reference promises for MINUTES, ln(B/A) of so many pairs of equal arms after it, and their share.

    The others were offered unequal work, and cost their time.
    """
    simulation = LiveSimulation(load, seed)
    steps = [simulation.period(STEP_S) for _ in range(REFERENCE_STEPS)]
    reference = simulation.reference_of(steps, STEP_S)
    noise = period_noise(steps, STEP_S, reference, PERIOD_S)
    body, coin = body_of(reference, PERIOD_S - noise.wash_s), np.random.default_rng(seed + 3)
    found: list[float] = []
    drawn = 0
    while len(found) < pairs:
        drawn += 1
        arms = [_counted(simulation) for _ in range(2)]
        pair = pair_index(body, *arms)
        if pair is not None and pair.is_matched:
            found.append(pair.log_ratio if coin.integers(2) else -pair.log_ratio)
    return [one.effect for one in effects_within(noise, Design())], np.array(found), pairs / drawn


def _counted(simulation: LiveSimulation) -> PeriodCounts:
    """Return a period whose first step is its wash-out."""
    whole = [simulation.period(STEP_S) for _ in range(round(PERIOD_S / STEP_S))]
    return added(whole[1:])


def kept(log_ratios: NDArray[np.float64], pairs: int) -> float:
    """Return the smallest planted effect, a ratio distance, that POWER of such studies show in so many pairs."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        told = run_studies(log_ratios[:, :pairs] - math.log1p(middle), Design(max_pairs=pairs))
        low, high = (low, middle) if told.lower.mean() >= POWER else (middle, high)
    return high


def print_promises(loads: dict[str, SimulatedLoad], studies: int, seed: int) -> None:
    """Print both rows."""
    drawn = [60 * minutes / (2 * (PERIOD_S + SWITCH_S)) for minutes in MINUTES]
    print(f"L14, simulated, {studies} studies a load: promised and kept in 10, 30 and 60 min; at most {WORST:g} apart")
    for name, load in loads.items():
        found = [promise(load, 1000 * seed + one, Design().max_pairs) for one in range(studies)]
        ratios = np.array([one for _, one, _ in found])
        share, words = float(np.mean([one for _, _, one in found])), []
        for place, pairs in enumerate(drawn):
            said = [one[place] for one, _, _ in found]
            most = min(Design().max_pairs, max(Design().min_pairs, int(pairs * share)))
            promised = float(np.median([math.inf if one is None else one for one in said]))
            real = kept(ratios, most)
            met = "met" if 1 / WORST <= real / promised <= WORST else "NOT MET"
            words.append(f"{100 * promised:.1f} % {100 * real:.1f} % {real / promised:.2f} {met}")
        print(f"{name:<20}  {'   '.join(words)}", flush=True)
    print(f"\nL15, simulated, {20 * studies} studies a row, pairs of half an hour that scatter by {100 * USUAL_SD:g} %")
    rng = np.random.default_rng(seed)
    for few in (1, 2):
        words_of = [_word(rng.normal(0.3, USUAL_SD, few)) for _ in range(20 * studies)]
        said_few = sum(word is not Word.NOT_RESOLVED for word in words_of)
        print(f"{few} pairs of a change of 30 %: {said_few} of {len(words_of)} have a word")
    for row in restart_pairs([None], Design()):
        design = Design(max_pairs=row.pairs)
        equal = rng.normal(0.0, USUAL_SD, (20 * studies, row.pairs))
        effect = math.inf if row.effect is None else row.effect
        shown = run_studies(equal - math.log1p(effect), design).lower.mean() if row.effect else math.nan
        print(
            f"{row.pairs:>2} pairs: {row.restarts} restarts, {_restarts(row.pairs)} counted; claims of equal arms "
            f"{run_studies(equal, design).claims:.3f}; {100 * effect:.0f} % promised, shown by {shown:.2f}"
        )


def _word(log_ratios: NDArray[np.float64]) -> Word:
    ratios = [math.exp(-one) for one in log_ratios]
    return judge([1.0] * len(ratios), ratios, metric=Metric.STATEMENT_TIME, design=Design()).word


def _restarts(pairs: int) -> int:
    """Count the restarts of A B, B A, ... from A and back to it."""
    arms = "".join("AB" if pair % 2 == 0 else "BA" for pair in range(pairs))
    path = f"A{arms}A"
    counted = sum(one != other for one, other in itertools.pairwise(path))
    assert counted == restarts_of(pairs)
    return counted
