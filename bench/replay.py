"""The whole table of a replay's speed and honesty, row by row, by one command that may be killed and goes on.

    python bench/replay.py --folder /srv/replay [--tiny] [--only ROW ...] [--pgreplay /usr/bin/pgreplay]

Each row is a bench of its own, in a process of its own; before anything runs, all rows are listed with the time that
they are likely to take on two quiet CPUs. What a row printed is kept in the folder, with the commit: a row that is
there is shown and not run again. `--tiny` proves that the rows run, in a minute or two; its figures are none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: what must be reached, the program, its words, those of a tiny run, and about how many seconds it takes."""

    name: str
    must: str
    program: str
    words: tuple[str, ...]
    tiny: tuple[str, ...]
    seconds: int

    def argv(self, folder: Path, pgreplay: Path | None, *, is_tiny: bool) -> list[str]:
        """Return the command; what a row keeps of its own is below the folder."""
        words = [word.format(folder=folder) for word in (self.tiny if is_tiny else self.words)]
        more = ["--pgreplay", str(pgreplay)] if pgreplay and self.program == "replay_engines.py" else []
        return [sys.executable, str(HERE / self.program), *words, *more]


_ENGINES, _TINY = "replay_engines.py", ("--rounds", "1", "--statements", "2000", "--seconds", "1")
ROWS = (
    TableRow("saturated", "driver CPU for 1,000 statements, 50 sessions: compiled <= 13 ms, Python <= 28", _ENGINES,
             ("--rows", "saturated", "--rounds", "5"), ("--rows", "saturated", *_TINY), 90),
    TableRow("paced", "the same at 2,800 a second from 100 sessions: compiled <= 25 ms, Python <= 50", _ENGINES,
             ("--rows", "paced", "--rounds", "5"), ("--rows", "paced", *_TINY), 150),
    TableRow("lag", "3,000 a second from 200 sessions on a quiet host: p50 <= 0.2 ms, p99 <= 2 ms", _ENGINES,
             ("--rows", "lag", "--rounds", "5"), ("--rows", "lag", *_TINY), 150),
    TableRow("lag-random", "the same with random pauses, as users make them", _ENGINES,
             ("--rows", "random", "--rounds", "5"), ("--rows", "random", *_TINY), 150),
    TableRow("speeds", "0.6 to 2.5 times the speed within 1 %", _ENGINES,
             ("--rows", "speeds"), ("--rows", "speeds", *_TINY), 150),
    TableRow("trace", "csvlog to trace: compiled >= 200 MB a CPU second, else >= 80; <= 300 MB at 1 GB",
             "trace_build.py", ("--sizes", "1000"), ("--sizes", "2", "--transactions", "20"), 240),
    TableRow("compare", "a million transactions compared: <= 10 s and 1 GB", "replay_compare.py",
             ("--again",), ("--again", "--transactions", "2000"), 60),
    TableRow("pairs", "server CPU within 5 % of the captured mix; A/A <= 5 % of classes over 20 runs; +30 % at n = 300 "
             "found in >= 95 %", "replay_pairs.py", ("--folder", "{folder}/pairs"),
             ("--folder", "{folder}/pairs", "--runs", "2", "--rounds", "1", "--transactions", "20", "--draws", "2"),
             800),
    TableRow("mixed", "a mixed load captured and replayed: all sent, no other errors at 0.6 and 1, span within 1 %, "
             "overlap within 5 %, no stall above 250 ms; by rows at most 1 % of the rows that differ by sessions",
             "replay_mixed.py", ("--folder", "{folder}/mixed"), ("--folder", "{folder}/mixed", "--seconds", "5"), 480),
    TableRow("trace-10gb", "csvlog of 10 GB to trace, compiled: as fast, and <= 300 MB as at 1 GB; 30 GB of disk",
             "trace_build.py", ("--sizes", "10000", "--styles", "B", "--builder", "compiled", "--folder", "{folder}"),
             ("--sizes", "2", "--transactions", "20", "--styles", "B", "--builder", "compiled"), 400),
    TableRow("trace-10gb-python", "the same without the compiled engine: <= 600 MB",
             "trace_build.py", ("--sizes", "10000", "--styles", "B", "--builder", "python", "--folder", "{folder}"),
             ("--sizes", "2", "--transactions", "20", "--styles", "B", "--builder", "python"), 800),
    TableRow("million", "a million transactions replayed: <= 200 MB; two such runs compared: <= 10 s and 1 GB",
             "replay_million.py", ("--folder", "{folder}/million"),
             ("--folder", "{folder}/million", "--transactions", "2000", "--rate", "2000"), 500),
)  # fmt: skip


def kept(folder: Path, row: TableRow) -> Path:
    """Return where a row's words stand once it has ended."""
    return folder / f"{row.name}.txt"


def plan_words(rows: Sequence[TableRow], folder: Path) -> list[str]:
    """Return a line for each row with its time, and one for all that is not there yet."""
    lines, left = list[str](), 0
    for row in rows:
        is_there = kept(folder, row).exists()
        left += 0 if is_there else row.seconds
        lines.append(f"  {row.name:18} {'there' if is_there else f'about {row.seconds} s':12} {row.must}")
    return [*lines, f"about {left / 60:.0f} min on two quiet CPUs"]


def run(row: TableRow, argv: Sequence[str], folder: Path, state: str) -> bool:
    """Run a row and keep what it printed, whole or not at all; return whether it ended well."""
    began, new = time.monotonic(), kept(folder, row).with_suffix(".new")
    with new.open("w") as file, subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        file.write(f"{state}, load {os.getloadavg()[0]:.1f} before\n")
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            file.write(line)
    if process.returncode:
        print(f"{row.name} ended with exit code {process.returncode}", flush=True)
        return False
    new.replace(kept(folder, row))
    print(f"{row.name}: {time.monotonic() - began:.0f} s", flush=True)
    return True


def main() -> int:
    """Parse the arguments, say what it will take, and run what is not there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=[row.name for row in ROWS])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--pgreplay", type=Path, help="the program of Debian's package")
    parser.add_argument("--dry-run", action="store_true", help="print the times alone")
    given = parser.parse_args()
    rows = [row for row in ROWS if not given.only or row.name in given.only]
    print("\n".join(plan_words(rows, given.folder)), flush=True)
    if given.dry_run:
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    state = f"commit {commit.stdout.strip() or 'unknown'}{', tiny: no figures' if given.tiny else ''}"
    well = True
    for row in rows:
        print(f"{row.name}: {row.must}", flush=True)
        if kept(given.folder, row).exists():
            print("  " + kept(given.folder, row).read_text().replace("\n", "\n  ").rstrip(), flush=True)
        else:
            argv = row.argv(given.folder, given.pgreplay, is_tiny=given.tiny)
            well = run(row, argv, given.folder, state) and well
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
