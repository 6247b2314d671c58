"""The session's side of its watchdog: start it, beat for it, see that it lives, let it go.

The watchdog is two processes that this one starts and does not need any more (see watchdog.py). Nothing is changed
on the server before they stand.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pgdyno
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.target import watch_record
from pgdyno.target.bundle import UndoBundle
from pgdyno.target.heartbeat import Heart
from pgdyno.target.identity import wait_until
from pgdyno.target.watch_record import Deadlines, Role

__all__ = ["RESTART_LEASE_S", "Deadlines", "Watch"]

log = logging.getLogger(__name__)

RESTART_LEASE_S = 330.0
"""How long a restart by the session may keep the server down: the control's own bound and a little."""
_START_S = 30.0
_LEAVE_S = 10.0


@dataclass
class Watch:
    """A watchdog that watches this process, and the heart that beats for it."""

    bundle: UndoBundle
    heart: Heart
    processes: list[subprocess.Popen[bytes]]

    @classmethod
    def start(cls, bundle: UndoBundle, deadlines: Deadlines, *, sleep: Callable[[float], None] = time.sleep) -> Watch:
        """Start the watchdog and wait until it stands. Raises EnvironmentUnsuitable with its own words if not."""
        watch_record.write_deadlines(bundle.directory, deadlines)
        watch = cls(bundle, Heart(bundle.directory), [])
        watch.heart.start(each=watch.see_to_it)
        watch.processes.append(spawn(bundle.directory))
        if not wait_until(watch.stands, timeout_s=_START_S, sleep=sleep):
            watch.heart.stop()
            watch.processes[0].kill()
            watch.processes[0].wait()
            raise EnvironmentUnsuitable(
                f"the watchdog of session {bundle.id} did not start",
                detail=watch_record.last_words(bundle.directory) or f"It did not report within {_START_S:g} s.",
                hint="Nothing was changed. Mend what the detail names and try again.",
            )
        return watch

    def stands(self) -> bool:
        """Tell whether the process that watches is there."""
        identity = watch_record.identity(self.bundle.directory, Role.FIRST)
        return identity is not None and identity.is_alive()

    def see_to_it(self) -> None:
        """Start a watchdog again when both of its processes are gone; each of them does so for the other."""
        self.processes = [process for process in self.processes if process.poll() is None]
        found = [watch_record.identity(self.bundle.directory, role) for role in Role]
        if self.processes or any(identity is not None and identity.is_alive() for identity in found):
            return
        if not self.bundle.is_closed():
            log.warning("the watchdog of session %s was gone and is started again", self.bundle.id)
            self.processes.append(spawn(self.bundle.directory))

    def leave(self) -> None:
        """Stop to beat, after the bundle was closed: the watchdog sees that and leaves too. Idempotent."""
        self.heart.stop()
        for process in self.processes:
            try:
                process.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                log.warning("watchdog process %d of session %s still runs", process.pid, self.bundle.id)


def spawn(directory: Path) -> subprocess.Popen[bytes]:
    """Start one watchdog process in a session of its own, so that neither Ctrl-C nor a hang-up reaches it."""
    package_root = str(Path(pgdyno.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package_root, inherited] if inherited else [package_root])
    with watch_record.open_log(directory) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pgdyno.target.watchdog", str(directory)],
            env={**os.environ, "PYTHONPATH": path},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
