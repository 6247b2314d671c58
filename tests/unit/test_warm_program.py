"""The program in a fork is the program: its exit codes, its outputs, its environment, and an end when it hangs."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from warm_program import RunningPgdyno, run_pgdyno


def test_a_fork_is_a_process_of_its_own(tmp_path: Path) -> None:
    told = run_pgdyno("store", "list", PGDYNO_HOME=str(tmp_path / "one"))
    assert (told.returncode, told.stderr.split(":")[0]) == (0, "the store is empty")
    assert (tmp_path / "one").is_dir()
    refused = run_pgdyno("no-such-verb", PGDYNO_HOME=str(tmp_path / "two"))
    assert refused.returncode == 2
    assert '"no-such-verb" is not a verb' in refused.stderr
    assert not (tmp_path / "two").exists()


def test_one_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_pgdyno("queue", "run", "--window", "03:00-04:00", timeout_s=0.0001, PGDYNO_HOME=str(tmp_path))
    assert run_pgdyno("--version").returncode == 0


def test_several_at_once_and_one_that_is_ended_by_a_signal(tmp_path: Path) -> None:
    words = ("queue", "run", "--window", "03:00-04:00", "--json")
    with RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as one, RunningPgdyno("--version") as other:
        assert "pgdyno" in other.communicate()[0]
        assert one.poll() is None
        one.send_signal(signal.SIGKILL)
        assert one.wait(30) == -signal.SIGKILL
        one.kill()  # there is nobody any more
    assert other.returncode == 0
    with pytest.raises(RuntimeError), RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as left:
        raise RuntimeError
    assert left.returncode == -signal.SIGKILL


def test_one_that_says_nothing_more_is_not_waited_for(tmp_path: Path) -> None:
    words = ("queue", "run", "--window", "03:00-04:00")
    with RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as one, pytest.raises(subprocess.TimeoutExpired):
        one.communicate(timeout=0.5)
    assert one.returncode == -signal.SIGKILL
