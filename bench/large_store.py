"""Time what a user waits for over a store with one study of 10,000 trials and 1,000 small ones.

python bench/large_store.py [--trials 10000] [--studies 1000] [--rounds 5] [--against SRC] [--only WORD]

The store is written through its own interface into a temporary folder. `--against` names the `src` folder of another
version: both are run in turns, in an order drawn anew each round, and the last column is the ratio of the medians of
CPU time, which neighbours on the machine disturb less than the wall clock.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store

LARGE = "large"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "store list": ("store", "list"),
    "store list --json": ("store", "list", "--json"),
    "store show": ("store", "show", LARGE),
    "store show --json": ("store", "show", LARGE, "--json"),
    "report, HTML": ("report", LARGE, "-o", "{folder}/report.html"),
    "report, Markdown": ("report", LARGE, "-o", "{folder}/report.md"),
    "report, text": ("report", LARGE, "-o", "{folder}/report.txt"),
    "report, JSON": ("report", LARGE, "-o", "{folder}/report.json"),
    "bundle export": ("bundle", "export", LARGE, "-o", "{folder}/large.pgdyno"),
    "compare of bundles": ("compare", "--platforms", "A={folder}/a.pgdyno", "B={folder}/a.pgdyno"),
}
KINDS = {
    "shared_buffers": "4GB",
    "jit": "off",
    "random_page_cost": "1.1",
    "effective_io_concurrency": "200",
    "wal_buffers": "64MB",
    "bgwriter_lru_maxpages": "740",
    "max_parallel_workers_per_gather": "2",
}
SRC = Path(__file__).resolve().parents[1] / "src"


def fill(store: Store, trials: int, studies: int) -> None:
    """Write the studies; nothing in them was measured."""
    rng = random.Random(3)
    add(store, LARGE, StudyKind.TUNE, trials, rng)
    add(store, "wide", StudyKind.BENCH, trials, rng)
    for at in range(studies):
        add(store, f"small-{at:04d}", StudyKind.BENCH, 1, rng)


def add(store: Store, name: str, kind: StudyKind, trials: int, rng: random.Random) -> None:
    """Write one study of so many trials, every fifth of a tune with the baseline's settings."""
    workload = WorkloadSpec("select-only", {"scale": 10}, "f00d", "one select of an account by its primary key", True)
    facts = {"host": {"cores": 2, "architecture": "x86_64"}, "server": {"version": "18.6"}}
    study = Study(name, kind, name, StudyState.RUNNING, 1.79e9, "sandbox", "e1", facts, workload,
                  LoadPlan(clients=8, jobs=2, warmup_s=5, measure_s=30))  # fmt: skip
    store.add_study(study)
    for at in range(trials):
        base = kind is not StudyKind.TUNE or at % 5 == 0
        chosen = BASELINE if base else Configuration.of({knob: f"{value}{at}" for knob, value in KINDS.items()})
        role = Role.ARM if kind is not StudyKind.TUNE else Role.BASELINE if base else Role.SEARCH
        run = store.begin_trial(name, TrialSpec(chosen, role, "run", at // 5, at % 5))
        tps = 1200 * rng.lognormvariate(0 if base else 0.3, 0.1)
        latency = LatencySummary(*(8000 / tps * factor for factor in (0.9, 1.7, 2.6, 5, 9, 1)))
        store.finish_trial(
            run,
            Outcome(TrialState.COMPLETE, began_at=1.79e9 + 40 * at, steady_from=1.79e9 + 40 * at + 5,
                    ended_at=1.79e9 + 40 * at + 35, throughput=tps, latency_ms=latency, transactions=int(tps * 30),
                    driver_cpu_s=4.0, server_cpu_s=50.0, server_cpu_ms_per_tx=1500 / tps, foreign_cpu_pct=1.0),
        )  # fmt: skip
    store.update_study(name, state=StudyState.INTERRUPTED if kind is StudyKind.TUNE else StudyState.COMPLETE)


def seconds(source: Path, words: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Run one command of the `pgdyno` in this source folder, and return its wall and CPU time; it must not fail."""
    argv = [sys.executable, "-m", "pgdyno", *(word.format(folder=folder) for word in words)]
    argv += ["--store", str(folder / "store.db")]
    for made in folder.glob("large.pgdyno"):
        made.unlink()
    began, before = time.perf_counter(), os.times()
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, check=False)
    took, after = time.perf_counter() - began, os.times()
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace')[-400:]}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return took, spent


def measure(sources: list[Path], rounds: int, folder: Path, only: str) -> None:
    """Print the medians of each command, the sources in turns."""
    rng = random.Random()
    for name, words in COMMANDS.items():
        if only not in name:
            continue
        taken: dict[Path, list[tuple[float, float]]] = {source: [] for source in sources}
        for _ in range(rounds):
            for source in rng.sample(sources, len(sources)):
                taken[source].append(seconds(source, words, folder))
        medians = [tuple(median(column) for column in zip(*taken[source], strict=True)) for source in sources]
        told = "   ".join(f"{wall:8.2f} s {cpu:8.2f} s CPU" for wall, cpu in medians)
        ratio = f"{medians[0][1] / medians[1][1]:9.3f}" if len(medians) > 1 else ""
        print(f"{name:<20}{told}{ratio}", flush=True)


def main() -> None:
    """Make the store, time the commands, and tell how large the page is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sources = [SRC, given.against.resolve()] if given.against else [SRC]
    with TemporaryDirectory(prefix="pgdyno-bench-") as name:
        folder = Path(name)
        with Store.open(folder / "store.db") as store:
            fill(store, given.trials, given.studies)
        seconds(SRC, ("bundle", "export", "wide", "-o", "{folder}/a.pgdyno"), folder)
        print(f"{given.trials} trials in one study, {given.studies} more; medians of {given.rounds} runs", flush=True)
        measure(sources, given.rounds, folder, given.only)
        for page in sorted(folder.glob("report.*")):
            print(f"{page.name}: {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
