"""The wall clock is set by decades in mid-session, as by a first NTP step: the study ends, and the server is whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from calm_load import calm
from pgdyno.linux import processes
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.undo import server_lock
from pgdyno.undo.rollback import SessionState, list_bundles
from server_image import eventually, files_of, settings_of

pytestmark = [pytest.mark.pg, pytest.mark.slow]
SAME = "pg/test_clock_jumps.py::test_a_clock_that_is_set_by_decades_ends_no_study"
DAY_S = 86400
QUICK = [*calm(), "--pairs", "2", "2", "--restarts", "none", "--yes", "--json"]

OF_ONE_CLOCK = """
import runpy, sys
from pgdyno.owner import inherited
given = inherited._is_given
inherited._is_given = lambda kind, name: name in ("LD_PRELOAD", "CLOCK_STEP_FILE") or given(kind, name)
runpy.run_module("pgdyno", run_name="__main__", alter_sys=True)
"""
"""The tuner, whose programs see its clock: pgdyno gives them a list of variables, and this adds the clock's."""


@pytest.fixture
def clock(pgdyno_home: Path) -> tuple[dict[str, str], Callable[[int], None]]:
    """Variables for a child whose wall clock can be moved, and a function that moves it by seconds."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the clock")
    library, place = pgdyno_home / "clock_step.so", pgdyno_home / "step"  # the load's account reads both
    source = Path(__file__).parents[1] / "clock_step.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)

    def move(seconds: int) -> None:
        with place.open("r+b" if place.exists() else "w+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    move(0)
    return {"LD_PRELOAD": str(library), "CLOCK_STEP_FILE": str(place)}, move


def next_load(home: Path, last: int | None, study: subprocess.Popen[str]) -> int:
    """Wait for a pgbench of the study, another one than `last`; return its pid."""
    found: list[int] = []

    def is_there() -> bool:
        assert study.poll() is None, study.communicate()
        found[:] = [pid for pid in processes.all_pids() if pid != last and runs_below(pid, home / "state" / "runs")]
        return bool(found)

    eventually(is_there, "a load runs", step_s=0.2)  # of all processes of the machine: a look costs milliseconds
    return found[0]


def runs_below(pid: int, folder: Path) -> bool:
    with suppress(OSError):  # it has ended since, or is another account's
        name = (processes.PROC / str(pid) / "comm").read_text().strip()
        return name == "pgbench" and (processes.PROC / str(pid) / "cwd").readlink().is_relative_to(folder)
    return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "days",
    [
        14_000,
        pytest.param(-9_000, marks=pytest.mark.night(SAME)),
    ],
)
def test_a_clock_that_is_set_by_decades_ends_no_study(
    make_sandbox: Callable[..., Sandbox],
    pgdyno_home: Path,
    tmp_path: Path,
    clock: tuple[dict[str, str], Callable[[int], None]],
    days: int,
) -> None:
    variables, move = clock
    server = make_sandbox("clock")
    server.start()
    before, files = settings_of(server), files_of(server.data_directory)
    pair = [tmp_path / "a.conf", tmp_path / "b.conf"]
    for number, path in enumerate(pair):
        path.write_text(f"work_mem = {8 + number}MB\n")
    words = ["experiment", "--ab", *map(str, pair), *QUICK, "--target", server.target().postgres.conninfo]
    with subprocess.Popen(
        [sys.executable, "-c", OF_ONE_CLOCK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **variables},
    ) as study:  # fmt: skip
        step, load = 0, None
        while load is None or not processes.alive(load):  # one that ended before its clock was set was too short
            load = next_load(pgdyno_home, load, study)
            time.sleep(0.5)
            step = days * DAY_S - step
            move(step)
        out, err = study.communicate(timeout=400)
    assert study.returncode in (0, 1, 3), err
    result = json.loads(out.splitlines()[-1])
    assert result["trials"]["complete"] >= 4
    assert [one["reason"] for one in result["refused"] if "the clock was set" in one["reason"]]
    assert 0 < result["elapsed_s"] < 600
    assert [info.state for info in list_bundles(pgdyno_home / "state" / "undo")] == [SessionState.CLOSED]
    assert server_lock.look(server.data_directory) is None
    assert files_of(server.data_directory) == files
    assert snapshot.differences(before, settings_of(server)) == ()
