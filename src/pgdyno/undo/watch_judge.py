"""When a watchdog acts, and how long one waits that follows others which soon came to an end: pure judgements."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.server.health import Health
from pgdyno.undo.heartbeat import Beat
from pgdyno.undo.watch_record import Deadlines

LONGEST_PAUSE_S = 30.0
HELD_S = 60.0
"""A turn that lasts so long, the longest pause at its begin among it, was no failure."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of a first watchdog: when it began, on the host's monotonic clock, and how many short ones it follows.

    The first two that take over do so at once: they were killed. Who follows more of them waits, each twice as long.
    """

    began: float
    short: int = 0

    def followed(self, now: float) -> Turn:
        """Return the turn of the process that takes over now."""
        return Turn(now, self.short + 1 if now - self.began < HELD_S else 0)

    @property
    def pause_s(self) -> float:
        """Return for how many seconds it rests before it watches."""
        pause_s = 0.0
        for _ in range(min(self.short - 1, 9)):
            pause_s = grown(pause_s)
        return pause_s


def grown(pause_s: float, *, least_s: float = 1.0) -> float:
    """Return the pause that follows one of so many seconds: twice as long, and within bounds."""
    return max(least_s, min(2 * pause_s, LONGEST_PAUSE_S))


@dataclass(frozen=True, slots=True)
class WatchdogView:
    """What the watchdog sees at one moment; times in seconds of the host's monotonic clock.

    `awake_since`: when the watchdog began, or last went on after it was itself stopped. `unhealthy_since`: the first
    of the unbroken run of answers that were not `alive`, None when the last one was, or could not be asked for.
    """

    now: float
    awake_since: float
    owner: int
    owner_is_alive: bool
    beat: Beat | None
    health: Health
    unhealthy_since: float | None


def reason_to_act(view: WatchdogView, deadlines: Deadlines) -> str | None:
    """Return why the server has to be put back now, None while all is well or not late enough.

    A host that was stopped as a whole (a paused virtual machine) makes everybody look late at once, so no time counts
    from before the watchdog itself was awake.
    """
    if not view.owner_is_alive:
        return f"process {view.owner} is gone"
    beat = view.beat or Beat(at=view.awake_since)
    silent_s = view.now - max(beat.at, view.awake_since)
    if silent_s > deadlines.heartbeat_s:
        return f"process {view.owner} has sent no heartbeat for {silent_s:.0f} s"
    late_s = view.now - max(beat.until, view.awake_since)
    if late_s > deadlines.heartbeat_s:
        return f"process {view.owner} is {late_s:.0f} s late with: {beat.doing}"
    if view.unhealthy_since is not None:
        down_s = view.now - max(view.unhealthy_since, beat.down_until, view.awake_since)
        if down_s > deadlines.health_s:
            return f"the server has been {view.health} for {down_s:.0f} s"
    return None
