"""Whether the time of a migration of the full size is in the forecast from smaller ones, on real servers.

python bench/forecast.py [--rows 250000 750000] [--runs 4] [--most 6] [--full 5] [--source-bin DIR]

Rehearses each size so many times by dump and restore, from a server of its own to the sandbox, the sizes in turn, and
again while the interval is wider than a factor of 1.5, `--most` times at most; then the full size, that many times
the largest, once. Exit code 0 where its time is in an interval that is narrow enough, 3 in one that is wider, 1 where
it is in none. Two runs of each size are the least that there is a forecast from; four allow nearly twice the scatter.
The folder of the servers is below /var/tmp, and removed at the end, however that comes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import psycopg

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.results.migrate import MigrateResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.migrate.forecast import forecast_of

MADE = """
CREATE TABLE customer (id int PRIMARY KEY, name text);
INSERT INTO customer SELECT n, md5(n::text) FROM generate_series(1, {rows} / 10) AS n;
CREATE TABLE entry (id bigint PRIMARY KEY, customer int REFERENCES customer, at timestamptz, note text);
INSERT INTO entry SELECT n, 1 + n % ({rows} / 10), now(), md5(n::text) FROM generate_series(1, {rows}) AS n;
CREATE INDEX ON entry (customer); CREATE INDEX ON entry (note);
"""


def main() -> int:
    """Print a line a rehearsal, then the forecast and whether the full size is in it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 750_000])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--full", type=int, default=5)
    parser.add_argument("--source-bin", type=Path)
    asked = parser.parse_args()
    try:
        with ExitStack() as stack:
            return forecast_and_full(asked, stack)
    except PgdynoError as error:
        sys.exit(f"error: {error.one_line}")


def forecast_and_full(asked: argparse.Namespace, stack: ExitStack) -> int:
    """Rehearse small sizes, then the full one; `stack` takes what has to be removed."""
    folder = Path(mkdtemp(dir="/var/tmp", prefix=f"bench-forecast-{os.getpid()}-"))
    stack.callback(shutil.rmtree, folder)
    folder.chmod(0o755)
    os.environ |= {"PGDYNO_HOME": str(folder), "PGDYNO_STORE": str(folder / "store.db")}
    source = Sandbox.open_or_create("bench-forecast", bin_dir=asked.source_bin, root=folder)
    stack.callback(source.destroy)
    stop = [sys.executable, "-m", "pgdyno", "sandbox", "stop"]
    stack.callback(subprocess.run, stop, stderr=subprocess.DEVNULL, check=False)
    source.start()
    server = source.target().postgres
    full = asked.full * max(asked.rows)
    for rows in (*asked.rows, full):
        server.execute(f"CREATE DATABASE of_{rows}")
        with psycopg.connect(server.conninfo, dbname=f"of_{rows}", autocommit=True) as session:
            session.execute(MADE.format(rows=rows))
            session.execute("VACUUM ANALYZE")
            session.execute("CHECKPOINT")
    small = [rehearsed(folder, server.conninfo, rows) for _ in range(asked.runs) for rows in asked.rows]
    size = size_of(server.conninfo, full)
    while (found := forecast_of(small, size).forecast) is not None and not found.is_narrow:
        if len(small) >= asked.most * len(asked.rows):
            break
        small += [rehearsed(folder, server.conninfo, rows) for rows in asked.rows]
    actual = rehearsed(folder, server.conninfo, full).total_s or 0.0
    print("\n".join(forecast_of(small, size).lines()))
    if found is None or not found.low_s <= actual <= found.high_s:
        print(f"the full size took {actual:.1f} s, which is NOT IN the interval")
        return 1
    wide = "" if found.is_narrow else " that is wider than is asked"
    print(f"the full size took {actual:.1f} s, which is in {'the' if found.is_narrow else 'an'} interval{wide}")
    return 0 if found.is_narrow else 3


def size_of(source: str, rows: int) -> int:
    """Return the bytes of a database of the source."""
    with psycopg.connect(source, dbname=f"of_{rows}") as session:
        (size,) = session.execute("SELECT pg_catalog.pg_database_size(pg_catalog.current_database())").fetchone() or (
            0,
        )
    return int(size)


def rehearsed(folder: Path, source: str, rows: int) -> MigrateResult:
    """Rehearse one size, and return what it came to."""
    plan = folder / "plan.toml"
    words = psycopg.conninfo.make_conninfo(source, dbname=f"of_{rows}")
    plan.write_text(
        f'version = 1\n[migration]\nname = "bench"\nsource = {json.dumps(words)}\nfolder = "{folder}/dumps"\n'
    )
    plan.chmod(0o600)
    argv = [sys.executable, "-m", "pgdyno", "migrate", "rehearse", str(plan), "--apply", "--yes"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentUnsuitable(f"the rehearsal of {rows:,} rows failed", detail=done.stderr.strip())
    with Store.open(folder / "store.db") as store:
        result = store.studies()[0].told(MigrateResult)
    assert result is not None
    print(f"{rows:,} rows, {result.source_bytes:,} bytes: {result.total_s:.2f} s", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
