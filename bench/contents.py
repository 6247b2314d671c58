"""How long `compare --data` and `migrate validate` take beside reading both sides once by COPY, in turn, on a sandbox.

python bench/contents.py [--rows 2000000] [--rounds 3] [-j 1]
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import psycopg

from pgdyno.contents.comparing import compare_contents
from pgdyno.migration.validation.comparing import compare_databases
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres

TABLES = ("accounts", "docs")
MADE = """
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, balance int, filler char(84));
INSERT INTO accounts SELECT n, n / 100000, 0, '' FROM generate_series(1, {rows}) AS n;
CREATE TABLE docs (name text PRIMARY KEY, at timestamptz, price numeric, note jsonb);
INSERT INTO docs SELECT md5(n::text), now(), n / 7.0, '{{"a": [1, 2, 3]}}' FROM generate_series(1, {rows} / 4) AS n;
"""


def copied(server: Postgres, table: str) -> None:
    """Read all rows of a table once."""
    words = ["psql", "-qX", server.conninfo, "-c", f"COPY public.{table} TO STDOUT"]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


def read_once(a: Postgres, b: Postgres, jobs: int) -> None:
    """Read both sides, `jobs` tables of each at a time."""
    with ThreadPoolExecutor(jobs) as first, ThreadPoolExecutor(jobs) as second:
        running = [pool.submit(copied, side, table) for pool, side in ((first, a), (second, b)) for table in TABLES]
        for one in running:
            one.result()


def main() -> None:
    """Print a line a round."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    asked = parser.parse_args()
    folder = Path(mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    sandbox = Sandbox.open_or_create("bench-contents", root=folder)
    try:
        sandbox.start()
        whole = sandbox.target().postgres
        whole.execute("CREATE DATABASE a")
        a, b = whole.in_database("a"), whole.in_database("b")
        with psycopg.connect(a.conninfo, autocommit=True) as connection:
            connection.execute(MADE.format(rows=asked.rows))
            connection.execute("VACUUM ANALYZE")
        whole.execute("CREATE DATABASE b TEMPLATE a")
        for turn in range(asked.rounds):
            if turn == asked.rounds - 1:
                b.execute("UPDATE public.accounts SET balance = 1 WHERE aid = 7")
            moments = [time.monotonic()]
            read_once(a, b, asked.jobs)
            moments.append(time.monotonic())
            compare_contents(a, b, jobs=asked.jobs)
            moments.append(time.monotonic())
            found = compare_databases(a, b, jobs=asked.jobs)
            moments.append(time.monotonic())
            copy_s, rows_s, all_s = (after - before for before, after in pairwise(moments))
            ratios = f"{rows_s / copy_s:.2f}x, validate {all_s:.1f} s, {all_s / copy_s:.2f}x"
            print(f"COPY {copy_s:.1f} s, compare {rows_s:.1f} s, {ratios}; {len(found.findings)} differences")
    finally:
        sandbox.destroy()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
