"""Simulated studies whose effect comes and goes slowly after a switch (row L7): what the verdict then says.

A cache that fills, a checkpoint that is spread: after a switch the effect approaches its full size by exp(-t / tau),
and leaves in the same way under A. Nothing of it may be invented; it may be hidden, and the fade-in test may tell.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.stats.body_index import PeriodCounts, body_of, pair_index
from pgdyno.stats.fade_in import fades_in
from pgdyno.stats.sequential import Design, is_final, judge

WASH_S, COUNTED_S, PAIRS = 5.0, 25.0, 48


class Fading:
    """How much of B's effect is there, from switch to switch."""

    def __init__(self, tau_s: float) -> None:
        self.tau_s, self.level = tau_s, 0.0

    def mean_over(self, aim: float, seconds: float) -> float:
        """Move towards `aim` for so long, and return the mean level on the way."""
        left, kept = self.level - aim, math.exp(-seconds / self.tau_s)
        self.level = aim + left * kept
        return aim + left * self.tau_s / seconds * (1 - kept)


def carry_over(effect: float, tau_s: float, seed: int) -> tuple[Verdict, bool]:
    """Run one study; return its verdict, and whether the fade-in test told before it was final."""
    simulation, fading = LiveSimulation(SimulatedLoad(), seed), Fading(tau_s)
    body = body_of(simulation.reference(60, 10.0), COUNTED_S)
    coin, ratios, firsts, seconds = np.random.default_rng(seed + 7), [], [], []
    verdict: Verdict | None = None
    for _ in range(4 * PAIRS):
        order = "BA" if coin.integers(2) else "AB"
        arms = {arm: _period(simulation, fading, effect, arm == "B") for arm in order}
        pair = pair_index(body, arms["A"], arms["B"])
        if pair is None or not pair.is_matched:
            continue
        halves = [pair_index(body, a, b) for a, b in zip(arms["A"].halves or (), arms["B"].halves or (), strict=True)]
        if len(halves) == 2 and halves[0] is not None and halves[1] is not None:
            firsts.append(halves[0].log_ratio)
            seconds.append(halves[1].log_ratio)
        ratios.append(math.exp(pair.log_ratio))
        if fades_in(firsts, seconds):
            break
        verdict = judge([1.0] * len(ratios), ratios, metric=Metric.STATEMENT_TIME, design=Design(max_pairs=PAIRS))
        if is_final(verdict, Design(max_pairs=PAIRS)):
            return verdict, False
    assert verdict is not None, "the test wants more pairs than one"
    return verdict, True


def _period(simulation: LiveSimulation, fading: Fading, effect: float, is_b: bool) -> PeriodCounts:
    aim = 1.0 if is_b else 0.0
    fading.mean_over(aim, WASH_S)
    levels = [fading.mean_over(aim, COUNTED_S / 2) for _ in range(2)]
    first = simulation.period(COUNTED_S / 2, effect ** levels[0])
    second = simulation.period(COUNTED_S / 2, effect ** levels[1])
    whole = PeriodCounts(first.calls + second.calls, first.time_ms + second.time_ms)
    return replace(whole, first=first)


def print_carry_over(studies: int, seed: int) -> None:
    """Print row L7."""
    print("L7, simulated: effects that come late, wash-out 5 s, periods of 30 s; the interval against the truth")
    print("effect  tau s  studies  fade-in  holds it  nearer to 1  beyond it  better  worse  ratio median")
    for effect in (0.7, 0.9, 1.0, 1.1):
        for tau_s in (5.0, 15.0, 60.0):
            told: Counter[str] = Counter()
            found = []
            for one in range(studies):
                verdict, is_told = carry_over(effect, tau_s, 1000 * seed + one)
                if is_told:
                    told["told"] += 1
                    continue
                lo, hi = verdict.interval.lo, verdict.interval.hi
                found.append(verdict.interval.ratio)
                beyond = hi < effect if effect < 1 else lo > effect if effect > 1 else not lo <= 1 <= hi
                told["beyond" if beyond else "holds" if lo <= effect <= hi else "nearer"] += 1
                told[verdict.word.value] += 1
            middle = f"{np.median(found):.3f}" if found else "-"
            counts = [told[word] for word in ("told", "holds", "nearer", "beyond", Word.BETTER.value, Word.WORSE.value)]
            widths = (7, 8, 11, 9, 6, 5)
            words = "  ".join(f"{count:<{width}}" for count, width in zip(counts, widths, strict=True))
            print(f"{effect:<6}  {tau_s:<5g}  {studies:<7}  {words}  {middle}", flush=True)
