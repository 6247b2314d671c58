from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.trial import LoadPlan
from pgdyno.owner.runner import Completed, LocalRunner
from pgdyno.workloads.pgbench import command
from pgdyno.workloads.pgbench.command import (
    DriverOptions,
    Pgbench,
    RunCommand,
    find_pgbench,
    init_argv,
    parse_version,
)
from pgdyno.workloads.script import Script

PLAN = LoadPlan(clients=4, jobs=2, warmup_s=2.0, measure_s=5.5)
COMMAND = RunCommand(
    pgbench=Pgbench(Path("/bin/pgbench"), 18),
    plan=PLAN,
    scripts=(Script("tpcb-like"),),
    variables={},
    options=DriverOptions(),
    directory=Path("/run/7"),
    dbname="pgdyno_0_load",
)


def test_the_plain_command_line() -> None:
    assert COMMAND.argv() == [
        *("/bin/pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "2", "-T", "8"),
        *("-P", "1", "--progress-timestamp", "-l", "--log-prefix=transactions"),
        *("--failures-detailed", "--exit-on-abort", "-b", "tpcb-like@1", "pgdyno_0_load"),
    ]


def test_everything_that_a_plan_can_ask_for() -> None:
    plan = replace(PLAN, rate=500.0, protocol="simple", seed=42, connect_each=True)
    argv = replace(COMMAND, plan=plan, options=DriverOptions(3, 20.0), variables={"rows": "7"}).argv()
    for words in (["-R", "500"], ["-M", "simple"], ["-L", "20"], ["-D", "rows=7"]):
        assert argv[argv.index(words[0]) + 1] == words[1]
    assert {"-C", "--random-seed=42", "--max-tries=3"} <= set(argv)


def test_sessions_are_kept_unless_asked() -> None:
    assert "-C" not in COMMAND.argv()


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        (13, set(), {"--failures-detailed", "--exit-on-abort"}),
        (15, {"--failures-detailed"}, {"--exit-on-abort"}),
        (17, {"--failures-detailed", "--exit-on-abort"}, set()),
    ],
)
def test_options_by_version(version: int, has: set[str], lacks: set[str]) -> None:
    argv = set(replace(COMMAND, pgbench=Pgbench(Path("/bin/pgbench"), version)).argv())
    assert has <= argv
    assert not lacks & argv


def test_an_old_pgbench_cannot_retry() -> None:
    command = replace(COMMAND, pgbench=Pgbench(Path("/bin/pgbench"), 14), options=DriverOptions(5))
    with pytest.raises(EnvironmentUnsuitable, match="pgbench 14 cannot retry"):
        command.argv()


def test_the_log_format_follows_the_options() -> None:
    form = replace(COMMAND, plan=replace(PLAN, rate=1.0), options=DriverOptions(2)).log_format
    assert (form.lag, form.retries, form.columns) == (True, True, 8)
    assert COMMAND.log_format.columns == 6


def test_a_mix_of_files_and_built_in_scripts(tmp_path: Path) -> None:
    mix = (Script("read", 9, "SELECT 1;\n"), Script("select-only", 1))
    argv = replace(COMMAND, scripts=mix, directory=tmp_path).argv()
    assert argv[-5:-1] == ["-f", "read.sql@9", "-b", "select-only@1"]
    for script in mix:
        script.write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["read.sql"]


@pytest.mark.parametrize(
    "change", [{"clients": 0}, {"jobs": 0}, {"protocol": "binary"}, {"rate": 0.0}, {"measure_s": -2.0}]
)
def test_a_plan_that_cannot_run_is_a_usage_error(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(COMMAND, plan=replace(PLAN, **change)).argv()


def test_loading() -> None:
    argv = init_argv(Pgbench(Path("pgbench"), 18), scale=3, fillfactor=90, dbname="x")
    assert argv == ["pgbench", "-i", "-I", "dtgp", "-s", "3", "-F", "90", "x"]


def test_versions() -> None:
    assert parse_version("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n") == 15
    assert parse_version("pgbench (PostgreSQL) 19devel") == 19
    with pytest.raises(EnvironmentUnsuitable):
        parse_version("sysbench 1.0")


class CountingRunner(LocalRunner):
    """Counts what is run, and answers as pgbench 18 does."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, argv: Sequence[str], **_more: object) -> Completed:
        self.runs += 1
        return Completed(tuple(argv), 0, "pgbench (PostgreSQL) 18.6", "")


def test_a_program_is_asked_for_its_version_again_only_when_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_account", lambda _target: None)
    runner, program = CountingRunner(), tmp_path / "pgbench"
    target: Any = SimpleNamespace(runner=runner, program=lambda _name: program)
    for runs in (1, 2):  # who is not there may be there the next time
        assert find_pgbench(target).version == 18
        assert runner.runs == runs
    program.write_text("one")
    for _ in range(3):
        assert find_pgbench(target) == Pgbench(program, 18)
    assert runner.runs == 3
    program.write_text("another")
    assert find_pgbench(target).version == 18
    assert runner.runs == 4
    elsewhere: Any = SimpleNamespace(runner=SimpleNamespace(run=runner.run), program=lambda _name: program)
    for runs in (5, 6):  # a file of this host says nothing of another's
        assert find_pgbench(elsewhere).version == 18
        assert runner.runs == runs


def test_a_script_that_sleeps_is_known() -> None:
    assert not COMMAND.pauses
    think = Script("think", text="\\set x 1\n  \\sleep :x ms\nSELECT 1;\n")
    said = Script("said", text="SELECT 'we \\sleep';\n")
    assert replace(COMMAND, scripts=(said, think)).pauses
    assert not replace(COMMAND, scripts=(said,)).pauses
