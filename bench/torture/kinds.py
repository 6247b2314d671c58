"""The kinds of kills: who is ended or stopped, how, and at which moment of a session."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from state import children_of, postmaster_of, running_with

from pgdyno.undo import watch_record
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.watch_record import WatchdogRole

WAIT_S = 20.0


class When(Enum):
    """The moment at which a kind strikes."""

    ANY = "at any instant"
    FIRST = "as soon as there is a bundle"


@dataclass
class Victims:
    """Everybody who can be ended. `notes` takes what did not happen as it must."""

    tuner: subprocess.Popen[bytes]
    data: Path
    find: Callable[[], UndoBundle | None]
    draw: random.Random
    notes: list[str] = field(default_factory=list)
    struck: float | None = None
    """When the last blow fell, where more has to be waited for after it."""

    @property
    def bundle(self) -> UndoBundle | None:
        """Return the bundle of the session that is open, None before there is one."""
        return self.find()

    def watchdog(self, role: WatchdogRole) -> int | None:
        """Return the process that plays this role."""
        bundle = self.bundle
        found = watch_record.identity(bundle.directory, role) if bundle else None
        return found.pid if found is not None and found.is_alive() else None

    def pause(self, longest_s: float) -> None:
        """Let some time pass, as long as the tuner lives."""
        self.wait(lambda: False, self.draw.uniform(0, longest_s))

    def wait(self, condition: Callable[[], bool], longest_s: float = WAIT_S) -> bool:
        """Wait for something as long as the tuner lives; tell whether it came."""
        deadline = time.monotonic() + longest_s
        while time.monotonic() < deadline and self.tuner.poll() is None:
            if condition():
                return True
            time.sleep(0.002)
        return condition()

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the tuner. One that it ignores would prove nothing, and is noted."""
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self.tuner.pid}/status").read_text()
            ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:")).split()[1]
            if int(ignored, 16) >> (number - 1) & 1:
                self.notes.append(f"not delivered: the tuner ignores {number.name}")
        if self.tuner.poll() is None:
            self.tuner.send_signal(number)

    def must_end(self, *codes: int) -> None:
        """See that the tuner ends by the signal that it was sent; 0 is a tune that was complete at that moment."""
        self.struck = time.monotonic()
        try:
            code = self.tuner.wait(120)
        except subprocess.TimeoutExpired:
            self.notes.append("not delivered: the tuner lives 120 s after the signal")
            self.tuner.kill()
            return
        if code not in (*codes, 0):
            self.notes.append(f"not delivered: the tuner ended with {code} instead of {' or '.join(map(str, codes))}")


def send(number: signal.Signals, *pids: int | None) -> None:
    """Signal those that are there."""
    for pid in pids:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


KILL, STOP, CONT = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
INTERRUPTED = (130, -signal.SIGINT)
"""The second is an interrupt before Python was up."""


def tuner(victims: Victims) -> None:
    """End the tuner."""
    victims.tuner.kill()


def tuner_then_watchdog(victims: Victims) -> None:
    """End the tuner, and the watchdog while it wakes up or restores."""
    victims.tuner.kill()
    time.sleep(victims.draw.uniform(0, 1.5))
    send(KILL, victims.watchdog(WatchdogRole.FIRST))


def watchdog_then_tuner(victims: Victims) -> None:
    """End the watchdog, and the tuner while the second takes over."""
    send(KILL, victims.watchdog(WatchdogRole.FIRST))
    victims.pause(1.5)
    victims.tuner.kill()


def second_watchdog(victims: Victims) -> None:
    """End the one that sleeps, let it be replaced or not, then end the tuner."""
    send(KILL, victims.watchdog(WatchdogRole.SECOND))
    victims.pause(1.5)
    victims.tuner.kill()


def both_watchdogs(victims: Victims) -> None:
    """End both at once: the tuner, who lives, has to start them again before it is ended itself."""
    found = [victims.watchdog(role) for role in WatchdogRole]
    send(STOP, *found)  # so that neither sees the other die
    send(KILL, *found)
    bundle = victims.bundle
    if bundle is not None:
        back = victims.wait(lambda: bundle.is_closed() or victims.watchdog(WatchdogRole.FIRST) not in (None, *found))
        if not back and victims.tuner.poll() is None:
            victims.notes.append(f"watchdogs: both were ended, and none came back within {WAIT_S:g} s")
    victims.tuner.kill()


def postmaster(victims: Victims) -> None:
    """Crash the server. The tune lives: it may go on for a while, and is then asked to end."""
    send(KILL, postmaster_of(victims.data))
    victims.pause(8)
    victims.tell(signal.SIGTERM)


def checkpointer(victims: Victims) -> None:
    """Crash a part of the server: the postmaster starts all of it anew by itself. Then end the tuner."""
    pid = postmaster_of(victims.data)
    parts = running_with("checkpointer") if pid is not None else {}
    send(KILL, *(part for part in parts if pid is not None and part in children_of(pid)))
    victims.pause(3)
    victims.tuner.kill()


def frozen_postmaster(victims: Victims) -> None:
    """Stop the server, as a debugger does, then end the tuner."""
    send(STOP, postmaster_of(victims.data))
    victims.pause(3)
    victims.tuner.kill()


def interrupt(victims: Victims) -> None:
    """Press Ctrl-C."""
    victims.tell(signal.SIGINT)
    victims.must_end(*INTERRUPTED)


def interrupt_twice(victims: Victims) -> None:
    """Press Ctrl-C again while the server is put back."""
    victims.tell(signal.SIGINT)
    victims.pause(0.5)
    victims.tell(signal.SIGINT)
    victims.must_end(*INTERRUPTED)


def terminate(victims: Victims) -> None:
    """Send SIGTERM."""
    victims.tell(signal.SIGTERM)
    victims.must_end(130, 143, -signal.SIGTERM)


def hang_up(victims: Victims) -> None:
    """Close the terminal."""
    victims.tell(signal.SIGHUP)
    victims.must_end(130, 129, -signal.SIGHUP)


def quit_(victims: Victims) -> None:
    r"""Press Ctrl-\."""
    victims.tell(signal.SIGQUIT)


def frozen_tuner(victims: Victims) -> None:
    """Stop the tuner: it gives no sign of life, and cannot hear that it is to end.

    Without a session nobody watches over it, and it has changed nothing: then it is ended.
    """
    victims.tell(STOP)
    if victims.watchdog(WatchdogRole.FIRST) is None:
        victims.tuner.kill()


def frozen_watchdog(victims: Victims) -> None:
    """Stop the watchdog, end the tuner, and let the watchdog go on later."""
    watchdog = victims.watchdog(WatchdogRole.FIRST)
    send(STOP, watchdog)
    victims.pause(1)
    victims.tuner.kill()
    time.sleep(victims.draw.uniform(0, 3))
    send(CONT, watchdog)


def owner_worker(victims: Victims) -> None:
    """End the process that works on the server's files, in the tuner's and in the watchdogs' hands, then the tuner."""
    parents = {victims.tuner.pid, victims.watchdog(WatchdogRole.FIRST)}
    workers = [pid for pid in running_with("pgdyno.owner") if _parent(pid) in parents]
    send(KILL, *workers)
    victims.pause(1)
    victims.tuner.kill()


def load(victims: Victims) -> None:
    """End the load generator, and the tuner while it makes of that what it can."""
    send(KILL, *(pid for pid in _below(victims.tuner.pid) if "pgbench" in _name(pid)))
    victims.pause(2)
    victims.tuner.kill()


def in_a_restart(victims: Victims) -> None:
    """End the tuner while it has the server down."""
    victims.wait(lambda: postmaster_of(victims.data) is None)
    time.sleep(victims.draw.uniform(0, 0.1))
    victims.tuner.kill()


def group(victims: Victims) -> None:
    """End the tuner with everything in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(victims.tuner.pid, KILL)


def first_instant(victims: Victims) -> None:
    """End the tuner at the beginning of its session: the kind says when."""
    victims.pause(0.3)
    victims.tuner.kill()


def last_instant(victims: Victims) -> None:
    """End the tuner while it puts the server back itself, up to the record that closes the session."""
    victims.tell(signal.SIGTERM)
    bundle = victims.bundle
    if bundle is not None:
        victims.wait(lambda: not (bundle.directory / "reserve").exists())
    victims.pause(0.4)
    victims.tuner.kill()


def out_of_memory(victims: Victims) -> None:
    """End what the kernel would take first when memory is short, of all that are in play, then the tuner."""
    pid = postmaster_of(victims.data)
    server = [] if pid is None else [pid, *children_of(pid)]
    everyone = [victims.tuner.pid, *_below(victims.tuner.pid), *server, *map(victims.watchdog, WatchdogRole)]
    scores = {one: _oom_score(one) for one in everyone if one is not None}
    worst = max(scores.values())
    send(KILL, *(one for one, score in scores.items() if score == worst))
    victims.pause(2)
    victims.tuner.kill()


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _below(pid: int) -> Iterable[int]:
    for child in children_of(pid):
        yield child
        yield from _below(child)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def _oom_score(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/oom_score").read_text())
    except (OSError, ValueError):
        return 0


@dataclass(frozen=True)
class Kind:
    """A way to do harm. `often` is how many lots it has in the draw."""

    act: Callable[[Victims], None]
    when: When = When.ANY
    often: int = 2


KINDS: dict[str, Kind] = {
    "tuner": Kind(tuner, often=4),
    "tuner then watchdog": Kind(tuner_then_watchdog),
    "watchdog then tuner": Kind(watchdog_then_tuner),
    "second watchdog": Kind(second_watchdog),
    "both watchdogs": Kind(both_watchdogs, often=1),
    "postmaster": Kind(postmaster, often=1),
    "checkpointer": Kind(checkpointer),
    "SIGSTOP of the postmaster": Kind(frozen_postmaster, often=1),
    "SIGINT": Kind(interrupt),
    "SIGINT twice": Kind(interrupt_twice),
    "SIGTERM": Kind(terminate),
    "SIGHUP": Kind(hang_up),
    "SIGQUIT": Kind(quit_),
    "SIGSTOP of the tuner": Kind(frozen_tuner, often=1),
    "SIGSTOP of the watchdog": Kind(frozen_watchdog),
    "owner's worker": Kind(owner_worker),
    "load generator": Kind(load),
    "in a restart": Kind(in_a_restart, often=4),
    "process group": Kind(group),
    "first instant": Kind(first_instant, When.FIRST),
    "last instant": Kind(last_instant),
    "out of memory": Kind(out_of_memory),
}


def drawn(draw: random.Random, only: Iterable[str] = ()) -> str:
    """Draw a kind, of these or of all."""
    names = list(only) or list(KINDS)
    return draw.choices(names, [KINDS[name].often for name in names])[0]
