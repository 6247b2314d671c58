"""Where a scene is played: a server on a small disk of its own, and a session that is in a configuration."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner_process import await_line, newest, tuner_of

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.undo.watch import Deadlines

PATIENCE_S = 120.0
WATCH = Deadlines(heartbeat_s=5, health_s=5, grace_s=2)
CONFIGURATION = {"shared_buffers": "96MB", "work_mem": "9MB"}
NAME = "torture"


@dataclass
class Stage:
    """A server on a small disk of its own."""

    sandbox: Sandbox
    disk: Path
    draw: random.Random

    @property
    def data(self) -> Path:
        """Return the data directory."""
        return self.sandbox.data_directory

    def postmaster(self) -> int:
        """Return the postmaster's number."""
        pid = postmaster_lock.postmaster_pid(self.data)
        assert pid is not None, "the server runs"
        return pid

    def reopen(self) -> None:
        """Take the sandbox again after it was let go, with its server up."""
        self.sandbox = Sandbox.open_or_create(NAME, root=self.disk)
        self.sandbox.start()


@contextmanager
def hold(stage: Stage, undo_root: Path, conninfo: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a tuner that stays in a configuration."""
    with tuner_of(
        stage.sandbox, undo_root, watch=WATCH, configurations=[CONFIGURATION], hold=True, conninfo=conninfo
    ) as tuner:
        await_line(tuner, "applied")
        yield tuner


def await_closed(undo_root: Path, began: float) -> float | None:
    """Wait until the newest session is closed; return the seconds since then, None when it never was."""
    bundle = newest(undo_root)
    while not bundle.is_closed():
        if time.monotonic() - began > PATIENCE_S:
            return None
        time.sleep(0.05)
    return time.monotonic() - began
