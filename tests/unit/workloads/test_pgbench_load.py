"""What is told of a pgbench that ended before its time: the script and its line, also when others had gone on."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import ScriptError
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.pgbench.command import DriverOptions, Pgbench, RunCommand
from pgdyno.workloads.pgbench.load import PgbenchLoad
from pgdyno.workloads.script import Script

ENDS_EARLY = """#!/bin/sh
echo "0 1 2345 0 1700000000 1000" > transactions.$$
echo "pgbench: error: client 1 script 0 aborted in command 1 query 0: ERROR:  division by zero" >&2
exit 2
"""


def test_an_error_that_some_clients_meet_is_told_by_script_and_line(tmp_path: Path) -> None:
    program = tmp_path / "pgbench"
    program.write_text(ENDS_EARLY)
    program.chmod(0o755)
    plan = LoadPlan(clients=2, jobs=1, warmup_s=0.0, measure_s=2.0, protocol="simple")
    command = RunCommand(
        Pgbench(program, 18), plan, (Script("s", text="SELECT 1/:a;\n"),), {}, DriverOptions(), tmp_path, "base"
    )
    error = ScriptError('script "s", line 1: division by zero', detail="the statement: SELECT 1/:a", is_certain=False)
    load = PgbenchLoad(command, {}, failure=lambda text: error)
    found = load.finish()
    assert found.reason == (
        '1 of 2 clients aborted (exit code 2): script "s", line 1: division by zero (the statement: SELECT 1/:a)'
    )
    assert found.failure is error
    assert error.detail == "the statement: SELECT 1/:a; 1 of 2 clients aborted (exit code 2) after 1 transaction"
