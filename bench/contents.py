"""How long `compare --data` takes beside reading both sides once by COPY, interleaved, on a sandbox of its own.

python bench/contents.py [--rows 2000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp

import psycopg

from pgdyno.contents.comparing import compare_contents
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres

MADE = """
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, balance int, filler char(84));
INSERT INTO accounts SELECT n, n / 100000, 0, '' FROM generate_series(1, {rows}) AS n;
CREATE TABLE docs (name text PRIMARY KEY, at timestamptz, price numeric, note jsonb);
INSERT INTO docs SELECT md5(n::text), now(), n / 7.0, '{{"a": [1, 2, 3]}}' FROM generate_series(1, {rows} / 4) AS n;
"""


def copied(server: Postgres) -> None:
    """Read all rows once."""
    for table in ("accounts", "docs"):
        words = ["psql", "-qX", server.conninfo, "-c", f"COPY public.{table} TO STDOUT"]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Print a line a round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
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
            with ThreadPoolExecutor(2) as both:
                list(both.map(copied, (a, b)))
            moments.append(time.monotonic())
            found = compare_contents(a, b)
            copy_s, compare_s = moments[1] - moments[0], time.monotonic() - moments[1]
            ratio, differ = compare_s / copy_s, len(found.different)
            print(f"COPY {copy_s:.1f} s, compare {compare_s:.1f} s, {ratio:.2f}x; {differ} tables differ")
    finally:
        sandbox.destroy()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
