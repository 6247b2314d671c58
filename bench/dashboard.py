"""Time the dashboard's answers over a store with one running study of 10,000 trials and 1,000 small ones.

    python bench/dashboard.py [--trials 10000] [--studies 1000] [--rounds 7]

CPU time of this process and wall time, medians; on a shared machine the first is what counts. The budget for the first
page is 0.3 s of the server's time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from large_store import LARGE, fill
from pgdyno.model.live import Live, LivePoint
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.web import overview
from pgdyno.web.app import Dashboard

BUDGET_S = 0.3


def timed(doing: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median CPU and wall seconds of a call."""
    cpu, wall = [], []
    for _ in range(rounds):
        began, before = time.perf_counter(), time.process_time()
        doing()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - before)
    return median(cpu), median(wall)


def main() -> None:
    """Make the store and time every kind of answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    overview.FRESH_S = 0.0  # each call reads the store, as the first of a second does
    with TemporaryDirectory(prefix="pgdyno-bench-") as name, Store.open(Path(name) / "store.db") as store:
        fill(store, given.trials, given.studies)
        now = time.time()
        points = tuple(LivePoint(now - at, 800.0, 1.5, 40.0, 30.0, 900.0, 12.5, 2.0) for at in range(300, 0, -1))
        board, state = LiveBoard(store), Live(LARGE, now, now - 900, "here", os.getpid(), run=1, points=points)
        board.show(state)
        dashboard = Dashboard(store)
        print(f"{given.trials} trials in a running study, {given.studies} more; medians of {given.rounds}", flush=True)
        first, wall = timed(lambda: Dashboard(store).front(0), given.rounds)
        print(f"{'first page, after a start':<28}{1e3 * first:>8.1f} ms CPU{1e3 * wall:>9.1f} ms")
        for what, doing in {
            "first page": lambda: dashboard.front(0),
            "event of a second": dashboard.event,
            "older page": lambda: dashboard.front(5),
            "a study's report, anew": lambda: Dashboard(store).study("small-0001", "html"),
            "a running study's row": lambda: board.show(state),
        }.items():
            cpu, wall = timed(doing, given.rounds)
            print(f"{what:<28}{1e3 * cpu:>8.1f} ms CPU{1e3 * wall:>9.1f} ms")
        size = len(dashboard.event())
        verdict = "met" if first <= BUDGET_S else "NOT MET"
        print(f"an event has {size / 1e3:.0f} kB; first page within {BUDGET_S} s of CPU: {verdict}")


if __name__ == "__main__":
    main()
