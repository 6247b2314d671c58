"""The session's side of its watchdog: start it, beat for it, see that it lives, let it go.

The watchdog is two processes that this one starts and does not need any more (see watchdog.py). Nothing is changed
on the server before both stand, with the proof that they can put it back (see watch_proof.py). Passwords go to them
through a pipe that nobody else can open, never in arguments, variables or files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pgdyno
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import wait_until
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.server.postgres import secret_variables
from pgdyno.undo import heartbeat, watch_record
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.heartbeat import Heart
from pgdyno.undo.watch_judge import Turn
from pgdyno.undo.watch_record import Deadlines, WatchdogRole

__all__ = ["RESTART_LEASE_S", "Deadlines", "Watch"]

log = logging.getLogger(__name__)

RESTART_LEASE_S = 330.0
"""How long a restart by the session may keep the server down: the control's own bound and a little."""
_START_S = 30.0
_LEAVE_S = 10.0


@dataclass
class Watch:
    """A watchdog that watches this process, and the heart that beats for it.

    `secrets` are libpq's, which the watchdog needs where only SQL restores, and uses to compare elsewhere.
    """

    bundle: UndoBundle
    heart: Heart
    processes: list[subprocess.Popen[bytes]]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    turn: Turn | None = None
    """Of the pair that was started last; of one that soon ended, the next waits before it is started."""

    @classmethod
    def start(
        cls,
        bundle: UndoBundle,
        deadlines: Deadlines,
        *,
        secrets: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Watch:
        """Start the watchdog and wait until both stand. Raises EnvironmentUnsuitable with their own words if not.

        They watch the session of `bundle`, in which they find their `deadlines`. `secrets` are those of
        `Postgres.secrets`, which they are told through a pipe; None for none. `sleep` takes seconds.
        """
        watch_record.write_deadlines(bundle.directory, deadlines)
        watch = cls(bundle, Heart(bundle.directory), [], secrets or {})
        watch.heart.start(each=watch.see_to_it)
        watch.processes.append(spawn(bundle.directory, watch.secrets))
        if not wait_until(watch.stands, timeout_s=_START_S, sleep=sleep):
            watch.heart.stop()
            watch.processes[0].kill()
            watch.processes[0].wait()
            raise EnvironmentUnsuitable(
                f"the watchdog of session {bundle.id} did not start",
                detail=watch_record.last_words(bundle.directory) or f"It did not report within {_START_S:g} s.",
                hint="Nothing was changed. Fix what the detail names and retry.",
            )
        return watch

    def stands(self) -> bool:
        """Tell whether both are there: the process that watches, and the other that waits to take its place."""
        found = [watch_record.identity(self.bundle.directory, role) for role in WatchdogRole]
        alive = {identity.pid for identity in found if identity is not None and identity.is_alive()}
        return len(alive) == len(WatchdogRole)

    def require_proof(self) -> None:
        """See that both can restore the server. Raises EnvironmentUnsuitable that says why one cannot.

        To be asked before the first change: later a server may be down for good reasons.
        """
        for role in WatchdogRole:
            entry = watch_record.entry(self.bundle.directory, role)
            if entry is not None and entry.obstacle is not None:
                message, detail, hint = entry.obstacle
                raise EnvironmentUnsuitable(
                    f"the watchdog could not restore the server if pgdyno was killed: {message}",
                    detail=detail,
                    hint=f"Nothing was changed. {hint or 'Fix the problem and retry.'}",
                )

    def see_to_it(self) -> None:
        """Start a watchdog again when both of its processes are gone; each of them does so for the other.

        At once where it was killed; where none can be started or stays, after a pause that grows.
        """
        self.processes = [process for process in self.processes if process.poll() is None]
        found = [watch_record.identity(self.bundle.directory, role) for role in WatchdogRole]
        if self.processes or any(identity is not None and identity.is_alive() for identity in found):
            return
        now = heartbeat.now()
        turn = Turn(now) if self.turn is None else self.turn.followed(now)
        if self.bundle.is_closed() or (self.turn is not None and now - self.turn.began < turn.pause_s):
            return
        self.turn = turn
        log.warning("the watchdog of session %s was gone and is started again", self.bundle.id)
        try:
            self.processes.append(spawn(self.bundle.directory, self.secrets))
        except OSError as error:
            log.warning("the watchdog of session %s cannot be started: %s", self.bundle.id, error)

    def leave(self) -> None:
        """Stop to beat, after the bundle was closed: the watchdog sees that and leaves too. Idempotent."""
        self.heart.stop()
        for process in self.processes:
            try:
                process.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                log.warning("watchdog process %d of session %s still runs", process.pid, self.bundle.id)


def spawn(directory: Path, secrets: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start one watchdog process in a session of its own, so that neither Ctrl-C nor a hang-up reaches it.

    Its standard input is a pipe with the secrets; its variables hold none of libpq's.
    """
    package_root = str(Path(pgdyno.__file__).parent.parent)
    environment = inherited(ProgramKind.OURSELVES)
    others = environment.get("PYTHONPATH")
    path = os.pathsep.join([package_root, others] if others else [package_root])
    for name in secret_variables():
        environment.pop(name, None)
    with watch_record.open_log(directory) as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgdyno.undo.watchdog", str(directory)],
            env={**environment, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has ended already: who waits for it sees that
        process.stdin.write(json.dumps(dict(secrets)).encode() + b"\n")
    with contextlib.suppress(OSError):
        process.stdin.close()
    return process


def take_secrets() -> dict[str, str] | None:
    """Return, in a process that `spawn` started, what it was given, and close the way that it came.

    None when whoever started it was killed before it had given them all.
    """
    given = sys.stdin.buffer.readline()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not given.endswith(b"\n"):
        return None
    return {str(name): str(value) for name, value in json.loads(given).items()}
