"""What a replay costs the server, and what comparisons of real runs say: alike ones, and one that is 30 % slower.

    python bench/replay_pairs.py --folder /srv/pairs [--runs 20] [--transactions 100] [--rate 100] [--draws 40]

The load is pgbench's TPC-B-like one from 10 clients, half simple, half prepared, at a rate; it is captured once. Server
CPU is that of the postmaster and all its children, for the load as pgbench sends it and as the replay does, in turns,
without logging. A/A are real runs of the trace on one server, each compared with the one before: what is named there is
a false alarm; the first of them warms the server up. For what is found, both sides draw 300 executions of each class,
with replacement, from two of these runs together, and those of one class of the second side are made 30 % longer; the
limit of 1 ms is off for it, as statements here are shorter.

What is in the folder is not done again: after a kill the same command goes on.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from pgdyno.linux.processes import tree_cpu_s
from pgdyno.model.replay_comparison import ClassTable
from pgdyno.model.verdict import Word
from pgdyno.replay.captured import asked_of, write_tape
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.block_bootstrap import DependentBlocks, drawn
from pgdyno.stats.class_verdicts import EffectLimits, Timed, judge_classes
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.compared_rows import ReplaySide, reading
from pgdyno.trace.comparing import compare_replay
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engines import PYTHON, choose_engine, run_engines
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome_file import FACTS, OUTCOME_VERSION, OutcomeFacts, OutcomeWriter, read_facts
from trace_build import write_log

EXECUTIONS = 300
SLOWER = 1.3
_BLOCKS = 60
_TOLD = (Word.WORSE, Word.BETTER)
_QUIET = ("log_min_duration_statement", "log_statement", "log_connections", "log_disconnections")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a trace, its tape, and outcomes; the server is there while runs are missing."""

    folder: Path
    transactions: int
    rate: int

    @property
    def trace(self) -> Path:
        return self.folder / "trace.parquet"

    def outcome(self, number: int) -> Path:
        return self.folder / f"run-{number:02d}"

    def has_run(self, number: int) -> bool:
        """Tell whether a run is there whole; what a kill left of one is removed."""
        folder = self.outcome(number)
        if not folder.exists():
            return False
        if (folder / FACTS).exists() and read_facts(folder).ended == "complete":
            return True
        shutil.rmtree(folder)
        return False

    def captured(self, sandbox: Sandbox) -> None:
        """Capture the load, where that was not done; the server runs then, and logs no statement."""
        if not self.trace.exists():
            log = write_log(sandbox, "B", self.transactions, rate=self.rate)
            made = build_trace([log], self.folder / "new.parquet", BuildOptions())
            write_tape(self.folder / "new.parquet", self.folder / "tape", Order.SESSION, lambda _: None)
            for file in sorted(self.folder.glob("new.*")):
                file.rename(file.with_name(file.name.replace("new", "trace", 1)))
            print(f"captured {made.statements:,} statements of {made.sessions:,} sessions", flush=True)
        sandbox.start()
        for name in _QUIET:
            sandbox.target().postgres.execute(f"ALTER SYSTEM RESET {name}")
        sandbox.stop()
        sandbox.start()

    def replay(self, sandbox: Sandbox, number: int) -> None:
        """Send the trace and keep the outcome; one that was not sent whole raises ValueError."""
        given = sandbox.target().postgres.parameters
        plan = EnginePlan(-1, -1, EndPoint(given["host"], int(given.get("port", 5432))), Login(), starts_in_s=0.2)
        program, _ = choose_engine(plan)
        facts = OutcomeFacts(
            OUTCOME_VERSION, str(self.trace), "", "bench", "", "", "python" if program == PYTHON else "compiled", 1.0,
            "schedule", "session", 1, time.time(), error_limit_percent=1.0,
        )  # fmt: skip
        writer = OutcomeWriter(self.outcome(number), facts)
        tally = run_engines(plan, self.folder / "tape", writer.files, program=program)
        writer.finish(tally.ended, tally, {})
        if tally.ended != "complete":
            raise ValueError(f"run {number} ended: {tally.ended}")

    def load(self, sandbox: Sandbox) -> None:
        """Send the load as it was captured, by pgbench."""
        target, (dbname,) = sandbox.target(), asked_of(self.trace).databases
        for mode in ("simple", "prepared"):
            words = ["-n", "-M", mode, "-c", "10", "-j", "1", "-t", str(self.transactions), "-R", str(self.rate)]
            target.runner.run([str(target.program("pgbench")), *words, dbname], env=target.postgres.environment(dbname))


def server_cpu(sandbox: Sandbox, work: Callable[[], None]) -> float:
    """Return the CPU seconds of the server while `work` ran."""
    postmaster = sandbox.target().cpu.postmaster()
    assert postmaster is not None, "it was started"
    before = tree_cpu_s(postmaster) or 0.0
    work()
    return (tree_cpu_s(postmaster) or 0.0) - before


def server_words(place: Place, sandbox: Sandbox, first: int, rounds: int) -> str:
    """Measure the load and its replay in turns, and say what they cost the server; `first` is the number of a run."""
    costs = list[tuple[float, float]]()
    for number in range(first, first + rounds):
        shutil.rmtree(place.outcome(number), ignore_errors=True)
        by_pgbench = server_cpu(sandbox, partial(place.load, sandbox))
        costs.append((by_pgbench, server_cpu(sandbox, partial(place.replay, sandbox, number))))
    told = ", ".join(f"{ours:.2f} s to {theirs:.2f} s" for theirs, ours in costs)
    ratio = median(ours / theirs for theirs, ours in costs)
    return f"server CPU of the replay to that of the load: {ratio:.3f} ({told})\n"


def side(folder: Path) -> ReplaySide:
    """Return an outcome as a side of a comparison."""
    return ReplaySide(folder.name, tuple(sorted(folder.glob("part-*.parquet"))))


def named(table: ClassTable) -> int:
    """Return how many classes are said to have changed."""
    return sum(one.word in _TOLD for one in table.classes)


def tell_alike(place: Place, runs: int, *, has_again: bool) -> None:
    """Compare each run with the one before, and print how many classes were named; the first was a warm-up.

    `has_again`: the next run stands for what equal platforms give, as it does where runs are made by turns.
    """
    alarms = classes = runs_with = 0
    for number in range(2, runs + 2):
        before, this, after = (side(place.outcome(number + step)) for step in (-1, 0, 1))
        found = compare_replay(place.trace, before, this, again=after if has_again else None)
        tables = (found.statements, found.transaction_classes)
        alarms += (these := sum(map(named, tables)))
        classes += sum(len(one.classes) + one.left_out for one in tables)
        runs_with += bool(these)
    words = "with a third run beside each pair" if has_again else "pairs alone"
    print(f"A/A, {words}: {alarms} of {classes} classes named, in {runs_with} of {runs} runs", flush=True)


def tell_found(place: Place, draws: int, seed: int = 1) -> None:
    """Print in how many draws a class of two real runs that is made 30 % slower is found, and what else is named."""
    with reading(place.trace, side(place.outcome(1)), side(place.outcome(2)), None, None) as read:
        rows = read.rows
        usable = (rows.differs == 0) & (rows.a.service > 0) & (rows.b.service > 0) & ~rows.is_parse
        of, a, b = rows.fingerprint[usable], rows.a.service[usable], rows.b.service[usable]
    kept = [np.flatnonzero(of == one) for one in np.unique(of)]
    kept = [where for where in kept if where.size >= EXECUTIONS]
    if not kept:
        print(f"+30 %: no class has {EXECUTIONS} executions to draw from", flush=True)
        return
    pools = [np.concatenate([a[where], b[where]]) for where in kept]
    found, others, random = 0, 0, np.random.default_rng(seed)
    numbers = np.repeat(np.arange(len(kept)), EXECUTIONS)
    blocks = DependentBlocks((np.arange(numbers.size) % _BLOCKS).astype(np.int32), _BLOCKS, "draws")
    weights = drawn(_BLOCKS, seed)
    for draw in range(draws * len(kept)):
        slow = draw % len(kept)
        was, now = (np.concatenate([random.choice(one, EXECUTIONS) for one in pools]) for _ in range(2))
        now = np.where(numbers == slow, np.rint(now * SLOWER), now).astype(np.int64)
        timed = Timed(numbers, was, now, np.zeros(0, np.int64), blocks)
        words = {one.name: one.word for one in judge_classes(timed, str, weights, EffectLimits(least_ms=0)).classes}
        found += words[str(slow)] is Word.WORSE
        others += sum(word in _TOLD for name, word in words.items() if name != str(slow))
    total = draws * len(kept)
    alike = total * (len(kept) - 1)
    print(f"+30 % at n = {EXECUTIONS}: found in {found} of {total} draws of {len(kept)} classes", end="; ")
    print(f"of {alike} others in them {others} were named", flush=True)


def main() -> None:
    """Parse the arguments and run what is missing."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is stopped then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="of the server's CPU")
    parser.add_argument("--transactions", type=int, default=100, help="of each of the 10 clients and each protocol")
    parser.add_argument("--rate", type=int, default=100, help="transactions a second")
    parser.add_argument("--draws", type=int, default=40, help="for each class")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    given.folder.chmod(0o755)
    place = Place(given.folder.resolve(), given.transactions, given.rate)
    told = place.folder / "server-cpu.txt"
    if not told.exists() or not all(map(place.has_run, range(given.runs + 3))):
        sandbox = Sandbox.open_or_create("pairs", root=place.folder)
        try:
            sandbox.start()
            place.captured(sandbox)
            for number in range(given.runs + 3):
                if not place.has_run(number):
                    place.replay(sandbox, number)
            if not told.exists():
                told.write_text(server_words(place, sandbox, given.runs + 3, given.rounds))
        finally:
            sandbox.stop()
        sandbox.destroy()
    print(told.read_text(), end="", flush=True)
    for has_again in (False, True):
        tell_alike(place, given.runs, has_again=has_again)
    tell_found(place, given.draws)


if __name__ == "__main__":
    main()
