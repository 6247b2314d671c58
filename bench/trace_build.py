"""What a trace costs: megabytes of csvlog in a second of one CPU, and peak memory, by style and size of the log.

    python bench/trace_build.py [--sizes 64 1024] [--transactions 400] [--builder compiled python] [--styles B A]

A sandbox writes one log of each style under pgbench's TPC-B-like load, half of it simple, half prepared; it is repeated
under other session numbers up to each size. Every build is a process of its own, styles and builders in
turn; of the compiled one both processes are counted. What DuckDB takes to
read the records alone stands beside it, so that a busy machine is seen. Disk: three times the largest size.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from psycopg import sql

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.workloads.registry import make_workload

MB = 1_000_000
_SESSION = re.compile(rb",([0-9a-f]{8})\.([0-9a-f]+),(\d+),")
_BUILD = """
import resource, sys
from pathlib import Path
from pgdyno.trace.build import BuildOptions, build_trace
meta = build_trace([Path(sys.argv[1])], Path(sys.argv[2]), BuildOptions(builder=sys.argv[3]))
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
# ru_maxrss of the process itself would be that of the bench, from before it became this one
own = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(meta.statements, sum(one.ru_utime + one.ru_stime for one in used), (own + used[1].ru_maxrss) / 1024)
"""
_READ = """
import resource, sys
from pgdyno.trace.lines import csv_source
from pgdyno.trace.parquet import connection
with connection() as db:
    db.execute("SELECT count(*), max(length(msg)) FROM " + csv_source(sys.argv[1], 26, 4 << 20)).fetchall()
used = resource.getrusage(resource.RUSAGE_SELF)
print(0, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def write_log(sandbox: Sandbox, style: str, transactions: int, *, rate: int | None = None) -> Path:
    """Run the load with the logging of a style, at a rate or as fast as it can; return the log."""
    target = sandbox.target()
    settings = {
        "logging_collector": "on", "log_destination": "csvlog", "log_directory": "log", "log_filename": f"{style}.log",
        "log_min_duration_statement": "0", "log_statement": "all" if style == "A" else "none", "log_timezone": "UTC",
        "log_connections": "on", "log_disconnections": "on", "log_rotation_size": "0",
    }  # fmt: skip
    workload = make_workload("tpcb-like", {"scale": 2})
    workload.prepare(target, progress=print)
    dbname = workload.reset(target)
    for name, value in settings.items():
        target.postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    sandbox.stop()
    sandbox.start()
    for mode in ("simple", "prepared"):
        argv = [str(target.program("pgbench")), "-n", "-M", mode, "-c", "10", "-j", "1", "-t", str(transactions)]
        argv += [] if rate is None else ["-R", str(rate)]
        target.runner.run([*argv, dbname], env=target.postgres.environment(dbname))
    sandbox.stop()
    return sandbox.data_directory / "log" / f"{style}.csv"


def repeated(log: Path, place: Path, size: int) -> int:
    """Write a log again and again, with sessions of its own each time, up to a size; return the bytes."""
    once = log.read_bytes()
    written = 0
    with place.open("wb") as file:
        for turn in range(1 << 12):
            if written >= size:
                break
            mark = f"{turn:03x}".encode()
            written += file.write(_SESSION.sub(rb",\g<1>.\g<2>" + mark + rb",\g<3>,", once))
    return written


def measured(script: str, *words: str) -> tuple[int, float, float]:
    """Run a script; return statements, CPU seconds and peak memory in MB."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as the program itself
    done = subprocess.run(
        [sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True, check=True, env=env
    )
    statements, cpu, memory = done.stdout.split()
    return int(statements), float(cpu), float(memory)


def main() -> None:
    """Parse the arguments and run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 1024], help="MB of log")
    parser.add_argument("--transactions", type=int, default=400, help="of each client of the log that is repeated")
    parser.add_argument("--builder", nargs="+", choices=("compiled", "python"), default=["compiled", "python"])
    parser.add_argument("--styles", nargs="+", choices=("B", "A"), default=["B", "A"])
    parser.add_argument("--folder", type=Path, default=None, help="where the logs are written")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        place, out = Path(folder) / "load.csv", Path(folder) / "load.parquet"
        for style in arguments.styles:
            sandbox = Sandbox.open_or_create(f"bench-trace-{style.lower()}")
            try:
                sandbox.start()
                log = Path(folder) / f"{style}.csv"
                log.write_bytes(write_log(sandbox, style, arguments.transactions).read_bytes())
            finally:
                sandbox.destroy()
        for size in arguments.sizes:
            for style in arguments.styles:
                written = repeated(Path(folder) / f"{style}.csv", place, size * MB)
                _, reading, _ = measured(_READ, str(place))
                for builder in arguments.builder:
                    statements, cpu, memory = measured(_BUILD, str(place), str(out), builder)
                    print(f"style {style}, {written / MB:7.0f} MB, {statements:9,} statements, {builder:8}:", end=" ")
                    print(f"{written / MB / cpu:5.1f} MB/CPU-s, {memory:4.0f} MB peak, trace", end=" ")
                    print(
                        f"{out.stat().st_size / MB:.1f} MB; records by DuckDB alone {written / MB / reading:5.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
