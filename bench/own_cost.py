"""Print the CPU and memory that a running trial costs on the host of the load: whole process, and sampler apart.

    python bench/own_cost.py [--rate 30000] [--seconds 60] [--speed 1] [--rounds 1] [--against OTHER/src]

One trial runs as `pgdyno bench` runs it (laboratory, sampler, guards, live board, store) on a sandbox of its own. In
place of pgbench stands a writer of its files: `rate` lines of the transaction log and a progress line for each second,
so that a server that manages 30,000 transactions a second is not needed; the server that is sampled is real. With
`--speed 60` the writer is sixty times as fast as its clock: two hours of lines in two minutes. Only the CPU for a line
and the memory mean something then, since ticks, guards and the board go by the real clock; the share of a core at
`--speed 1` is what a run costs. `--against` runs the trial with the sources of another checkout in turns with this one.

CPU is that of the process without its children, in percent of one core, by tenths of the load; how it ended (folding
the rest, finding the window, storing) is told apart. The goal is 1 % of a core at 30,000 lines a second, flat.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

BLOCKS = 8
"""Seconds of lines made beforehand, used in turns: making them anew would cost the writer more than 30,000 a second."""
EPOCH = b"\x01" * 10
CLIENTS = 32


def write(rate: int, seconds: int, speed: float) -> None:
    """Write what pgbench would have written into the folder that this process was started in."""
    chance = random.Random(1)
    blocks = []
    for _ in range(BLOCKS):
        moments = sorted(chance.randrange(1_000_000) for _ in range(rate))
        latencies = (min(int(chance.lognormvariate(6.9, 0.5)), 900_000) for _ in range(rate))
        lines = (
            b"%d %d %d 0 %b %d\n" % (number % CLIENTS, 100_000 + number, latency, EPOCH, micros)
            for number, (micros, latency) in enumerate(zip(moments, latencies, strict=True))
        )
        blocks.append(b"".join(lines))
    began, since = int(time.time()) + 1, time.monotonic()
    with Path(f"transactions.{os.getpid()}").open("wb", buffering=0) as log:
        for second in range(seconds):
            time.sleep(max(0.0, since + (second + 1) / speed - time.monotonic()))
            log.write(blocks[second % len(blocks)].replace(EPOCH, b"%d" % (began + second)))
            told = f"{began + second + 1}.000 s, {rate}.0 tps, lat 1.100 ms stddev 0.500, 0 failed"
            sys.stderr.write(f"progress: {told}\n")
            sys.stderr.flush()


@contextmanager
def recording(watcher: Any, store: Any, study: str) -> Iterator[Any]:  # noqa: ANN401 - other classes in each checkout that is measured
    """Give what tells the watcher and the board, which was one class before a study's row had one of its own."""
    from pgdyno.store.live import LiveBoard
    from pgdyno.trial import live_recorder

    try:
        from pgdyno.trial.live_row import LiveRow
    except ImportError:
        older: Any = live_recorder.LiveRecorder
        with older(watcher, LiveBoard(store), study) as recorder:
            yield recorder
        return
    with LiveRow(LiveBoard(store), study) as row:
        yield live_recorder.LiveRecorder(watcher, row)


@dataclass
class Meter:
    """A watcher that notes what the process has used, at each tenth of the load."""

    seconds: float
    marks: list[tuple[float, float, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def reading(self, elapsed_s: float, duration_s: float, load: object, sampler: object) -> None:
        """Note time, CPU and resident memory."""
        if elapsed_s >= len(self.marks) * self.seconds / 10:
            self.marks.append((time.monotonic(), time.process_time(), resident()))
            if self.seconds >= 600 and len(self.marks) > 1:  # told as it comes, to whoever waits for hours
                (then, used, _), (now, uses, held) = self.marks[-2:]
                text = f"after {elapsed_s:.0f} s: {100 * (uses - used) / (now - then):.2f} % of a core, {held >> 20} MB"
                print(text, file=sys.stderr, flush=True)

    def notice(self, text: str) -> None:
        """Keep the line, for a run that fails."""
        self.said.append(text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what stands for every other method of a watcher."""
        return lambda *_: None


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(rate: int, seconds: int, speed: float) -> dict[str, object]:
    """Run the trial and return its figures."""
    from pgdyno.cli.main import NEW_OBJECTS
    from pgdyno.model.configuration import BASELINE
    from pgdyno.model.guard import GuardLimit, GuardPlan
    from pgdyno.model.study import Study, StudyKind, StudyState
    from pgdyno.model.trial import LoadPlan, Role, TrialSpec
    from pgdyno.probes.guards.reader import GuardReader
    from pgdyno.probes.sampler import Overhead, SampleBatch, Sampler
    from pgdyno.sandbox.sandbox import Sandbox
    from pgdyno.store.catalogue import Store
    from pgdyno.targets.inspect import read_facts
    from pgdyno.trial import laboratory as module
    from pgdyno.trial.sentry import Sentry
    from pgdyno.workloads.pgbench.command import DriverOptions, Pgbench, RunCommand
    from pgdyno.workloads.pgbench.load import PgbenchLoad
    from pgdyno.workloads.pgbench.workload import PgbenchWorkload
    from pgdyno.workloads.registry import make_workload
    from pgdyno.workloads.script import Script

    gc.set_threshold(NEW_OBJECTS)  # how often garbage is looked for is a part of what a run costs

    class Writer(RunCommand):
        """The command line of the writer in place of pgbench's."""

        def argv(self) -> list[str]:
            return [sys.executable, __file__, "--write", f"--rate={rate}", f"--seconds={seconds}", f"--speed={speed}"]

    class Written(PgbenchWorkload):
        """A workload whose load is written; everything else is that of reads by key."""

        def begin(self, target: object, dbname: str, plan: LoadPlan, directory: Path, **_: object) -> PgbenchLoad:
            directory.mkdir(parents=True)
            scripts, options = (Script("select-only"),), DriverOptions()
            return PgbenchLoad(Writer(Pgbench(Path("x"), 18), plan, scripts, {}, options, directory, dbname), {})

    class Kept(Sampler):
        """A sampler that leaves what it cost."""

        def stop(self) -> SampleBatch:
            batch = super().stop()
            costs.append(batch.overhead)
            return batch

    costs: list[Overhead] = []
    vars(module)["Sampler"] = Kept
    meter = Meter(seconds / speed)
    sandbox = Sandbox.open_or_create(f"bench-own-cost-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="pgdyno-bench-") as name, Store.open(Path(name) / "store.db") as store:
        try:
            sandbox.start()
            target, real = sandbox.target(), make_workload("select-only", {"scale": 1})
            workload = Written(**{one.name: getattr(real, one.name) for one in fields(real)})
            workload.prepare(target, progress=lambda _: None)
            # They are read as in every run; those that see the whole machine judge others that run beside this.
            guards = GuardPlan({name: GuardLimit(None) for name in ("memory-stall", "swap-in")})
            plan = LoadPlan(clients=CLIENTS, jobs=1, warmup_s=2.0, measure_s=seconds / speed)
            study = Study("s1", StudyKind.BENCH, "own cost", StudyState.RUNNING, 0.0, "sandbox", "e", {},
                          workload.spec(), plan)  # fmt: skip
            store.add_study(study)
            with recording(meter, store, study.id) as recorder:
                laboratory = module.Laboratory(
                    study=study, target=target, workload=workload, store=store, facts=read_facts(target), session=None,
                    watcher=recorder, folder=Path(name) / "runs", sentry=Sentry(GuardReader(target), guards),
                )  # fmt: skip
                trial = laboratory.run(TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0))
        finally:
            sandbox.destroy()
    ended, outcome = time.process_time(), trial.outcome
    assert outcome is not None, "a trial that ended has one"
    assert outcome.transactions == rate * seconds, (outcome, meter.said)
    sampler = costs[0]
    return {
        "marks": meter.marks,
        "ending_s": ended - meter.marks[-1][1],
        "sampler_pct": 100 * sampler.cpu_s / sampler.ticks,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "p99_ms": None if outcome.latency_ms is None else outcome.latency_ms.p99,
    }


def report(name: str, found: dict[str, object], options: argparse.Namespace) -> None:
    """Print the figures of one run for people."""
    marks = found["marks"]
    assert isinstance(marks, list)
    assert len(marks) > 1, "the load was read too slowly for its length: lower --speed"
    tenths = [100 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(marks)]
    whole = (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])
    lines = options.rate * options.speed
    print(
        f"{name:7s} process {100 * whole:6.2f} % of a core ({1e6 * whole / lines:.3f} us a line), by tenths "
        f"{' '.join(f'{share:.2f}' for share in tenths)}; sampler alone {found['sampler_pct']:.2f} %; memory "
        f"{marks[0][2] >> 20} to {marks[-1][2] >> 20} MB, peak {found['peak_mb']:.0f} MB; "
        f"end of the load {found['ending_s']:.1f} s of CPU",
        flush=True,
    )


def main() -> None:
    """Parse the flags, run the trials in turns and print."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=30_000, help="lines for each second of the writer's clock")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of the writer's clock")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the writer's clock in a real one")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--against", metavar="SRC", help="folder of other sources of pgdyno, run in turns")
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # a busy machine may end the time before the last line
        write(options.rate, options.seconds, options.speed)
        return
    if options.one:
        print(json.dumps(measure(options.rate, options.seconds, options.speed)))
        return
    sides = {"here": None} | ({"against": options.against} if options.against else {})
    print(
        f"{options.rate} lines a second, {options.seconds} s of them at {options.speed:g} times the speed", flush=True
    )
    for _ in range(options.rounds):
        for name, source in sides.items():
            environment = os.environ | ({} if source is None else {"PYTHONPATH": source})
            argv = [sys.executable, __file__, "--one"]
            argv += [f"--{word}={getattr(options, word)}" for word in ("rate", "seconds", "speed")]
            done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            report(name, json.loads(done.stdout.splitlines()[-1]), options)


if __name__ == "__main__":
    main()
