"""Print how the TPROC-C-like load stands beside sysbench, in interleaved rounds on one sandbox.

    python bench/peers.py [--warehouses 4] [--clients 8] [--rounds 3] [--seconds 10] [--only driving] [--tpcc DIR]

Needs Debian's package sysbench. Two questions, each answered as a ratio within the same round, because a shared machine
is never the same twice:

Driving. pgbench with pgdyno's functions, and with single statements, against sysbench with the same statements and
the same functions (bench/peers/tprocc.lua: written here, text protocol, as sysbench has no prepared one for them) on
clones of the same data. New orders a minute are the growth of d_next_o_id; the data are checked after every run. With
--tpcc the folder of Percona's sysbench-tpcc scripts, those are loaded and run as well.

Loading. pgdyno's COPY with indexes, check, vacuum and analyse, against sysbench's own `oltp_read_write prepare` of as
many bytes with its index and VACUUM ANALYZE, and against sysbench-tpcc where it was given: as it comes (foreign keys
in place before the rows, a fixed sleep), and without the keys. The first of these is no TPC-C loader: one short row is
all it makes, so the target is asked of sysbench-tpcc: as both come, without its sleep, and also without pgdyno's check
of the rows against conditions 1 to 12, which no peer's loader makes.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from psycopg import sql

from pgdyno.model.trial import LoadPlan, Outcome, TrialState
from pgdyno.model.verdict import Interval
from pgdyno.probes.host.cpu import parse as parse_cpu_times
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.paired import log_ratios, t_interval
from pgdyno.targets.target import Target
from pgdyno.workloads.driver_process import DriverProcess
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.tprocc.conditions import CONDITIONS, ask
from pgdyno.workloads.tprocc.rows import run_constants

LUA = Path(__file__).parent / "peers" / "tprocc.lua"
OURS, OUR_LOADER = "pgbench, functions", "pgdyno"
CPU_TARGET_S, LOAD_TARGET = 0.03, 7.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run: new orders a minute, the driver's CPU seconds for 1,000 transactions, rows that break conditions.

    `foreign_pct` is the CPU that neither server nor driver nor this program used, in percent of one core.
    """

    nopm: float
    cpu_s: float
    violations: int | None
    foreign_pct: float = 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The server and the size of the load."""

    target: Target
    folder: Path
    warehouses: int
    clients: int
    seconds: int

    @property
    def sysbench_output(self) -> Path:
        """Return the file with what the last run of sysbench said."""
        return self.folder / "sysbench.out"

    def pgbench(self, shape: str) -> Run:
        """Run pgdyno's load once on a fresh clone."""
        load = make_workload("tprocc", {"warehouses": self.warehouses, "shape": shape})
        load.prepare(self.target, progress=lambda text: None)
        dbname = load.reset(self.target)
        running = load.begin(self.target, dbname, LoadPlan(self.clients, 1, 0, self.seconds), self.folder / shape)
        try:
            result = running.finish()
        finally:
            running.terminate()
        outcome = Outcome(TrialState.COMPLETE, steady_from=result.began_at, ended_at=result.ended_at)
        found = load.examine(self.target, dbname, result, outcome)
        figures = dict(found.figures)
        broken = sum(check.violations or 0 for check in found.checks)
        return Run(figures["nopm"], 1000 * result.driver_cpu_s / result.transactions, broken)

    def sysbench(self, shape: str) -> Run:
        """Run the same transactions by sysbench once on a fresh clone."""
        load = make_workload("tprocc", {"warehouses": self.warehouses})
        load.prepare(self.target, progress=lambda text: None)
        dbname = load.reset(self.target)
        drawn_by = run_constants(1)
        words = [f"--c_{name}={getattr(drawn_by, name)}" for name in ("name", "customer", "item")]
        words += [f"--warehouses={self.warehouses}", f"--shape={shape}"]
        run = self._timed(dbname, LUA, words, "district")
        with self.target.postgres.for_load(dbname).connect() as connection:
            broken = sum(sum(counts) for _, counts in ask(connection, CONDITIONS))
        return Run(run.nopm, run.cpu_s, broken)

    def tpcc(self, scripts: Path) -> Run:
        """Run Percona's scripts once, on the data that they have loaded before; their tables cannot be checked."""
        words = [f"--scale={self.warehouses}", "--tables=1", "--trx_level=RC"]
        return self._timed("peer_tpcc", scripts / "tpcc.lua", words, "district1", cwd=scripts)

    def command(self, dbname: str, script: Path, words: Sequence[str], action: str, threads: int) -> list[str]:
        """Return sysbench's argument list."""
        given = self.target.postgres.environment(dbname)
        login = [f"--pgsql-host={given['PGHOST']}", f"--pgsql-user={given.get('PGUSER', 'postgres')}"]
        login += [f"--pgsql-port={given.get('PGPORT', '5432')}", f"--pgsql-db={dbname}", f"--threads={threads}"]
        return ["sysbench", str(script), "--db-driver=pgsql", *login, *words, action]

    def run(self, argv: Sequence[str], cwd: Path | None = None) -> tuple[float, float]:
        """Run a program to its end and return its wall and CPU seconds."""
        out, err = self.sysbench_output, self.folder / "sysbench.err"
        began = time.monotonic()
        process = DriverProcess.start(argv, environment={}, directory=cwd or self.folder, stdout=out, stderr=err)
        try:
            code = process.wait(3600)
        finally:
            process.terminate()
        if code != 0:
            raise RuntimeError(f"{argv[0]} {argv[-1]} ended with {code}: {err.read_text()}{out.read_text()[-800:]}")
        return time.monotonic() - began, process.cpu_s or 0.0

    def watched(self, arm: Callable[[], Run]) -> Run:
        """Run an arm, and tell how much CPU others took meanwhile, its preparation and its check included."""
        began, busy, known = time.monotonic(), _busy_s(), self.server_cpu_s() + _own_s()
        run = arm()
        foreign = _busy_s() - busy - (self.server_cpu_s() + _own_s() - known)
        return replace(run, foreign_pct=max(0.0, 100 * foreign / (time.monotonic() - began)))

    def server_cpu_s(self) -> float:
        """Return the CPU seconds that the server has used since it was started."""
        seconds = self.target.cpu.seconds()
        if not isinstance(seconds, float):
            raise RuntimeError(f"CPU of the server is unknown: {seconds}")
        return seconds

    def _timed(self, dbname: str, script: Path, words: Sequence[str], district: str, cwd: Path | None = None) -> Run:
        before, ended_before = self._counts(dbname, district)
        time_s = ["--events=0", f"--time={self.seconds}", "--report-interval=0"]
        _, cpu_s = self.run(self.command(dbname, script, [*words, *time_s], "run", self.clients), cwd)
        time.sleep(1)
        after, ended_after = self._counts(dbname, district)
        return Run(60 * (after - before) / self.seconds, 1000 * cpu_s / max(1, ended_after - ended_before), None)

    def _counts(self, dbname: str, district: str) -> tuple[int, int]:
        query = sql.SQL(
            "SELECT (SELECT sum(d_next_o_id) FROM {}) AS orders, xact_commit + xact_rollback AS ended"
            " FROM pg_stat_database WHERE datname = current_database()"
        )
        row = self.target.postgres.for_load(dbname).fetch(query.format(sql.Identifier(district)))[0]
        return int(str(row["orders"])), int(str(row["ended"]))


def compare_drivers(bench: Bench, rounds: int, tpcc: Path | None) -> None:
    """Print each round and the ratios to pgbench with functions in the same round."""
    arms: dict[str, Callable[[], Run]] = {
        OURS: lambda: bench.pgbench("proc"),
        "pgbench, statements": lambda: bench.pgbench("interactive"),
        "sysbench, functions": lambda: bench.sysbench("proc"),
        "sysbench, statements": lambda: bench.sysbench("interactive"),
    }
    if tpcc is not None:
        arms["sysbench-tpcc"] = lambda: bench.tpcc(tpcc)
    found: dict[str, list[Run]] = {name: [] for name in arms}
    for number in range(1, rounds + 1):
        for name in random.sample(list(arms), len(arms)):
            run = bench.watched(arms[name])
            found[name].append(run)
            broken = "not checked" if run.violations is None else f"{run.violations} violations"
            print(
                f"round {number}: {name:21} {run.nopm:9,.0f} NOPM  {run.cpu_s:.3f} s CPU/1,000  {broken}, "
                f"foreign CPU {run.foreign_pct:.0f} %",
                flush=True,
            )
    print(f"\n{'driver':21} {'NOPM, least to most':>20} {'NOPM, ratio':>20} {'CPU s/1,000':>12} {'CPU, ratio':>20}")
    for name, runs in found.items():
        span = f"{min(run.nopm for run in runs):,.0f} - {max(run.nopm for run in runs):,.0f}"
        orders, dearer = (
            ("", "") if name == OURS else (str(_ratio_of(found[OURS], runs, key)) for key in ("nopm", "cpu_s"))
        )
        print(f"{name:21} {span:>20} {orders:>20} {median(run.cpu_s for run in runs):12.3f} {dearer:>20}")
    print("ratios to the first line, within each round, with their 95 % interval")
    for name in ("sysbench, functions", "sysbench, statements"):
        ratio = _ratio_of(found[OURS], found[name], "nopm")
        word = "not resolved" if ratio.lo <= 1 < ratio.hi else _met(ratio.hi <= 1)
        print(f"as many orders as {name}, or more: {word}")
    cpu, foreign = (median(getattr(run, key) for run in found[OURS]) for key in ("cpu_s", "foreign_pct"))
    print(
        f"driver CPU: {cpu:.3f} s per 1,000 transactions beside {foreign:.0f} % foreign CPU, "
        f"target at most {CPU_TARGET_S}: {_met(cpu <= CPU_TARGET_S)}"
    )
    broken_rows = sum(run.violations or 0 for runs in found.values() for run in runs)
    print(f"rows that break a condition, all checked runs: {broken_rows}: {_met(broken_rows == 0)}")


@dataclass(frozen=True, slots=True)
class Load:
    """One load for 100 MB of finished database: wall seconds, those without a fixed sleep, CPU of client and server.

    `alone_s` is without a check of what was loaded, too.
    """

    wall_s: float
    awake_s: float
    alone_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one loader made: MB of database, CPU seconds of the client, and seconds that it slept and checked rows."""

    megabytes: float
    client_s: float
    slept_s: float = 0.0
    checked_s: float = 0.0


def compare_loaders(bench: Bench, rounds: int, tpcc: Path | None) -> None:
    """Print wall and CPU seconds of each loader, server and client together, for 100 MB of finished database.

    On a machine that others use, the CPU is what can be believed: it hardly depends on who else is there.
    """
    loaders: dict[str, Callable[[], Loaded]] = {
        OUR_LOADER: lambda: _load_ours(bench),
        "sysbench oltp": lambda: _load_oltp(bench),
    }
    if tpcc is not None:
        loaders["sysbench-tpcc"] = lambda: _load_tpcc(bench, tpcc, [])
        loaders["the same, no keys"] = lambda: _load_tpcc(bench, tpcc, ["--use_fk=0"])
    found: dict[str, list[Load]] = {name: [] for name in loaders}
    for number in range(1, rounds + 1):
        for name in random.sample(list(loaders), len(loaders)):
            began, server = time.monotonic(), bench.server_cpu_s()
            made = loaders[name]()
            seconds, spent = time.monotonic() - began, bench.server_cpu_s() - server + made.client_s
            share, awake = 100 / made.megabytes, seconds - made.slept_s
            load = Load(share * seconds, share * awake, share * (awake - made.checked_s), share * spent)
            found[name].append(load)
            for_100 = f"for 100 MB {load.wall_s:.2f} s and {load.cpu_s:.2f} s of CPU"
            pause = f", {made.slept_s:.0f} s of it asleep" if made.slept_s else ""
            pause += f", {made.checked_s:.1f} s of it a check" if made.checked_s else ""
            print(f"load {number}: {name:17} {seconds:6.1f} s{pause}, {made.megabytes:6.0f} MB; {for_100}", flush=True)
    heads = ("time, ratio", "without sleep", "nor our check", "CPU, ratio")
    print(f"\n{'loader, for as many bytes':26} " + " ".join(f"{head:>20}" for head in heads))
    for name in list(found)[1:]:
        keys = ("wall_s", "awake_s", "alone_s", "cpu_s")
        ratios = [_ratio_of(found[OUR_LOADER], found[name], key) for key in keys]
        print(f"{name:26} " + " ".join(f"{ratio!s:>20}" for ratio in ratios))
    print("ratios to pgdyno within each round, with their 95 % interval")
    if tpcc is not None:
        words = {"wall_s": "as it comes", "awake_s": "without its sleep", "alone_s": "without its sleep and our check"}
        for name in ("sysbench-tpcc", "the same, no keys"):
            for key, word in words.items():
                reached = _reached(_ratio_of(found[OUR_LOADER], found[name], key), LOAD_TARGET)
                print(f"{name}, {word}, takes {LOAD_TARGET:.0f} times as long, or more: {reached}")


def _reached(ratio: Interval, target: float) -> str:
    return "not resolved" if ratio.lo < target <= ratio.hi else _met(ratio.lo >= target)


def _slept_s(output: Path) -> int:
    """Return the fixed sleep that a loader says it makes, in seconds; 0 where it says nothing."""
    announced = re.search(r"Waiting on tables (\d+) sec", output.read_text())
    return int(announced.group(1)) if announced else 0


def _ratio_of(ours: Sequence[Run | Load], peer: Sequence[Run | Load], key: str) -> Interval:
    """Return the ratio of a peer to ours within each round."""
    return t_interval(log_ratios([getattr(run, key) for run in ours], [getattr(run, key) for run in peer]))


def _busy_s() -> float:
    """Return the CPU seconds that this host has used since it was started."""
    return parse_cpu_times(Path("/proc/stat").read_text("ascii"), os.sysconf("SC_CLK_TCK")).busy


def _own_s() -> float:
    """Return the CPU seconds of this program and of the drivers that have ended."""
    return sum(os.times()[:4])


def _load_ours(bench: Bench) -> Loaded:
    load = make_workload("tprocc", {"warehouses": bench.warehouses})
    load.drop(bench.target, template=True)
    told: list[tuple[float, str]] = []
    began = time.process_time()
    load.prepare(bench.target, progress=lambda text: told.append((time.monotonic(), text)))
    client = time.process_time() - began
    (place,) = [place for place, (_, text) in enumerate(told) if text.startswith("checking the first population")]
    (row,) = bench.target.postgres.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'pgdyno%template'")
    checked = told[place + 1][0] - told[place][0]
    return Loaded(_megabytes(bench, str(row["datname"])), client, checked_s=checked)


def _load_oltp(bench: Bench) -> Loaded:
    tables, rows = 8, 1_750_000 * bench.warehouses // 4
    _fresh(bench, "peer_oltp")
    words = [f"--tables={tables}", f"--table-size={rows // tables}"]
    script = Path("/usr/share/sysbench/oltp_read_write.lua")
    _, client = bench.run(bench.command("peer_oltp", script, words, "prepare", os.cpu_count() or 1))
    bench.target.postgres.execute("VACUUM ANALYZE", dbname="peer_oltp")
    return Loaded(_megabytes(bench, "peer_oltp"), client)


def _load_tpcc(bench: Bench, scripts: Path, options: Sequence[str]) -> Loaded:
    _fresh(bench, "peer_tpcc")
    words = [f"--scale={bench.warehouses}", "--tables=1", *options]
    command = bench.command("peer_tpcc", scripts / "tpcc.lua", words, "prepare", os.cpu_count() or 1)
    _, client = bench.run(command, cwd=scripts)
    bench.target.postgres.execute("VACUUM ANALYZE", dbname="peer_tpcc")
    return Loaded(_megabytes(bench, "peer_tpcc"), client, slept_s=_slept_s(bench.sysbench_output))


def _fresh(bench: Bench, dbname: str) -> None:
    name = sql.Identifier(dbname)
    bench.target.postgres.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
    bench.target.postgres.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))


def _megabytes(bench: Bench, dbname: str) -> float:
    row: Mapping[str, object] = bench.target.postgres.fetch("SELECT pg_database_size(%s::text) AS bytes", [dbname])[0]
    return float(str(row["bytes"])) / 1e6


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"


def main() -> None:
    """Parse the arguments and run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--only", choices=("driving", "loading"), help="answer one of the two questions")
    parser.add_argument("--tpcc", type=Path, help="folder of Percona's sysbench-tpcc scripts")
    given = parser.parse_args()
    if given.rounds < 2:
        parser.error("an interval needs two rounds")
    if shutil.which("sysbench") is None:
        sys.exit("sysbench is not installed: apt-get install sysbench")
    scripts = None if given.tpcc is None else given.tpcc.absolute()
    with tempfile.TemporaryDirectory(prefix="pgdyno-peers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        sandbox = Sandbox.open_or_create("peers", root=folder)
        try:
            sandbox.start()
            bench = Bench(sandbox.target(), folder, given.warehouses, given.clients, given.seconds)
            if given.only != "driving":
                compare_loaders(bench, given.rounds, scripts)
            if given.only != "loading":
                compare_drivers(bench, given.rounds, scripts)
        finally:
            sandbox.destroy()


if __name__ == "__main__":
    main()
