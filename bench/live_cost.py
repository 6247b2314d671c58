"""What it costs to watch a live server with 5,000 statements (row L11): CPU of both sides, and transactions a second.

    python bench/live_cost.py [--pairs 60] [--seconds 5] [--folder ~/pgdyno-live-cost]

Readings are those of a live study in an arm: statements and housework every 2 s, sessions twice a second. A pair is two
stretches of one `pgbench -S`, with and without them, in an order by coin: from one pgbench to the next the transactions
differ by 7 % without any reading, within one by 2 % except for a few leaps, hence an interval by ranks. Each pair has a
line in the folder's pairs.jsonl, and the same command later goes on; 60 pairs take 13 min. Pairs with others above 5 %
of the CPUs are told apart: they say nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from live_real import MOST_FOREIGN, busy_of, foreign_between, read_rows
from pgdyno.probes.statements import StatementReader
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import client_bin_dir
from pgdyno.server.postgres import Postgres
from pgdyno.studies.live.server_world import SESSIONS_S
from pgdyno.trial.live_guards import STEP_S
from sampling import signed_rank_interval

ENTRIES, ROOM = 5000, 20_000
SERVER_PCT, CLIENT_PCT, INSIDE = 1.0, 0.5, (0.98, 1.02)
PAIRS, FEWEST = 6, 15
"""Of one pgbench; and those below which an interval by ranks says nothing."""
_TPS = re.compile(r", ([\d.]+) tps")


def read_when_asked(conninfo: str) -> None:
    """Read as a live study does for as many seconds as each line of the input says, and answer with the CPU it took."""
    reader = StatementReader(Postgres(conninfo))
    reader.open()
    reader.statements()
    print(0.0, flush=True)
    for line in sys.stdin:
        began, before = time.monotonic(), time.process_time()
        for step in range(round(float(line) / SESSIONS_S)):
            time.sleep(max(0.0, began + step * SESSIONS_S - time.monotonic()))
            reader.sessions(0.0, math.inf)
            if step % round(STEP_S / SESSIONS_S) == 0:
                reader.statements()
                reader.housework()
        print(time.process_time() - before, flush=True)


def prepare(sandbox: Sandbox, scale: int = 10) -> None:
    """Give the server its statements and its data; the load's own come on top."""
    postgres = sandbox.target().postgres
    postgres.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public", None, "postgres")
    postgres.execute(alter_system(Line("pg_stat_statements.max", str(ROOM))), None, "postgres")
    sandbox.stop()
    sandbox.start()
    with postgres.connect("postgres") as session:
        session.execute("SELECT public.pg_stat_statements_reset()")
        found = session.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = 'cost_app'").fetchone()
        if found is None:  # a row without columns is false
            session.execute("CREATE ROLE cost_app LOGIN SUPERUSER")
        session.execute("SET ROLE cost_app")
        for one in itertools.islice(itertools.product("+-", repeat=13), ENTRIES):
            session.execute("SELECT 1" + "1".join(("", *one, "")))
    made = _pgbench(sandbox, "-i", "-q", "-s", str(scale))
    _, said = made.communicate()
    assert made.returncode == 0, said


def one_run(number: int, sandbox: Sandbox, seconds: int) -> list[dict[str, object]]:
    """Run a pgbench of PAIRS pairs, then read an idle server, and return the figures of each pair.

    Those are transactions a second, and CPU of a core while nothing else was asked, the same in all pairs of a run.
    """
    target, draw = sandbox.target(), random.Random(number)
    before, seen = busy_of(target), list[tuple[float, float]]()
    stretches = list[dict[bool, tuple[float, float]]]()
    with _reading(target.postgres.conninfo) as reader:
        _ask(reader)
        bench = _pgbench(sandbox, "-S", "-n", "-T", str(PAIRS * 2 * seconds + 4), "-c", "2", "-j", "2", "-P", "1")
        assert bench.stderr is not None
        noting = threading.Thread(target=_note, args=(bench.stderr, seen))
        noting.start()
        time.sleep(2)
        for _ in range(PAIRS):
            began = {}
            for watched in draw.sample([True, False], 2):
                since = time.monotonic()
                if watched:
                    _ask(reader, seconds)
                time.sleep(max(0.0, since + seconds - time.monotonic()))
                began[watched] = (since, time.monotonic())
            stretches.append(began)
        noting.join()
        bench.communicate()
        idle, cpu = target.cpu.seconds(), time.monotonic()
        client = _ask(reader, 10 * STEP_S)
        took = time.monotonic() - cpu
        now = target.cpu.seconds()
        reader.communicate()
    foreign = foreign_between(before, busy_of(target))
    server = now - idle if isinstance(now, float) and isinstance(idle, float) else math.nan
    shared = {"foreign": foreign, "server_pct": 100 * server / took, "client_pct": 100 * client / took}
    rows = list[dict[str, object]]()
    for began in stretches:
        rate = {
            arm: statistics.fmean(tps for at, tps in seen if since + 1 <= at <= until)
            for arm, (since, until) in began.items()
        }
        rows.append({"ratio": rate[True] / rate[False], "tps": rate[False], **shared})
    return rows


def _note(lines: IO[str], seen: list[tuple[float, float]]) -> None:
    """Keep when each second of pgbench was told, and its transactions."""
    for line in lines:
        if found := _TPS.search(line):
            seen.append((time.monotonic(), float(found[1])))


def _ask(reader: subprocess.Popen[str], seconds: float | None = None) -> float:
    """Let it read for so long, and return its CPU seconds; without a figure wait until it is ready."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    if seconds is not None:
        reader.stdin.write(f"{seconds}\n")
        reader.stdin.flush()
    return float(reader.stdout.readline())


def _reading(conninfo: str) -> subprocess.Popen[str]:
    argv = [sys.executable, __file__, "--read", conninfo]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _pgbench(sandbox: Sandbox, *words: str) -> subprocess.Popen[str]:
    folder = client_bin_dir(None)
    assert folder is not None, "there is no pgbench"
    argv = [str(folder / "pgbench"), *words, sandbox.target().postgres.conninfo + " user=cost_app dbname=postgres"]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def summary(rows: Sequence[dict[str, object]]) -> str:
    """Return what the quiet pairs came to, and what the others would say."""
    told = []
    for quiet in (True, False):
        mine = [row for row in rows if (isinstance(row["foreign"], float) and row["foreign"] < MOST_FOREIGN) is quiet]
        if not mine:
            continue
        ratios = [float(str(row["ratio"])) for row in mine]
        server, client = (sorted(float(str(row[name])) for row in mine)[len(mine) // 2]
                          for name in ("server_pct", "client_pct"))  # fmt: skip
        span = signed_rank_interval([math.log(ratio) for ratio in ratios])
        inside = len(mine) >= FEWEST and INSIDE[0] <= span.lo and span.hi <= INSIDE[1]
        met = inside and server <= SERVER_PCT and client <= CLIENT_PCT
        told.append(
            f"{len(mine)} {'quiet' if quiet else 'disturbed'} pairs: transactions a second watched/not {span}; "
            f"of a core {server:.2f} % on the server, {client:.2f} % here"
            + (f": {'met' if met else 'NOT MET'}" if quiet else "; they say nothing")
        )
    return "\n".join(told)


def main() -> None:
    """Run pairs, and print what all in the folder came to."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is stopped then, too
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path.home() / "pgdyno-live-cost")
    parser.add_argument("--read", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read_when_asked(given.read)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PGDYNO_HOME"] = str(given.folder / "home")
    path, sandbox = given.folder / "pairs.jsonl", Sandbox.open_or_create("live-cost")
    sandbox.start()
    try:
        prepare(sandbox)
        for number in range(len(read_rows(path)), given.pairs, PAIRS):
            rows = one_run(number, sandbox, given.seconds)
            with path.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            print(f"{number + len(rows)}: {rows[-1]}", flush=True)
    finally:
        sandbox.stop()
    print(summary(read_rows(path)))


if __name__ == "__main__":
    main()
