"""`pgdyno` run as its users run it, for tests of advice on real servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

from warm_program import run_pgdyno


def run(home: Path, *words: str, answer: bytes | None = None) -> tuple[int, str, str]:
    """Run pgdyno with a data folder of its own; return exit code, stdout and stderr. No command ends in a traceback.

    With an `answer` its standard input is a terminal at which somebody types it.
    """
    environment = {"XDG_DATA_HOME": str(home), "NO_COLOR": "1"}
    done = run_pgdyno(*words, **environment) if answer is None else _typed(answer, words, environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def _typed(answer: bytes, words: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    ours, its = pty.openpty()
    try:
        os.write(ours, answer)
        return run_pgdyno(*words, timeout_s=120, stdin=its, **environment)
    finally:
        for end in (ours, its):
            os.close(end)


def findings(home: Path, dsn: str, *flags: str) -> dict[str, dict[str, object]]:
    """Return every answer of `pgdyno advise --depth deep`, by rule."""
    code, text, errors = run(home, "advise", "--target", dsn, "--depth", "deep", "--json", *flags)
    assert code in (0, 1), errors
    return {one["rule"]: one for one in json.loads(text)["findings"]}
