"""A load ends with whoever began it, also by a signal that nobody can catch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgdyno.workloads.driver_process import DriverProcess

BEGINS = """
import sys, time
from pathlib import Path
from pgdyno.workloads.driver_process import DriverProcess
here = Path(sys.argv[1])
load = DriverProcess.start(["sleep", "60"], environment={}, directory=here, stdout=here / "out", stderr=here / "err")
print(load.pid, flush=True)
time.sleep(60)
"""


def test_a_load_does_not_outlive_a_kill_of_its_tuner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BEGINS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        load = int(tuner.stdout.readline())
        tuner.kill()
    deadline = time.monotonic() + 20
    try:
        while _runs(load):
            assert time.monotonic() < deadline, "the load still runs"
            time.sleep(0.02)
    finally:
        if _runs(load):
            os.kill(load, signal.SIGKILL)


def test_an_alarm_ends_the_wait_and_not_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = DriverProcess.start(
        ["sleep", "600"], environment={}, directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "err"
    )
    alarm = os.eventfd(1, os.EFD_CLOEXEC)
    try:
        assert load.wait(500, alarm=alarm) is None
        monkeypatch.setattr(os, "pidfd_open", _not_there)
        assert load.wait(500, alarm=alarm) is None, "where the kernel has no descriptors of processes"
        assert load.poll() is None
    finally:
        os.close(alarm)
        load.terminate()


def _not_there(_: int) -> int:
    raise OSError("no such call")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
