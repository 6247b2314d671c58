"""What it costs to watch a live server with 5,000 statements (row L11): CPU of both sides, and transactions a second.

    python bench/live_cost.py [--pairs 12] [--seconds 30] [--folder ~/pgdyno-live-cost]

Readings are those of a live study in an arm: statements and housework every 2 s, sessions twice a second. A pair is
`pgbench -S` with and without them, in an order by coin. Each pair has a line in the folder's pairs.jsonl, and the same
command later goes on; 12 pairs take 14 min. Pairs with others above 5 % of the CPUs are told apart: they say nothing.
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
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from live_real import MOST_FOREIGN, busy_of, foreign_between, read_rows
from pgdyno.model.verdict import Metric
from pgdyno.probes.statements import StatementReader
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import client_bin_dir
from pgdyno.server.postgres import Postgres
from pgdyno.stats.sequential import Design, judge
from pgdyno.studies.live.server_world import SESSIONS_S
from pgdyno.trial.live_guards import STEP_S

ENTRIES, ROOM = 5000, 20_000
SERVER_PCT, CLIENT_PCT, INSIDE = 1.0, 0.5, (0.98, 1.02)
_TPS = re.compile(r"tps = ([\d.]+)")


def read_for(conninfo: str, seconds: float) -> None:
    """Read as a live study does for so long, and print how much CPU that took here."""
    reader = StatementReader(Postgres(conninfo))
    reader.open()
    reader.statements()
    began, before, step = time.monotonic(), time.process_time(), 0
    while time.monotonic() - began < seconds:
        reader.sessions(0.0, math.inf)
        if step % round(STEP_S / SESSIONS_S) == 0:
            reader.statements()
            reader.housework()
        step += 1
        time.sleep(max(0.0, began + step * SESSIONS_S - time.monotonic()))
    print(time.process_time() - before)


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
    _pgbench(sandbox, "-i", "-q", "-s", str(scale))


def one_pair(number: int, sandbox: Sandbox, seconds: int) -> dict[str, object]:
    """Run a pair, and return its figures: transactions a second, and CPU of a core while nothing else was asked."""
    target, draw = sandbox.target(), random.Random(number)
    before, found = busy_of(target), {}
    for watched in draw.sample([True, False], 2):
        reading = _reading(target.postgres.conninfo, seconds + 2) if watched else None
        said = _pgbench(sandbox, "-S", "-n", "-T", str(seconds), "-c", "2", "-j", "2")
        found[watched] = float((_TPS.search(said) or ["", "nan"])[1])
        if reading is not None:
            reading.communicate()
    foreign = foreign_between(before, busy_of(target))
    idle, cpu = target.cpu.seconds(), time.monotonic()
    out, _ = _reading(target.postgres.conninfo, seconds).communicate()
    took = time.monotonic() - cpu
    now = target.cpu.seconds()
    server = now - idle if isinstance(now, float) and isinstance(idle, float) else math.nan
    row = {"ratio": found[True] / found[False], "tps": found[False], "foreign": foreign}
    return {**row, "server_pct": 100 * server / took, "client_pct": 100 * float(out) / took}


def _reading(conninfo: str, seconds: float) -> subprocess.Popen[str]:
    argv = [sys.executable, __file__, "--read", conninfo, "--seconds", str(int(seconds))]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def _pgbench(sandbox: Sandbox, *words: str) -> str:
    folder = client_bin_dir(None)
    assert folder is not None, "there is no pgbench"
    argv = [str(folder / "pgbench"), *words]
    conninfo = sandbox.target().postgres.conninfo + " user=cost_app dbname=postgres"
    done = subprocess.run([*argv, conninfo], capture_output=True, text=True, check=True)
    return done.stdout


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
        verdict = judge(
            [1.0] * len(ratios), ratios, metric=Metric.THROUGHPUT, design=Design(max_pairs=max(3, len(ratios)))
        )
        span = verdict.interval
        met = INSIDE[0] <= span.lo and span.hi <= INSIDE[1] and server <= SERVER_PCT and client <= CLIENT_PCT
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
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=Path.home() / "pgdyno-live-cost")
    parser.add_argument("--read", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read_for(given.read, given.seconds)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PGDYNO_HOME"] = str(given.folder / "home")
    path, sandbox = given.folder / "pairs.jsonl", Sandbox.open_or_create("live-cost")
    sandbox.start()
    try:
        prepare(sandbox)
        for number in range(len(read_rows(path)), given.pairs):
            row = one_pair(number, sandbox, given.seconds)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{number + 1}: {row}", flush=True)
    finally:
        sandbox.stop()
    print(summary(read_rows(path)))


if __name__ == "__main__":
    main()
