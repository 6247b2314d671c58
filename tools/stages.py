"""Run the stages of `make test`, all of them whatever fails, and name at the end what failed.

    python tools/stages.py lint+pure+kernel,servers

Each word is a stage, run one after another; `+` joins targets of the Makefile that run beside each other, each of whose
outputs is then printed as it ends; `,` joins those of them that run one after another, here lint beside kernel and then
beside servers. The last lines are the whole result: what of each target failed, with the test's name and its first line
of error, so that nobody needs the rest of the log. Exits with 1 when anything failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock

FAILURES = "PGDYNO_TEST_FAILURES"
"""Names the file to which a run of pytest appends its failures, a line each; see tests/conftest.py."""
_SAID = 3
_TOLD_S = 60.0
_MOST = 16
_printing = Lock()


@dataclass(frozen=True)
class Ended:
    """How a target ended; `failures` are the tests that it named, or the last lines of what else it printed."""

    target: str
    status: int
    seconds: float
    failures: list[str]


class _Running:
    """A target at work. What it prints is kept in a file where another one runs beside it."""

    def __init__(self, target: str, folder: Path, *, beside: bool) -> None:
        self._target, self._began = target, time.monotonic()
        self._failures = folder / f"{target}.failures"
        self._output = (folder / f"{target}.output").open("w+b") if beside else None
        self._process = subprocess.Popen(
            [os.environ.get("MAKE", "make"), "--no-print-directory", target],
            env={**os.environ, FAILURES: str(self._failures)},
            stdout=self._output,
            stderr=self._output,
        )

    def wait(self) -> Ended:
        """Wait for its end, print what it said, and tell how it ended; a line a minute says that it still runs."""
        while True:
            try:
                status = self._process.wait(_TOLD_S)
                break
            except subprocess.TimeoutExpired:
                with _printing:
                    print(f"{self._target}: at work for {time.monotonic() - self._began:.0f} s", flush=True)
        seconds = time.monotonic() - self._began
        said = b""
        if self._output is not None:
            with self._output as file, _printing:
                file.seek(0)
                said = file.read()
                sys.stdout.buffer.write(said)
                sys.stdout.flush()
        named = self._failures.read_text().splitlines() if self._failures.exists() else []
        last = [line for line in said.decode(errors="replace").splitlines() if line.strip()][-_SAID:]
        return Ended(self._target, status, seconds, named or (last if status else []))


def run(stages: list[str]) -> list[Ended]:
    """Run the stages one after another and return how each of their targets ended."""
    ended = []
    over = Event()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_MOST) as beside:

        def in_turn(targets: list[str], *, alone: bool) -> list[Ended]:
            return [_Running(one, Path(folder), beside=not alone).wait() for one in targets if not over.is_set()]

        try:
            for stage in stages:
                rows = [row.split(",") for row in stage.split("+")]
                running = [beside.submit(in_turn, row, alone=len(rows) == 1) for row in rows]
                ended += [one for row in running for one in row.result()]
        finally:
            over.set()  # who interrupts this ends what runs, and nothing else begins
    return ended


def summary(ended: list[Ended]) -> str:
    """Return the last lines of a run."""
    lines = ["", "summary"]
    for one in ended:
        lines.append(f"  {one.target:8} {'ok' if one.status == 0 else 'FAILED':6} {one.seconds:5.0f} s")
        lines += [f"    {text}" for text in one.failures]
    failed = [one.target for one in ended if one.status != 0]
    lines.append(f"FAILED: {', '.join(failed)}" if failed else "all passed")
    return "\n".join(lines)


def main(stages: list[str]) -> int:
    """Run the stages; 1 when a target failed."""
    try:
        ended = run(stages)
    except KeyboardInterrupt:
        return 130
    print(summary(ended), flush=True)
    return int(any(one.status != 0 for one in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
