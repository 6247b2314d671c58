"""Time the dashboard's answers over a store with one running study of 10,000 trials and 1,000 small ones.

    python bench/dashboard.py [--trials 10000] [--studies 1000] [--rounds 7]

CPU time of this process and wall time, medians of pages in turns; on a shared machine the first is what counts, and its
ratio to the first page. The budget for the first page is 0.3 s of the server's time.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from large_store import LARGE, add
from pgdyno.model.live import Live, LivePoint
from pgdyno.model.study import StudyKind
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.web import overview
from pgdyno.web.app import Dashboard

BUDGET_S = 0.3
RAM = "/dev/shm"  # noqa: S108 - no fixed name: TemporaryDirectory makes a private folder there
FIRST = "first page, after a start"


def timed(doing: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU and wall seconds of a call."""
    began, before = time.perf_counter(), time.process_time()
    doing()
    return time.process_time() - before, time.perf_counter() - began


def main() -> None:
    """Make the store and time every kind of answer, all in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    overview.FRESH_S = 0.0  # each call reads the store, as the first of a second does
    where = RAM if os.access(RAM, os.W_OK) else None  # each of the trials waits for its disk
    with TemporaryDirectory(prefix="pgdyno-bench-", dir=where) as name, Store.open(Path(name) / "store.db") as store:
        rng, began = random.Random(3), time.perf_counter()
        add(store, LARGE, StudyKind.TUNE, given.trials, rng)
        for at in range(given.studies):
            add(store, f"small-{at:04d}", StudyKind.BENCH, 1, rng)
        now = time.time()
        points = tuple(LivePoint(now - at, 800.0, 1.5, 40.0, 30.0, 900.0, 12.5, 2.0) for at in range(300, 0, -1))
        board, state = LiveBoard(store), Live(LARGE, now, now - 900, "here", os.getpid(), run=1, points=points)
        board.show(state)
        dashboard, target, run = Dashboard(store), store.study(LARGE).target, store.trials("small-0001")[0].id
        took = time.perf_counter() - began
        print(f"{given.trials} trials in a running study, {given.studies} more, written in {took:.0f} s", flush=True)
        pages: dict[str, Callable[[], object]] = {
            FIRST: lambda: Dashboard(store).front(0),
            "first page": lambda: dashboard.front(0),
            "event of a second": dashboard.event,
            "older page": lambda: dashboard.front(5),
            "a study's report, anew": lambda: Dashboard(store).study("small-0001", "html"),
            "the large study's, anew": lambda: Dashboard(store).study(LARGE, "html"),
            "target": lambda: dashboard.target(target),
            "run": lambda: dashboard.run(run),
            "two studies": lambda: dashboard.beside("small-0001", "small-0002"),
            "two, one of them large": lambda: dashboard.beside("small-0001", LARGE),
            "a running study's row": lambda: board.show(state),
        }
        taken: dict[str, list[tuple[float, float]]] = {what: [] for what in pages}
        cold, _ = timed(pages[FIRST])
        for doing in pages.values():
            doing()
        for _ in range(given.rounds):
            for what in rng.sample([*pages], len(pages)):
                taken[what].append(timed(pages[what]))
        print(f"medians of {given.rounds} rounds, all in turns; the first page of all took {1e3 * cold:.0f} ms of CPU")
        found = {what: [median(column) for column in zip(*rows, strict=True)] for what, rows in taken.items()}
        for what, (cpu, wall) in found.items():
            ratio = cpu / found["first page"][0]
            print(f"{what:<28}{1e3 * cpu:>8.1f} ms CPU{1e3 * wall:>9.1f} ms{ratio:>8.2f} x the first page")
        size, met = len(dashboard.event()), "met" if max(cold, found[FIRST][0]) <= BUDGET_S else "NOT MET"
        print(f"an event has {size / 1e3:.0f} kB; first page within {BUDGET_S} s of CPU: {met}")


if __name__ == "__main__":
    main()
