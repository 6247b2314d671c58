"""A capture while it runs: time, size, whoever ends it, a guard, or what others set: what comes first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from pgdyno.model.guard import Absent, Failed
from pgdyno.probes.guards.volumes import Volume
from pgdyno.studies.capture.log_folder import look_at_disk
from pgdyno.studies.capture.plan import CaptureOptions
from pgdyno.targets.server_log import LogFile
from pgdyno.trial.guards import GuardStatus
from pgdyno.units import bytes_text, seconds_text

TURN_S = 0.25
LOOK_S = 1.0
OTHERS_S = 10.0
DRAIN_S = 5.0
FIRST_SAID_S, SAID_S = 10.0, 60.0
OVERRUN_S = 60.0
"""So long after it was heard of, a capture is taken for hung: the watchdog puts the logging back."""
RATE_S = 60.0
TIME, SIZE, STOPPED = "time", "size", "stopped"


class Guards(Protocol):
    """What watching needs of `trial.sentry.Sentry`."""

    def watch(self) -> AbstractContextManager[None]:
        """Tick until the block ends."""

    def check(self) -> None:
        """Raise GuardBreached after a breach."""

    def interrupting(self) -> AbstractContextManager[None]:
        """Let a breach interrupt what is waited for in the block."""


@dataclass(slots=True, kw_only=True)
class CaptureWatch:
    """One capture whose logging is on. `expect` promises the watchdog to be back; `logging` reads what was set.

    `files` lists the capture's files, `free` reads the room of their file system, `seen` is told both files and bytes
    a second of the last minute.
    """

    options: CaptureOptions
    expect: Callable[[str, float | None], None]
    sentry: Guards
    is_stopped: Callable[[], bool]
    files: Callable[[], Sequence[LogFile]]
    free: Callable[[], Volume | Absent | Failed]
    logging: Callable[[], Mapping[str, str]]
    seen: Callable[[Sequence[LogFile], float], None]
    announce: Callable[[str], None]
    drain: Callable[[], None] | None = None
    """Takes the commits so far, where their order was asked for."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sizes: deque[tuple[float, int]] = field(default_factory=deque)
    _status: dict[str, GuardStatus] = field(default_factory=dict)

    def until_its_end(self) -> str:
        """Wait, and return what ended it. Raises GuardBreached, and EnvironmentUnsuitable for what cannot be seen."""
        began, logging = self.clock(), self.logging()
        ends, looks, asks, says = began + self.options.seconds, began, began + OTHERS_S, began + FIRST_SAID_S
        drains = began
        with self.sentry.watch():
            while (now := self.clock()) < ends:
                self.sentry.check()
                if self.is_stopped():
                    return STOPPED
                if now >= looks:
                    self.expect("capture", OVERRUN_S)
                    looks = now + LOOK_S
                    if self._look(now) >= self.options.max_bytes:
                        return SIZE
                if now >= asks:
                    asks = now + OTHERS_S
                    if changed := self._changed(logging):
                        return changed
                if self.drain is not None and now >= drains:
                    drains = now + DRAIN_S
                    with self.sentry.interrupting():
                        self.drain()
                if now >= says:
                    says = now + SAID_S
                    self._say(ends - now)
                self.sleep(min(TURN_S, max(0.0, ends - now)))
        return TIME

    @property
    def bytes_per_s(self) -> float:
        """Return the rate of the last minute."""
        (first_at, first), (last_at, last) = self._sizes[0], self._sizes[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    def _look(self, now: float) -> int:
        """See how large the log is and whether its disk has room."""
        with self.sentry.interrupting():
            files = self.files()
        size = sum(file.size for file in files)
        self._sizes.append((now, size))
        while self._sizes[0][0] < now - RATE_S:
            self._sizes.popleft()
        self.seen(files, self.bytes_per_s)
        self._guard_disk()
        return size

    def _guard_disk(self) -> None:
        self._status = look_at_disk(self.free(), self.options.guards, self._status)

    def _changed(self, logging: Mapping[str, str]) -> str | None:
        """Return who ends it where somebody has set what the capture relies on; None where nobody has."""
        with self.sentry.interrupting():
            now = self.logging()
        changed = sorted(name for name in logging if now.get(name) != logging[name])
        return f"somebody else has set {changed[0]} to {now.get(changed[0])}" if changed else None

    def _say(self, left_s: float) -> None:
        size = self._sizes[-1][1]
        self.announce(
            f"{bytes_text(size)} of log, {bytes_text(60 * self.bytes_per_s)} a minute; {seconds_text(left_s)} left"
        )
