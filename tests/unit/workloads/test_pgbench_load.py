"""What is told of a pgbench that ended before its time: the script and its line, also when others had gone on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.pgbench.command import DriverOptions, Pgbench, RunCommand
from pgdyno.workloads.pgbench.load import PgbenchLoad
from pgdyno.workloads.script import Script

ENDS_EARLY = """#!/bin/sh
echo "0 1 2345 0 1700000000 1000" > transactions.$$
echo "pgbench: error: client 1 script 0 aborted in command 1 query 0: ERROR:  division by zero" >&2
exit 2
"""
ENDS_WITH_NOTHING = "#!/bin/sh\n: > transactions.$$\n: > transactions.$$.1\nexit 1\n"


def command_of(folder: Path, program: str) -> RunCommand:
    file = folder / "pgbench"
    file.write_text(program)
    file.chmod(0o755)
    plan = LoadPlan(clients=2, jobs=1, warmup_s=0.0, measure_s=2.0, protocol="simple")
    script = Script("s", text="SELECT 1/:a;\n")
    return RunCommand(Pgbench(file, 18), plan, (script,), {}, DriverOptions(), folder, "base")


def test_an_error_that_some_clients_meet_is_told_by_script_and_line(tmp_path: Path) -> None:
    error = ScriptError('script "s", line 1: division by zero', detail="the statement: SELECT 1/:a", is_certain=False)
    load = PgbenchLoad(command_of(tmp_path, ENDS_EARLY), {}, failure=lambda text: error)
    found = load.finish()
    assert found.reason == (
        '1 of 2 clients aborted (exit code 2): script "s", line 1: division by zero (the statement: SELECT 1/:a)'
    )
    assert found.failure is error
    assert error.detail == "the statement: SELECT 1/:a; 1 of 2 clients aborted (exit code 2) after 1 transaction"
    assert list(tmp_path.glob("transactions.*")), "whoever keeps the run discards them"


def test_a_load_that_comes_to_nothing_leaves_no_log(tmp_path: Path) -> None:
    """The log is of the account that the load runs as, in a folder of ours, and no result names it."""
    load = PgbenchLoad(command_of(tmp_path, ENDS_WITH_NOTHING), {})
    with pytest.raises(WorkloadError, match="without a single transaction"):
        load.finish()
    assert list(tmp_path.glob("transactions.*")) == []
    assert (tmp_path / "pgbench.stderr").exists(), "the hint names it"
