"""The bench of sampling's cost: blocks of one run, ticks like a trial's, and no word beyond what the pairs resolve."""

from __future__ import annotations

import math
import random
import threading
import time

import numpy as np
import pytest

from sampling import Ticker, block, resolution, signed_rank_interval


class CountingSampler:
    def __init__(self) -> None:
        self.taken: list[float] = []

    def take(self) -> None:
        self.taken.append(time.monotonic())


def pairs(cost: float, scatter: float, count: int) -> tuple[list[float], list[float]]:
    draw = random.Random(1)
    return [1000.0] * count, [1000.0 * (1 - cost) * (1 + draw.gauss(0, scatter)) for _ in range(count)]


@pytest.mark.parametrize(
    ("cost", "scatter", "count", "says"),
    [
        (0.002, 0.02, 100, "resolved: the cost is below 1 %"),
        (0.05, 0.02, 100, "resolved: the cost is ABOVE 1 %"),
        (0.002, 0.1, 20, "not resolved: known to +-"),
    ],
)
def test_only_what_the_pairs_resolve_is_said(cost, scatter, count, says):
    assert resolution(*pairs(cost, scatter, count)).startswith(says)


@pytest.mark.parametrize("burst", [False, True])
def test_the_interval_covers_at_its_rate_and_a_burst_does_not_widen_it_much(burst):
    rng = np.random.default_rng(3)
    values = rng.normal(-0.01, 0.03, (1000, 40))
    if burst:
        values[:, :3] += rng.choice([-1.0, 1.0], (1000, 3))
    intervals = [signed_rank_interval(row) for row in values]
    covered = np.mean([one.lo <= math.exp(-0.01) <= one.hi for one in intervals])
    assert covered >= 0.935
    assert np.median([one.hi - one.lo for one in intervals]) < 0.03


def test_a_block_weighs_its_lines_by_their_length():
    lines = iter([(11.0, 100.0), (13.0, 400.0), (14.0, 7.0)])
    assert block(lines, 10.0, 2) == (pytest.approx((100 + 2 * 400) / 3), 13.0)
    assert block(lines, 13.0, 1) == (7.0, 14.0)


def test_there_are_as_many_ticks_as_seconds_in_a_block_that_samples_and_none_in_the_other():
    sampler = CountingSampler()
    ticker = Ticker(sampler)
    thread = threading.Thread(target=ticker.run, daemon=True)
    thread.start()
    for on in (True, False, True):
        ticker.switch(on)
        time.sleep(2.0 if on else 1.0)
    ticker.over = True
    thread.join()
    began = sampler.taken[0]
    assert [round(taken - began) for taken in sampler.taken] == [0, 1, 3, 4]
