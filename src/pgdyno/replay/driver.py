"""The child that sends a tape for a workload: it runs the engine, tells progress as pgbench does, and ends with it.

    python -m pgdyno.replay.driver TAPE PLAN PROGRAM...

TAPE and PLAN are descriptors that are inherited, as the plan holds passwords; the folder of the run is the current one.
SIGALRM says that the time is over; SIGTERM ends it. Exit code 2 where sessions could not be opened or were lost.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.owner.durable import open_fresh
from pgdyno.replay.records_reader import BEGIN, RECORDS
from pgdyno.trace.engine.__main__ import plan_of
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engines import run_engines

_TELL_S = 1.0


class Telling:
    """Looks at a run about five times a second: notes its begin, tells its rate each second, ends it when told to."""

    def __init__(self) -> None:
        self.is_over = False
        self._told: tuple[float, int] | None = None
        self._has_begun = False

    def look(self, tally: RunTally) -> bool:
        """Return whether the run is to end."""
        if not tally.at_us:  # no engine has told when it begins
            return self.is_over
        now = time.time()
        if not self._has_begun:
            with open_fresh(Path(BEGIN)) as file:
                file.write(f"{round(now * 1e6) - tally.at_us}\n".encode())
            self._has_begun = True
        if self._told is None:
            self._told = (now, tally.done)
        since, done = self._told
        if now - since >= _TELL_S:
            rate = (tally.done - done) / (now - since)
            sys.stderr.write(
                f"progress: {now:.3f} s, {rate:.1f} tps, lat 0.000 ms stddev 0.000, {tally.errors} failed\n"
            )
            sys.stderr.flush()
            self._told = (now, tally.done)
        return self.is_over


def main(words: Sequence[str]) -> int:
    """Send the tape; return the exit code."""
    tape, plan_file, *program = words
    telling = Telling()
    for name in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(name, lambda *_: setattr(telling, "is_over", True))
    with os.fdopen(int(plan_file), "rb") as file:
        file.seek(0)
        plan = plan_of(json.load(file))
    records = Path(RECORDS)
    open_fresh(records).close()
    try:
        tally = run_engines(plan, int(tape), [records], program=program, watch=telling.look)
    except PgdynoError as error:
        sys.stderr.write(f"error: {error.one_line}\n")
        return 2
    for number, (reason, count) in enumerate(tally.reasons.items()):
        sys.stderr.write(f"error: {count} sessions: {reason}\nclient {number} aborted\n")
    sys.stdout.write(f"statements: {tally.done}\n")
    return 2 if tally.reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
