"""`python -m pgdyno.trace.engine`: an `EnginePlan` as JSON on standard input, lines of progress on standard output.

SIGINT and SIGTERM end it, SIGUSR1 pauses it and SIGUSR2 has it go on: once it has told something, and not before.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping

from pgdyno.owner.account import Account, become
from pgdyno.owner.parent import end_with
from pgdyno.trace.engine.login import read_roots
from pgdyno.trace.engine.loop import Engine
from pgdyno.trace.engine.plan import Clock, EndPoint, EnginePlan, Login
from pgdyno.trace.engine.tally import COMPLETE, RunTally
from pgdyno.trace.engine.tape import TapeError, map_tape


def plan_of(document: Mapping[str, object]) -> EnginePlan:
    """Return the plan that `dataclasses.asdict` made of one; a codec would cost more at the start than all the rest."""
    parts = dict(document)
    parts["end_point"] = EndPoint(**parts["end_point"])  # type: ignore[arg-type]  # what asdict made of one
    parts["login"] = Login(**parts["login"])  # type: ignore[arg-type]  # what asdict made of one
    parts["clock"] = Clock(str(parts["clock"]))
    return EnginePlan(**parts)  # type: ignore[arg-type]  # what asdict made of one


def main() -> int:
    """Run one engine; exit code 0 for a tape that was sent whole, 1 for one that ended before, 2 for no tape."""
    parent = os.getppid()
    plan = plan_of(json.load(sys.stdin))
    read_roots(plan.end_point)
    if plan.account:
        become(Account.parse(plan.account))
    if not end_with(parent, signal.SIGTERM):
        return 1  # nobody is left who knows that it would load a server
    gc.disable()  # what is made for a statement is in no cycle; a collection walks all sessions
    sys.setswitchinterval(0.0005)  # threads that open sessions must not hold up what is due
    try:
        tape = map_tape(plan.tape)
    except TapeError as error:
        sys.stderr.write(f"{error}\n")
        return 2

    def tell(tally: RunTally) -> None:
        sys.stdout.write(json.dumps(dataclasses.asdict(tally)) + "\n")
        sys.stdout.flush()

    def write(data: memoryview) -> None:
        while data:
            data = data[os.write(plan.records, data) :]

    engine = Engine(plan, tape, write, tell)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: setattr(engine, "ended", signal.Signals(number).name))
    for name, is_pause in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
        signal.signal(name, lambda *_, asked=is_pause: setattr(engine.pausing, "is_asked", asked))
    is_complete = engine.run().ended == COMPLETE
    sys.stderr.write(engine.ledger.broken)
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
