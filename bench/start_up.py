"""Time the verbs that a user waits for before anything is measured: CPU of the whole process, children included.

    python bench/start_up.py [--rounds 5] [--against SRC] [--tables 10000] [--statements 5000] [--only WORD]

`inspect` and `advise` run on a sandbox with so many tables and so many statements in pg_stat_statements; `serve` until
its first page is answered. `--against` names the `src` folder of another version: both are run in turns, in an order
drawn anew each round, compiled beforehand, and the last column is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import compileall
import http.client
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pgdyno.sandbox.sandbox import Sandbox

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "--version": ("--version",),
    "bench --dry-run": ("bench", "--dry-run", "-w", "select-only", "-D", "scale=2"),
    "serve, first page": ("serve", "--port", "{port}"),
    "inspect": ("inspect", "--target", "{target}"),
    "advise": ("advise", "--target", "{target}"),
}
HERE = Path(__file__).resolve().parent.parent / "src"


def fill(sandbox: Sandbox, tables: int, statements: int) -> None:
    """Make the tables, and let pg_stat_statements see the statements: each has another shape, not another constant."""
    conf = sandbox.data_directory / "postgresql.conf"
    conf.write_text(
        f"{conf.read_text()}\nshared_preload_libraries = pg_stat_statements\nmax_locks_per_transaction = 512\n"
    )
    sandbox.start()
    postgres = sandbox.target().postgres
    with postgres.connect() as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for first in range(0, tables, 1000):
            made = (f"CREATE TABLE public.t{number} (id int)" for number in range(first, min(first + 1000, tables)))
            session.execute(";".join(made).encode())
        for number in range(statements):
            session.execute(f"SELECT 1 AS a{number}".encode())


def cpu_of(words: tuple[str, ...], source: Path, home: Path) -> tuple[float, float]:
    """Run it once; return CPU and wall seconds. Raises SystemExit with what it said when it fails."""
    environment = os.environ | {"PYTHONPATH": str(source), "PGDYNO_HOME": str(home)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        if words[0] == "serve":
            ask_for_a_page(process)
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()  # does nothing to one that has ended
    if process.returncode not in (0, 1):
        sys.exit(f"pgdyno {' '.join(words)} ended with {process.returncode}: {said.decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def ask_for_a_page(process: subprocess.Popen[bytes]) -> None:
    """Wait until `serve` says where it listens, and read that page."""
    assert process.stdout is not None
    url = next(line.split()[-1] for line in process.stdout if b"http://" in line).decode()
    page = urlsplit(url)
    connection = http.client.HTTPConnection(page.netloc, timeout=30)
    connection.request("GET", page.path or "/")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == http.HTTPStatus.OK, answer.reason


def main() -> None:
    """Parse the flags, make the server, run the verbs in turns and print."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", metavar="SRC", type=Path, help="folder of other sources of pgdyno, run in turns")
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--statements", type=int, default=5_000)
    parser.add_argument("--only", default="", help="the verbs that hold this word")
    parser.add_argument("--port", default="8766")
    options = parser.parse_args()
    sides = [HERE] + ([options.against.resolve()] if options.against else [])
    for side in sides:
        compileall.compile_dir(side, quiet=1)
    with TemporaryDirectory(prefix="pgdyno-start-up-", dir="/var/tmp") as name:
        home = Path(name)
        home.chmod(0o755)
        sandbox = Sandbox.open_or_create("large", root=home)
        try:
            fill(sandbox, options.tables, options.statements)
            values = {"port": options.port, "target": sandbox.target().postgres.conninfo}
            for label, words in COMMANDS.items():
                if options.only in label:
                    report(label, tuple(word.format_map(values) for word in words), sides, home, options.rounds)
        finally:
            sandbox.destroy()


def report(label: str, words: tuple[str, ...], sides: list[Path], home: Path, rounds: int) -> None:
    """Run one verb in turns and print a line."""
    cpu: dict[Path, list[float]] = {side: [] for side in sides}
    wall: dict[Path, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in random.sample(sides, len(sides)):
            spent, passed = cpu_of(words, side, home / side.parent.name)
            cpu[side].append(spent)
            wall[side].append(passed)
    text = "  ".join(f"{median(cpu[side]):.2f} s CPU, {median(wall[side]):.2f} s" for side in sides)
    ratio = f"  {median(cpu[sides[0]]) / median(cpu[sides[1]]):.2f}x" if len(sides) > 1 else ""
    print(f"{label:20} {text}{ratio}", flush=True)


if __name__ == "__main__":
    main()
