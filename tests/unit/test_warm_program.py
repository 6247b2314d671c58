"""The program in a fork is the program: its exit codes, its outputs, its environment, and an end when it hangs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warm_program import run_pgdyno


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
        run_pgdyno("queue", "run", "--window", "00:00-00:00", timeout_s=0.0001, PGDYNO_HOME=str(tmp_path))
    assert run_pgdyno("--version").returncode == 0
