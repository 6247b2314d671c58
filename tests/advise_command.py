"""`pgdyno` run as its users run it, for tests of advice on real servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path


def run(home: Path, *words: str, answer: bytes | None = None) -> tuple[int, str, str]:
    """Run pgdyno with a data folder of its own; return exit code, stdout and stderr. No command ends in a traceback.

    With an `answer` its standard input is a terminal at which somebody types it.
    """
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pgdyno", *words]
    ours, its = pty.openpty() if answer is not None else (-1, subprocess.DEVNULL)
    try:
        if answer is not None:
            os.write(ours, answer)
        done = subprocess.run(
            command, stdin=its, capture_output=True, text=True, timeout=120, check=False, env=environment
        )
    finally:
        for end in (ours, its):
            if end >= 0:
                os.close(end)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def findings(home: Path, dsn: str, *flags: str) -> dict[str, dict[str, object]]:
    """Return every answer of `pgdyno advise --depth deep`, by rule."""
    code, text, errors = run(home, "advise", "--target", dsn, "--depth", "deep", "--json", *flags)
    assert code in (0, 1), errors
    return {one["rule"]: one for one in json.loads(text)["findings"]}
