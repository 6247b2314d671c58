"""How long `compare --replay` takes and how much memory, for a million transactions: made by DuckDB, read by us.

python bench/replay_compare.py [--transactions 1000000] [--statements 4] [--again]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pgdyno.trace import schema
from pgdyno.trace.schema import TraceColumn

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

TRACE = """
SELECT (n // per % 200)::INTEGER AS session, (n // per // 200 * per + n % per)::INTEGER AS seq, 'extended' AS kind,
  n * 100 AS due_us, n * 100 + base AS end_us, 10::BIGINT AS parse_us, 10::BIGINT AS bind_us, base AS execute_us,
  '' AS statement, 'select ' || class || ' from t where a = $1' AS sql, [n::VARCHAR] AS params,
  (n // per // 200)::INTEGER AS tx, printf('%016x', (class + 1) * 1234567890123) AS fingerprint,
  NULL::VARCHAR AS sqlstate, NULL::VARCHAR AS refused
FROM (SELECT range AS n, getvariable('per') AS per, range % per + range // per % 7 * per AS class,
  (500 * (1 + random()))::BIGINT AS base FROM range(getvariable('rows'))) ORDER BY due_us"""
OUTCOME = """
SELECT session, seq, due_us, due_us + lag AS sent_us, due_us + lag + took AS done_us, lag AS injector_us,
  0::BIGINT AS gate_us, 0::BIGINT AS server_us, 1::BIGINT AS rows,
  CASE WHEN random() < 0.002 THEN '40001' END AS sqlstate
FROM (SELECT session, seq, due_us, (random() * 100)::BIGINT AS lag, (execute_us * (5 + random() * 2)
  * CASE WHEN seq % getvariable('per') = 1 THEN getvariable('factor') ELSE 1 END)::BIGINT AS took FROM trace)"""


def whole(query: str, columns: Sequence[TraceColumn], db: DuckDBPyConnection) -> DuckDBPyRelation:
    """Return what a query gives, with NULL for the columns that it does not name."""
    given = db.sql(query)
    rest = [f'NULL::{one.type} AS "{one.name}"' for one in columns if one.name not in given.columns]
    return given.project(", ".join(["*", *rest]))


def make(folder: Path, transactions: int, statements: int) -> None:
    """Write a trace and three outcomes of a load whose classes differ; in B a quarter of them are 30 % slower."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "2GB", "temp_directory": str(folder)}
    with duckdb.connect(config=settings) as db:
        db.execute("SET enable_progress_bar = false; SELECT setseed(0.5)")
        db.execute("SET VARIABLE per = ?", [statements])
        db.execute("SET VARIABLE rows = ?", [transactions * statements])
        whole(TRACE, schema.TRACE, db).write_parquet(str(folder / "trace.parquet"))
        db.read_parquet(str(folder / "trace.parquet")).create_view("trace")
        for name, factor in (("a", 1.0), ("b", 1.3), ("again", 1.0)):
            (folder / name).mkdir()
            db.execute("SET VARIABLE factor = ?", [factor])
            whole(OUTCOME, schema.OUTCOME, db).write_parquet(str(folder / name / "part-0.parquet"))


def main() -> int:
    """Make the files, compare them in a process of its own, and print seconds and megabytes."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--transactions", type=int, default=1_000_000)
    options.add_argument("--statements", type=int, default=4)
    options.add_argument("--again", action="store_true")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    with TemporaryDirectory(dir="/var/tmp") as temporary:
        folder = given.folder or Path(temporary)
        if not (folder / "trace.parquet").exists():
            make(folder, given.transactions, given.statements)
        code = (
            "import sys; from pathlib import Path; from pgdyno.trace.comparing import compare_replay\n"
            "from pgdyno.trace.compared_rows import ReplaySide\n"
            "f = Path(sys.argv[1]); s = lambda n: ReplaySide(n, (f / n / 'part-0.parquet',))\n"
            "r = compare_replay(f / 'trace.parquet', s('a'), s('b'), again=s('again') if sys.argv[2] else None)\n"
            "print(r.sentence); print(r.transactions, [one.word.value for one in r.statements.classes])\n"
            "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
        )
        begin = time.perf_counter()
        argv = [sys.executable, "-c", code, str(folder), "again" if given.again else ""]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as the program itself
        *said, peak_kib = subprocess.run(
            argv, check=True, env=env, stdout=subprocess.PIPE, text=True
        ).stdout.splitlines()  # ru_maxrss would be that of the bench, from before it became this one
        taken = time.perf_counter() - begin
        print(*said, sep="\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{given.transactions:,} transactions of {given.statements} statements: {taken:.1f} s, "
          f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {int(peak_kib) / 1024:.0f} MB")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
