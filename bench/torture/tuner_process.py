"""A process that applies one configuration after another on a sandbox until it is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pgdyno.control.control_record import to_record
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.undo.bundle import UndoBundle, bundle_directories
from pgdyno.undo.watch import Deadlines

PATIENCE_S = 90.0
CONFIGURATIONS: Sequence[Mapping[str, str]] = (
    {"work_mem": "8MB"},
    {"work_mem": "9MB", "shared_buffers": "64MB"},
    {"shared_buffers": "48MB", "max_connections": "20", "random_page_cost": "1.1"},
    {},
)
_PROGRAM = """
import itertools, json, sys, time
from pathlib import Path
from pgdyno.model.configuration import Configuration
from pgdyno.undo.apply import Session
from pgdyno.control.control_record import from_record
from pgdyno.linux.cpu import ServerCpu
from pgdyno.server.postgres import Postgres
from pgdyno.owner.runner import LocalRunner
from pgdyno.targets.target import Target
from pgdyno.undo.watch import Deadlines

given = json.loads(sys.argv[1])
postgres, runner = Postgres(given["conninfo"]), LocalRunner()
control = from_record(given["control"], runner=runner, postgres=postgres)
target = Target("child", postgres, runner, control, Path(given["control"]["bin_dir"]), given["control"]["user"],
                True, Path(given["control"]["data_directory"]), ServerCpu.unavailable("not measured here"))
watch = Deadlines(**given["watch"]) if given["watch"] else None
print("ready", flush=True)
with Session.begin(target, study="killed", undo_root=Path(given["undo_root"]), kernel=given["kernel"],
                   watch=watch) as session:
    print("begun", flush=True)
    for settings in itertools.cycle(given["configurations"]):
        session.apply(Configuration.of(settings))
        print("applied", flush=True)
        if given["hold"]:
            time.sleep(3600)
"""


def begin_python(program: str, *words: str) -> subprocess.Popen[str]:
    """Start Python on a text."""
    command = [sys.executable, "-c", program, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


begin = begin_python
"""How a tuner is started. Tests have another way, at less CPU time."""


@contextmanager
def tuner_of(
    sandbox: Sandbox,
    undo_root: Path,
    *,
    watch: Deadlines | None = None,
    configurations: Sequence[Mapping[str, str]] = CONFIGURATIONS,
    kernel: Sequence[str] = (),
    hold: bool = False,
    conninfo: str | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run the process and wait until it is about to begin. With `hold` it stays in the first configuration.

    `conninfo` is how it reaches the server where that is not the sandbox's own way.
    """
    target = sandbox.target()
    given = {
        "conninfo": conninfo or target.postgres.conninfo,
        "control": to_record(target.control),
        "undo_root": str(undo_root),
        "watch": None if watch is None else asdict(watch),
        "configurations": configurations,
        "kernel": kernel,
        "hold": hold,
    }
    with begin(_PROGRAM, json.dumps(given)) as tuner:
        await_line(tuner, "ready")
        try:
            yield tuner
        finally:
            tuner.kill()


def await_line(tuner: subprocess.Popen[str], line: str) -> None:
    """Read the process's output up to this line."""
    assert tuner.stdout is not None
    for found in tuner.stdout:
        if found.strip() == line:
            return
    assert tuner.stderr is not None
    raise AssertionError(f"the tuner ended before {line!r}: {tuner.stderr.read()}")


def await_down(sandbox: Sandbox, tuner: subprocess.Popen[str]) -> None:
    """Wait until the process has stopped the server: one of its restarts is seen, however short the time between."""
    deadline = time.monotonic() + PATIENCE_S
    while postmaster_lock.postmaster_pid(sandbox.data_directory) is not None:
        assert tuner.poll() is None, "the tuner ended by itself"
        assert time.monotonic() < deadline, "the server was never seen to be down"
        time.sleep(0.001)


def newest(undo_root: Path) -> UndoBundle:
    """Open the bundle of the newest session."""
    return UndoBundle.open(bundle_directories(undo_root)[0])
