"""A load that hardly uses a CPU: for tests of what a study does with runs, and not of what runs measure.

Transactions that only sleep, ten a second. They are as even on a machine that is busy with other tests as on a quiet
one, so that no run is repeated for that, and many workers of xdist can wait for theirs at once. Whoever asserts which
configuration is faster needs a load that works.
"""

from __future__ import annotations

from pathlib import Path

SCRIPT = Path(__file__).parent / "data" / "loads" / "calm.sql"
DECIDED = SCRIPT.with_name("decided.sql")
"""Sleeps 40 ms a transaction, and 80 where enable_indexscan is off: worse on every machine, and with a few pairs."""
SEGMENTS = SCRIPT.with_name("segments.sql")
"""A transaction uses up a WAL segment of 16 MB: checkpoints follow as of a heavy load, and hardly any CPU time."""
WINDOW = ["--warmup", "1", "--measure", "2", "--foreign-cpu", "100000", "--steal", "100"]
"""The shortest that scores a run, whatever else uses the machine."""


def calm(script: Path = SCRIPT) -> list[str]:
    """Return the flags of a calm load; `script` is a copy of SCRIPT where another account cannot enter this folder."""
    return ["-w", "custom", "--script", str(script), "-c", "1", "--reset", "never", *WINDOW]
