"""Print how many lines of a server's log are read per second: mostly statements, with checkpoints in between.

python bench/log_reading.py [--lines 1000000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from pgdyno.probes.evidence.log_reader import LogReader

STATEMENT = (
    b"2026-11-21 19:15:11.641 UTC [26911] app=psql,user=bob LOG:  duration: 12.123 ms  statement: "
    b"SELECT abalance FROM pgbench_accounts WHERE aid = 12345;\n"
)
CHECKPOINT = (
    b"2026-11-21 19:15:12.318 UTC [26911] LOG:  checkpoint starting: wal\n"
    b"2026-11-21 19:15:12.683 UTC [26911] LOG:  checkpoint complete: wrote 81 buffers (1.0%); 0 WAL file(s) added, "
    b"0 removed, 1 recycled; write=0.305 s, sync=0.022 s, total=0.366 s; sync files=1, longest=0.022 s, "
    b"average=0.022 s; distance=16334 kB, estimate=16334 kB\n"
)
PER_CHECKPOINT = 100


def blocks(lines: int) -> Iterator[bytes]:
    """Make a log of about so many lines."""
    unit = STATEMENT * PER_CHECKPOINT + CHECKPOINT
    whole = unit * 80
    for _ in range(max(1, lines // whole.count(b"\n"))):
        yield whole


def main() -> None:
    """Read a made-up log and print the rate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    reader = LogReader()
    began = time.perf_counter()
    reader.read(blocks(parser.parse_args().lines))
    seconds = time.perf_counter() - began
    counts = reader.counts
    print(f"{counts.lines} lines, {len(counts.checkpoints)} checkpoints: {counts.lines / seconds:,.0f} lines/s")


if __name__ == "__main__":
    main()
