"""Write every page of docs that is made from the project's own data; with `--check` exit 1 when one is stale.

One process for all: each of its own would import the program anew.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = (
    "rule_docs",  # first: it writes the rules that others read
    "knob_docs",
    "sample_docs",
    "trace_docs",
    "guard_docs",
    "requirements_docs",
    "advice_schema",
    "results_schema",
    "plan_schemas",
    "cli_docs",
    "man_page",
)


def main(arguments: Sequence[str], folder: Path = Path(__file__).parent, programs: Sequence[str] = PROGRAMS) -> int:
    """Run each program of the folder as if by itself, all of them whatever fails; return 1 when one failed."""
    failed = 0
    for name in programs:
        sys.argv = [f"{name}.py", *arguments]
        try:
            runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
        except SystemExit as end:
            failed |= end.code not in (None, 0)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
