"""When a watchdog acts: a pure judgement of what it sees."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.server.health import Health
from pgdyno.undo.heartbeat import Beat
from pgdyno.undo.watch_record import Deadlines


@dataclass(frozen=True, slots=True)
class WatchdogView:
    """What the watchdog sees at one moment; times in seconds of the host's monotonic clock.

    `awake_since`: when the watchdog began, or last went on after it was itself stopped. `unhealthy_since`: the first
    of the unbroken run of answers that were not `alive`, None when the last one was.
    """

    now: float
    awake_since: float
    owner: int
    owner_is_alive: bool
    beat: Beat | None
    health: Health
    unhealthy_since: float | None


def reason_to_act(sight: WatchdogView, deadlines: Deadlines) -> str | None:
    """Return why the server has to be put back now, None while all is well or not late enough.

    A host that was stopped as a whole (a paused virtual machine) makes everybody look late at once, so no time counts
    from before the watchdog itself was awake.
    """
    if not sight.owner_is_alive:
        return f"process {sight.owner} is gone"
    beat = sight.beat or Beat(at=sight.awake_since)
    silent_s = sight.now - max(beat.at, sight.awake_since)
    if silent_s > deadlines.heartbeat_s:
        return f"process {sight.owner} has sent no heartbeat for {silent_s:.0f} s"
    late_s = sight.now - max(beat.until, sight.awake_since)
    if late_s > deadlines.heartbeat_s:
        return f"process {sight.owner} is {late_s:.0f} s late with: {beat.doing}"
    if sight.unhealthy_since is not None:
        down_s = sight.now - max(sight.unhealthy_since, beat.down_until, sight.awake_since)
        if down_s > deadlines.health_s:
            return f"the server has been {sight.health} for {down_s:.0f} s"
    return None
