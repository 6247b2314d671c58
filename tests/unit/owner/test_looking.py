"""A worker that only looks: what it can be asked for, and that it is there at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgdyno
from pgdyno.owner import looking
from pgdyno.owner.tasks import TASKS

SLOW = ("dataclasses", "inspect", "pathlib", "hashlib", "typing", "pgdyno.owner.tasks")
"""Each takes as long to import as all that a worker for looks has."""


def test_a_worker_for_looks_imports_nothing_that_takes_long() -> None:
    asked = "import sys; sys.path.insert(0, sys.argv[1]); from pgdyno.owner import looking, worker; print(*sys.modules)"
    root = str(Path(pgdyno.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", asked, root], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(SLOW) == set()


def test_all_that_a_worker_for_looks_can_is_among_all_tasks_and_changes_nothing(tmp_path: Path) -> None:
    assert looking.LOOKING.keys() == {"read", "look", "names", "may_write"}
    assert looking.LOOKING.items() <= TASKS.items()
    (tmp_path / "b").write_bytes(b"content")
    (tmp_path / "a").symlink_to("b")
    assert looking.names(str(tmp_path)) == ["a", "b"]
    assert looking.read(str(tmp_path / "b"), at_most=3, start=2) == b"nte"
    assert looking.look(str(tmp_path / "c")) is None
    assert looking.may_write(str(tmp_path)) or os.geteuid() != 0
    os.mkfifo(tmp_path / "pipe")
    for refused in ("a", "pipe", "."):
        with pytest.raises(OSError):  # noqa: PT011 - of a link, a pipe and a directory the kernel has words of its own
            looking.read(str(tmp_path / refused), at_most=1)
