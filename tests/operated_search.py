"""A live search in a process of its own that only the dashboard answers: argv is the server and the operators' file."""

from __future__ import annotations

import sys
from pathlib import Path

from live_driver import say, short_search
from pgdyno.cli.arguments.operators import read_operators
from pgdyno.cli.requests.live_approval import Asker, decide
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest

if __name__ == "__main__":
    asker = Asker(300.0, reads=False)
    with opened(TargetRequest(dsn=sys.argv[1])) as server:
        told = short_search(
            server, "work_mem", candidates=3, decide=lambda plan: decide(plan, asker), announce=say, budget_s=600,
            operators=read_operators(Path(sys.argv[2])),
        )  # fmt: skip
    sys.exit(int(told.exit_code))
