"""Print what sampling costs: throughput with the sampler over throughput without, in neighbouring blocks of one run.

    python bench/sampling.py [--pairs 150] [--block 1] [--workload select-only] [--seed 1]

One pgbench runs on without a break on a sandbox of its own; the sampler is switched on and off at its progress lines,
in pairs of neighbouring blocks of a second or a few, in an order that is drawn. So both halves of a pair share the
connections, the caches and, a second apart, the machine's mood: separate runs of four seconds differed by 10 % a pair,
ten times what is looked for. Within a block that samples there are as many ticks as seconds. The interval is that of
Wilcoxon's signed ranks: a neighbour's burst spoils a few pairs by far, and what is left is symmetric because the order
is drawn. The last line says what the pairs could resolve. The CPU of the sampling thread and of its session needs no
pairs: it is printed in percent of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pgdyno.linux import processes
from pgdyno.model.verdict import Interval
from pgdyno.probes.host.process import DriverCpu
from pgdyno.probes.host.reading import PROC, TICKS_PER_S
from pgdyno.probes.observer import Observer
from pgdyno.probes.sampler import Sampler
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.paired import log_ratios
from pgdyno.targets.target import Target
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload

TARGET = 0.01
"""The cost that must be told from none: 1 % of the throughput."""
WARMUP_LINES = 5
WORKLOADS = ("select-only", "tpcb-like")
OBSERVER_PIDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno_observer'"
_PROGRESS = re.compile(r"progress: ([\d.]+) s, ([\d.]+) tps")


@dataclass
class Ticker:
    """Takes a reading in the middle of each second while it is on: a trial's sampler, with a switch."""

    sampler: Sampler
    on: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    _since: float = 0.0

    def switch(self, on: bool) -> None:
        """Switch on or off from now on."""
        self._since = time.monotonic()
        (self.on.set if on else self.on.clear)()

    def run(self) -> None:
        """Tick until `over`; the body of a thread."""
        due = 0.0
        while not self.over:
            if not self.on.wait(0.2):
                continue
            due = max(due, self._since + 0.5)
            if due > time.monotonic():
                time.sleep(min(0.05, due - time.monotonic() + 0.001))
                continue
            self.sampler.take()
            due += 1.0


@dataclass
class Blocks:
    """Transactions per second of each pair of blocks, and what observing took."""

    without: list[float] = field(default_factory=list)
    sampled: list[float] = field(default_factory=list)
    ticks: int = 0
    thread_pct: float = 0.0
    session_pct: float = 0.0
    tick_ms: float = 0.0


@contextlib.contextmanager
def pgbench(target: Target, dbname: str, builtin: str, seconds: float) -> Iterator[Iterator[tuple[float, float]]]:
    """Run pgbench and yield its progress lines as they come: seconds since its beginning, transactions per second."""
    argv = [str(target.program("pgbench")), "-n", "-b", builtin, "-c", "4", "-j", "1", "-P", "1"]
    argv += ["-T", str(math.ceil(seconds)), dbname]
    environment = dict(target.postgres.environment(dbname))
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as load:
        assert load.stderr is not None
        try:
            found = (_PROGRESS.match(line) for line in load.stderr)
            yield ((float(match[1]), float(match[2])) for match in found if match)
        finally:
            load.terminate()


def block(lines: Iterator[tuple[float, float]], began: float, count: int) -> tuple[float, float]:
    """Return the throughput over the next `count` progress lines and when the last of them ended."""
    transactions, at = 0.0, began
    for _ in range(count):
        t, tps = next(lines)
        transactions, at = transactions + tps * (t - at), t
    return transactions / (at - began), at


def measure(target: Target, workload: Workload, builtin: str, options: argparse.Namespace) -> Blocks:
    """Run all pairs of one workload in one load, each pair in an order of its own."""
    chance, found = random.Random(options.seed), Blocks()
    dbname = workload.reset(target)
    sampler = Sampler(target, load_database=dbname, driver_pids=lambda: ())
    sampler.take()  # opens the session, as a trial does before its load
    pids = [int(str(row["pid"])) for row in target.postgres.fetch(OBSERVER_PIDS)]
    session, ticker = DriverCpu(PROC, TICKS_PER_S), Ticker(sampler)
    session_s = -session.seconds(pids)
    thread = threading.Thread(target=ticker.run, daemon=True)
    thread.start()
    seconds = WARMUP_LINES + 2 * options.pairs * options.block + 10
    with pgbench(target, dbname, builtin, seconds) as lines:
        _, at = block(lines, 0.0, WARMUP_LINES)
        for _ in range(options.pairs):
            order = [False, True]
            chance.shuffle(order)
            for on in order:
                ticker.switch(on)
                tps, at = block(lines, at, options.block)
                (found.sampled if on else found.without).append(tps)
    ticker.over = True
    thread.join()
    session_s += session.seconds(pids)
    overhead = sampler.stop().overhead
    found.ticks = overhead.ticks
    sampled_s = options.pairs * options.block
    found.thread_pct = 100 * overhead.cpu_s / sampled_s
    found.session_pct = 100 * session_s / sampled_s
    found.tick_ms = 1000 * overhead.mean_tick_s
    return found


def tick_cost(target: Target, dbname: str, rounds: int = 60, ticks: int = 10) -> dict[str, tuple[float, float]]:
    """Return the CPU milliseconds of a tick's views, (here, in the server's session), one by one and in one trip.

    The two take turns in random order, on one session, so that the machine is the same for both.
    """
    chance, observer = random.Random(1), Observer(target.postgres, dbname)
    observer.read(0.0)
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno_observer'"
    (pid,) = (int(str(row["pid"])) for row in target.postgres.fetch(query))
    ways = {"one by one": False, "in one trip": True}
    spent = {name: [0.0, 0.0] for name in ways}
    for _ in range(rounds):
        for name in chance.sample(list(ways), len(ways)):
            observer.in_one_trip = ways[name]
            here, there = time.thread_time(), session_cpu_s(pid)
            for _ in range(ticks):
                observer.read(0.0)
            spent[name][0] += time.thread_time() - here
            spent[name][1] += session_cpu_s(pid) - there
    observer.close()
    return {name: (1e3 * a / rounds / ticks, 1e3 * b / rounds / ticks) for name, (a, b) in spent.items()}


def accounting_cost(pid: int, others: int, rounds: int = 40) -> dict[str, float]:
    """Return the CPU milliseconds of one look at the server's CPU where no cgroup counts it, beside so many processes.

    By the kernel's lists of children, and by every process of the machine, as where a kernel has no such lists.
    """

    def walked(postmaster: int) -> list[processes.ProcessStat]:
        stats = (processes.read_stat(other) for other in processes.all_pids())
        return [stat for stat in stats if stat is not None and postmaster in (stat.pid, stat.parent)]

    ways = {"children": lambda: processes.tree_cpu_s(pid), "all": lambda: processes.tree_cpu_s(pid, stats=walked)}
    spent = dict.fromkeys(ways, 0.0)
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(others)]
    try:
        for _ in range(rounds):
            for name in random.sample(list(ways), len(ways)):
                began = time.thread_time()
                ways[name]()
                spent[name] += time.thread_time() - began
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    return {name: 1e3 * cpu_s / rounds for name, cpu_s in spent.items()}


def session_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, by the nanosecond and not by the clock's tick."""
    return int((PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9


def signed_rank_interval(log_ratios: Sequence[float] | NDArray[np.float64], confidence: float = 0.95) -> Interval:
    """Return the ratio with the interval of Wilcoxon's signed ranks for a number of pairs that was fixed beforehand.

    The estimate is the median of the means of all pairs of values, the bounds are the order statistics of those means
    (Hodges and Lehmann 1963; normal approximation, good from 15 values on).
    """
    values = np.asarray(log_ratios)
    n = values.size
    means = np.sort(((values[:, None] + values) / 2)[np.triu_indices(n)])
    spread = float(ndtri((1 + confidence) / 2)) * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    last = max(0, math.floor(n * (n + 1) / 4 - spread))
    low, middle, high = float(means[last]), float(np.median(means)), float(means[-1 - last])
    return Interval(ratio=math.exp(middle), lo=math.exp(low), hi=math.exp(high), confidence=confidence)


def resolution(without: Sequence[float], sampled: Sequence[float]) -> str:
    """Say whether the pairs could tell a cost of TARGET from none, and if not, about how many could."""
    ratios = log_ratios(without, sampled)
    interval = signed_rank_interval(ratios)
    half = (math.log(interval.hi) - math.log(interval.lo)) / 2
    scatter = f"half of the pairs differ by more than {100 * float(np.median(np.abs(ratios))):.1f} %"
    if interval.lo > 1 - TARGET:
        return f"resolved: the cost is below {100 * TARGET:g} % ({scatter})"
    if interval.hi < 1 - TARGET:
        return f"resolved: the cost is ABOVE {100 * TARGET:g} % ({scatter})"
    needed = math.ceil(len(ratios) * (half / (TARGET / 2)) ** 2)
    return f"not resolved: known to +-{100 * half:.2f} % only, about {needed} pairs would tell ({scatter})"


def report(name: str, found: Blocks, options: argparse.Namespace) -> None:
    """Print two lines for people."""
    interval = signed_rank_interval(log_ratios(found.without, found.sampled))
    print(
        f"{name:12s} sampled/unsampled tps {interval} at 95 %, {len(found.sampled)} pairs of {options.block} s blocks "
        f"in one run; observer: thread {found.thread_pct:.2f} % + session {found.session_pct:.2f} % of a core, "
        f"{found.ticks} ticks of {found.tick_ms:.1f} ms"
    )
    print(f"{'':12s} {resolution(found.without, found.sampled)}", flush=True)


def main() -> None:
    """Parse the flags, run the workloads and print."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--block", type=int, default=1, metavar="SECONDS", help="length of a block; short is best")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload", choices=WORKLOADS, action="append", help="only this one; may be repeated")
    parser.add_argument("--cpu", action="store_true", help="only a tick's CPU: views, and processes")
    parser.add_argument("--processes", type=int, default=250, help="how many sleep beside them, for --cpu")
    options = parser.parse_args()
    sandbox = Sandbox.open_or_create("bench-sampling")
    try:
        sandbox.start()
        target = sandbox.target()
        if options.cpu:
            for name, (here, there) in tick_cost(target, "postgres").items():
                print(f"{name:12s} {here:.3f} ms of CPU here, {there:.3f} ms in the server's session, for each tick")
            pid = target.cpu.postmaster()
            if pid is not None:
                cost = accounting_cost(pid, options.processes)
                print(
                    f"server's CPU without a cgroup, beside {options.processes} processes: "
                    f"{cost['children']:.3f} ms by the lists of children, {cost['all']:.3f} ms by every process"
                )
            return
        for name in options.workload or WORKLOADS:
            workload = make_workload(name, {"scale": 10})
            workload.prepare(target, progress=lambda _: None)
            report(name, measure(target, workload, name, options), options)
    finally:
        sandbox.destroy()


if __name__ == "__main__":
    main()
