"""Print what sampling costs: throughput with the sampler over throughput without, in interleaved randomised pairs.

    python bench/sampling.py [--pairs 10] [--seconds 6] [--interval 1.0] [--seed 1]

Runs select-only and tpcb-like on a sandbox of its own. Each pair is two runs side by side in random order, so that
drift and neighbours of the machine cancel in the ratio. A 1 with its interval around it means: nothing measurable.
The second figure needs no pairs: the CPU of the sampling thread and of its session, in percent of one core.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.model.trial import LoadPlan
from pgdyno.probes.host.process import DriverCpu
from pgdyno.probes.host.reading import PROC, TICKS_PER_S
from pgdyno.probes.sampler import Sampler
from pgdyno.stats.paired import log_ratios, t_interval
from pgdyno.target.sandbox import Sandbox
from pgdyno.target.target import Target
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload

WARMUP_S = 1.0
WORKLOADS = ("select-only", "tpcb-like")
OBSERVER_PIDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno_observer'"


@dataclass
class Arms:
    """What the pairs of one workload brought: transactions per second, and CPU of the observer in percent of a core."""

    without: list[float] = field(default_factory=list)
    sampled: list[float] = field(default_factory=list)
    thread_pct: list[float] = field(default_factory=list)
    session_pct: list[float] = field(default_factory=list)
    tick_ms: list[float] = field(default_factory=list)


def run_once(target: Target, workload: Workload, plan: LoadPlan, folder: Path, interval_s: float | None) -> Arms:
    """Run the load once, with the sampler when an interval is given."""
    dbname = workload.reset(target)
    running = workload.begin(target, dbname, plan, folder)
    sampler = session = None
    began = time.monotonic()
    if interval_s is not None:
        sampler = Sampler(target, load_database=dbname, driver_pids=lambda: running.pids, interval_s=interval_s)
        sampler.start()
        pids = [int(str(row["pid"])) for row in target.postgres.fetch(OBSERVER_PIDS)]
        session = DriverCpu(PROC, TICKS_PER_S)
        session.seconds(pids)
    while not running.poll():
        time.sleep(0.05)
    seconds = time.monotonic() - began
    arms = Arms()
    if sampler is not None and session is not None:
        arms.session_pct.append(100 * session.seconds(pids) / seconds)
        overhead = sampler.stop().overhead
        arms.thread_pct.append(100 * overhead.cpu_s / seconds)
        arms.tick_ms.append(1000 * overhead.mean_tick_s)
    load = running.finish()
    tps = load.window(load.began_at + WARMUP_S, load.ended_at).throughput
    (arms.without if interval_s is None else arms.sampled).append(tps)
    load.discard_logs()
    return arms


def measure(target: Target, workload: Workload, options: argparse.Namespace, folder: Path) -> Arms:
    """Run all pairs of one workload, each in random order, after one run that is thrown away."""
    plan = LoadPlan(clients=4, jobs=1, warmup_s=WARMUP_S, measure_s=options.seconds)
    chance, total = random.Random(options.seed), Arms()
    run_once(target, workload, plan, folder / "warm", None)
    for pair in range(options.pairs):
        order: list[float | None] = [None, options.interval]
        chance.shuffle(order)
        for slot, interval_s in enumerate(order):
            add(total, run_once(target, workload, plan, folder / f"{pair}-{slot}", interval_s))
    return total


def add(total: Arms, arms: Arms) -> None:
    """Append the figures of one run."""
    total.without += arms.without
    total.sampled += arms.sampled
    total.thread_pct += arms.thread_pct
    total.session_pct += arms.session_pct
    total.tick_ms += arms.tick_ms


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return sum(values) / len(values)


def report(name: str, arms: Arms, options: argparse.Namespace) -> None:
    """Print one line for people."""
    interval = t_interval(log_ratios(arms.without, arms.sampled))
    print(
        f"{name:12s} sampled/unsampled tps {interval} at 95 %, {len(arms.sampled)} pairs of {options.seconds:g} s; "
        f"observer: thread {mean(arms.thread_pct):.2f} % + session {mean(arms.session_pct):.2f} % of a core, "
        f"{mean(arms.tick_ms):.1f} ms a tick of {options.interval:g} s"
    )


def main() -> None:
    """Parse the flags, run both workloads and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload", choices=WORKLOADS, action="append", help="only this one; may be given again")
    options = parser.parse_args()
    sandbox = Sandbox.open_or_create("bench-sampling")
    try:
        sandbox.start()
        target = sandbox.target()
        for name in options.workload or WORKLOADS:
            workload = make_workload(name, {"scale": 10})
            workload.prepare(target, progress=lambda _: None)
            with tempfile.TemporaryDirectory() as folder:
                report(name, measure(target, workload, options, Path(folder)), options)
    finally:
        sandbox.destroy()


if __name__ == "__main__":
    main()
