"""`pgdyno` run as its users run it, for tests of advice on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def run(home: Path, *words: str) -> tuple[int, str, str]:
    """Run pgdyno with a data folder of its own; return exit code, stdout and stderr. No command ends in a traceback."""
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pgdyno", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def findings(home: Path, dsn: str, *flags: str) -> dict[str, dict[str, object]]:
    """Return every answer of `pgdyno advise --depth deep`, by rule."""
    code, text, errors = run(home, "advise", "--target", dsn, "--depth", "deep", "--json", *flags)
    assert code in (0, 1), errors
    return {one["rule"]: one for one in json.loads(text)["findings"]}
