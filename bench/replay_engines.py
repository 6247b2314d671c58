"""What an engine of replays costs, and whether it keeps the schedule: both engines in turns, pgreplay beside them.

    python bench/replay_engines.py [--rows saturated paced lag random speeds] [--rounds 3] [--statements 60000]
                                   [--seconds 10] [--pgreplay /usr/bin/pgreplay]

The load is select-only of pgbench, prepared, by primary key; the server is a sandbox that is removed at the end. CPU is
that of the whole engine (user and system, start and end with it) for 1,000 statements: everything due at once from 50
sessions, and at 2,800 statements a second from 100. Lag is the engine's own, `injector_us`, at 3,000 a second from 200
sessions; it is the machine's as much as the engine's, so compare it within a round. The span is what the statements of
a trace took against what they had to take, at speeds from 0.6 to 2.5. pgreplay replays the same statements from a file
that it has made beforehand (`-f`); it has no lag to show.

A statement at a rate needs two wake-ups, one when it is due and one when its answer comes. What a wake-up costs is the
machine's, so that beside it stand `sleep`, a process that sleeps from one due moment to the next and does nothing, and
`minimal`, the least that a client in C does (`peers/paced_client.c`, where there is a C compiler), which no engine is
below.

Beside each figure stands the share of the machine's CPUs that others used meanwhile: all that was busy, without engine,
server and this program. Above 5 % it is printed and not counted.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import numpy as np

from pgdyno.linux.processes import tree_cpu_s
from pgdyno.probes.host.cpu import parse as parse_cpu_times
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engine.tape import Act
from pgdyno.trace.engines import COMPILED, PYTHON, doubt_about_compiled, run_engines
from pgdyno.trace.outcome import Records, read_records
from pgdyno.trace.tape_writer import TapeRecord, TapeWriter

ACCOUNTS = 100_000
SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
ROWS = ("saturated", "paced", "lag", "random", "speeds")
SPEEDS = (0.6, 1.0, 1.25, 1.5, 1.667, 2.083, 2.5)
FIRST_DUE_US = 1_000_000
AT_ONCE = 1e9
SLEEP, MINIMAL = "sleep", "minimal"
MOST_FOREIGN = 5.0
"""Per cent of all CPUs: what is measured beside more is not counted."""


@dataclass(frozen=True, slots=True)
class Load:
    """`statements` from `sessions` in turns, at `rate` a second; with random pauses it is the rate of their mean."""

    statements: int
    sessions: int
    rate: float
    is_random: bool = False

    @property
    def pace(self) -> str:
        """Return the rate in words."""
        if self.rate == AT_ONCE:
            return "at once"
        return f"at {self.rate:.0f} a second{' with random pauses' if self.is_random else ''}"

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Return session, seq, due (us) and key of each statement, in the order of time."""
        chance, pauses, after = random.Random(1), random.Random(2), 0.0
        for number in range(self.statements):
            seq, session = divmod(number, self.sessions)
            due = after if self.is_random else number / self.rate
            yield session, seq + 1, int(due * 1e6) + FIRST_DUE_US, chance.randint(1, ACCOUNTS)
            after += pauses.expovariate(self.rate)

    def write_tape(self, path: Path, user: str) -> None:
        """Write it for our engines."""
        last = dict.fromkeys(range(self.sessions), (0, 0))
        with path.open("wb") as file:
            tape = TapeWriter(file)
            for session in last:
                tape.add(TapeRecord(session, 0, Act.CONNECT, 0, f"{user}\0postgres\0replay\0".encode()))
            for session, seq, due, key in self.rows():
                payload = wire.extended("P0", [str(key)], SELECT if seq == 1 else None)
                tape.add(TapeRecord(session, seq, Act.SEND, due, payload))
                last[session] = seq, due
            for session, (seq, due) in last.items():
                tape.add(TapeRecord(session, seq + 1, Act.DISCONNECT, due))
            tape.close()

    def write_csvlog(self, path: Path, user: str) -> None:
        """Write it as a server with `log_statement = all` would have, in the columns of csvlog."""
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        last = dict.fromkeys(range(self.sessions), (0, 0))

        def line(session: int, seq: int, due: int, message: str, detail: str = "") -> list[str]:
            moment = begin + timedelta(microseconds=due)
            clock = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"
            who = [clock, user, "postgres", str(1000 + session), "[local]", f"6952f000.{1000 + session:x}", str(seq)]
            what = ["", f"{begin:%Y-%m-%d %H:%M:%S} UTC", "1/1", "0", "LOG", "00000", message, detail]
            return [*who, *what, *[""] * 7, "replay"]

        with path.open("w", newline="") as file:
            log = csv.writer(file)
            log.writerows(
                line(n, 1, n, f"connection authorized: user={user} database=postgres application_name=replay")
                for n in last
            )
            for session, seq, due, key in self.rows():
                log.writerow(line(session, seq + 1, due, f"execute P0: {SELECT}", f"parameters: $1 = '{key}'"))
                last[session] = seq + 1, due
            log.writerows(
                line(n, seq + 1, due, f"disconnection: session time: 0:00:01.000 user={user} database=postgres")
                for n, (seq, due) in last.items()
            )


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the children that `work` starts and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sleep(times: int, seconds: float) -> float:
    """Sleep so often for so long, and return the CPU seconds that this took."""
    before = time.process_time()
    for _ in range(times):
        time.sleep(seconds)
    return time.process_time() - before


def made_minimal(program: Path) -> bool:
    """Compile the least client, if there is a compiler; return whether it is there."""
    compiler, source = shutil.which("cc"), Path(__file__).parent / "peers" / "paced_client.c"
    if compiler is not None and not program.exists():
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program.exists()


def foreign_percent(busy_s: float, own_s: float, wall_s: float, cpus: int) -> float:
    """Return the share of the machine that was busy with others; clocks of ticks may be off by a few of them."""
    return max(0.0, 100 * (busy_s - own_s) / (wall_s * cpus))


def counted(costs: Sequence[tuple[float, float]]) -> list[float]:
    """Return the figures beside which others used no more than is allowed; each comes with their share."""
    return [cost for cost, foreign in costs if foreign <= MOST_FOREIGN]


def beside(foreign: float) -> str:
    """Return the words that stand beside a figure."""
    return f"   others {foreign:.1f} %" + ("" if foreign <= MOST_FOREIGN else ", not counted")


def words_of(costs: Sequence[tuple[float, float]]) -> str:
    """Return the median of the figures that count, and how many do."""
    kept = counted(costs)
    return f"{median(kept):.1f} ({len(kept)} of {len(costs)})" if kept else f"none of {len(costs)} counts"


@dataclass(frozen=True, slots=True)
class Bench:
    """A server, a folder, and who is measured."""

    plan: EnginePlan
    user: str
    folder: Path
    programs: dict[str, Sequence[str]]
    pgreplay: Path | None
    postmaster: int

    def beside(self, work: Callable[[], object]) -> float:
        """Return the share of the machine in per cent that others used while `work` ran."""
        before = self._times()
        work()
        wall, busy, own = (after - earlier for after, earlier in zip(self._times(), before, strict=True))
        return foreign_percent(busy, own, wall, os.cpu_count() or 1)

    def _times(self) -> tuple[float, float, float]:
        """Return now, what all CPUs were busy, and what the server, this program and its children took, in seconds."""
        busy = parse_cpu_times(Path("/proc/stat").read_text("ascii"), os.sysconf("SC_CLK_TCK")).busy
        mine = os.times()
        own = sum(mine[:4]) + (tree_cpu_s(self.postmaster) or 0.0)
        return time.monotonic(), busy, own

    def run(self, name: str, tape: Path, speed: float = 1.0) -> tuple[float, float, Records]:
        """Run an engine; return its CPU seconds, the share of others, and what it wrote."""
        file = self.folder / "records"
        file.write_bytes(b"")
        plan = replace(self.plan, speed=speed)
        spent = 0.0

        def engine() -> None:
            nonlocal spent
            spent = cpu_of(lambda: run_engines(plan, tape, [file], program=self.programs[name]))

        foreign = self.beside(engine)
        found = read_records(file)
        sent = found[found["bytes"] > 0]
        if (found["skip"] != 0).any() or (sent["sqlstate"] != b"").any():
            raise ValueError(f"{name}: not everything was answered")
        return spent, foreign, sent

    def run_pgreplay(self, file: Path, *, at_once: bool) -> tuple[float, float]:
        """Run pgreplay over a file of its own; return its CPU seconds, and the share of others."""
        assert self.pgreplay is not None
        end_point = self.plan.end_point
        argv = [str(self.pgreplay), "-r", "-h", end_point.host, "-p", str(end_point.port), *(["-j"] if at_once else [])]
        spent = 0.0

        def peer() -> None:
            nonlocal spent
            spent = cpu_of(lambda: subprocess.run([*argv, str(file)], check=True, capture_output=True, timeout=300))

        foreign = self.beside(peer)
        return spent, foreign

    def run_sleep(self, load: Load) -> tuple[float, float]:
        """Sleep once for each statement of a load; return the CPU seconds of that, and the share of others."""
        spent = 0.0

        def sleeps() -> None:
            nonlocal spent
            spent = sleep(load.statements, 1 / load.rate)

        foreign = self.beside(sleeps)
        return spent, foreign

    def run_minimal(self, load: Load) -> tuple[float, float]:
        """Run the least client of a load; return its CPU seconds, and the share of others."""
        end_point, spent = self.plan.end_point, 0.0
        words = [f"{end_point.host}/.s.PGSQL.{end_point.port}", self.user]
        words += [str(load.sessions), str(load.statements), str(load.rate)]

        def client() -> None:
            nonlocal spent
            spent = cpu_of(lambda: subprocess.run([str(self.folder / MINIMAL), *words], check=True, timeout=300))

        foreign = self.beside(client)
        return spent, foreign

    def cost(self, load: Load, rounds: int) -> None:
        """Print the CPU that 1,000 statements cost, engine by engine, and the lag of each."""
        tape, log, file = (self.folder / name for name in ("tape", "log.csv", "pgreplay"))
        load.write_tape(tape, self.user)
        names = list(self.programs)
        if self.pgreplay is not None:
            load.write_csvlog(log, self.user)
            subprocess.run([self.pgreplay, "-f", "-c", "-o", file, log], check=True, capture_output=True)
            names.append("pgreplay")
        if load.rate != AT_ONCE:
            names.append(SLEEP)
        if load.rate != AT_ONCE and not load.is_random and made_minimal(self.folder / MINIMAL):
            names.append(MINIMAL)
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        print(f"{load.statements} statements from {load.sessions} sessions, {load.pace}: CPU ms for 1,000 statements")
        for number in range(rounds):
            for name in random.sample(names, len(names)):
                said = ""
                if name == "pgreplay":
                    spent, foreign = self.run_pgreplay(file, at_once=load.rate == AT_ONCE)
                elif name == SLEEP:
                    spent, foreign = self.run_sleep(load)
                elif name == MINIMAL:
                    spent, foreign = self.run_minimal(load)
                else:
                    spent, foreign, sent = self.run(name, tape)
                    p50, p99 = np.percentile(sent["injector_us"], [50, 99]) / 1000
                    wall = (sent["done_us"].max() - sent["sent_us"].min()) / 1e6
                    said = f"   lag p50 {p50:.3f} ms, p99 {p99:.3f} ms   {load.statements / wall:.0f} a second"
                cost = spent * 1e6 / load.statements
                costs[name].append((cost, foreign))
                print(f"  round {number + 1} {name:9} {cost:6.1f}{said}{beside(foreign)}", flush=True)
        print("  median " + ", ".join(f"{name} {words_of(found)}" for name, found in costs.items()))

    def spans(self, load: Load) -> None:
        """Print how long the statements took against what they had to, at each speed."""
        tape = self.folder / "tape"
        load.write_tape(tape, self.user)
        print(f"span of {load.statements} statements at {load.rate:.0f} a second, taken against wanted")
        for speed in SPEEDS:
            took = []
            for name in self.programs:
                _, foreign, sent = self.run(name, tape, speed)
                took.append(f"{name} {np.ptp(sent['sent_us']) / np.ptp(sent['due_us']):.4f}{beside(foreign)}")
            print(f"  {speed:5} " + ", ".join(took), flush=True)


def engines() -> dict[str, Sequence[str]]:
    """Return the engines that a replay of this version could have, by name, and print why the compiled one is none."""
    if (doubt := doubt_about_compiled()) is None:
        return {"python": PYTHON, "compiled": (str(COMPILED),)}
    print(f"the Python engine alone: {doubt}", flush=True)
    return {"python": PYTHON}


def main() -> None:
    """Parse the arguments and run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--statements", type=int, default=60_000, help="of the saturated load")
    parser.add_argument("--seconds", type=int, default=10, help="of the paced loads")
    parser.add_argument("--pgreplay", type=Path, help="the program of Debian's package")
    arguments = parser.parse_args()
    programs = engines()
    with tempfile.TemporaryDirectory(prefix="pgdyno-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        sandbox = Sandbox.open_or_create("replay", root=folder)
        try:
            sandbox.start()
            postgres = sandbox.target().postgres
            given = postgres.parameters
            postgres.execute("ALTER SYSTEM SET max_connections = 300")
            sandbox.stop()
            sandbox.start()
            for statement in (
                "CREATE TABLE public.pgbench_accounts (aid int PRIMARY KEY, abalance int)",
                "INSERT INTO public.pgbench_accounts SELECT n, 0 FROM generate_series(1, 100000) n",
                "VACUUM ANALYZE public.pgbench_accounts",
            ):
                postgres.execute(statement, dbname="postgres")
            plan = EnginePlan(-1, -1, EndPoint(given["host"], int(given.get("port", 5432))), Login(), starts_in_s=0.2)
            postmaster = sandbox.target().cpu.postmaster()
            assert postmaster is not None, "it was started"
            bench = Bench(plan, given["user"], folder, programs, arguments.pgreplay, postmaster)
            if "saturated" in arguments.rows:
                bench.cost(Load(arguments.statements, 50, AT_ONCE), arguments.rounds)
            if "paced" in arguments.rows:
                bench.cost(Load(2_800 * arguments.seconds, 100, 2_800), arguments.rounds)
            if "lag" in arguments.rows:
                bench.cost(Load(3_000 * arguments.seconds, 200, 3_000), arguments.rounds)
            if "random" in arguments.rows:
                bench.cost(Load(3_000 * arguments.seconds, 200, 3_000, is_random=True), arguments.rounds)
            if "speeds" in arguments.rows:
                bench.spans(Load(1_000 * arguments.seconds, 50, 1_000))
        finally:
            sandbox.destroy()


if __name__ == "__main__":
    main()
