"""What an engine waits by: its sockets, a timer, and a descriptor by which its threads wake it."""

from __future__ import annotations

import os
import select
import time

from pgdyno.trace.engine.timer import Timer

LATE_US = 2000
"""Lateness of the engine that is passed on to what a session sends next; less may be of any machine."""
NEVER = 1 << 62
_PULSE_US = 10_000
"""It wakes at least so often, so that one that was kept from running knows since when."""
_NEAR_US = 10
"""What is due within it is looked out for: to sleep and to wake up takes as long of the processor."""


class Poll:
    """One epoll with what wakes it; sockets are registered by who has them."""

    def __init__(self) -> None:
        self.epoll, self._timer = select.epoll(), Timer()
        self.wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._armed = -NEVER
        """For when the timer is set, or was: a look at the sockets that found it expired was before `now` of the next
        wait, so that a moment which is past is never waited for again."""
        self.away = NEVER
        """Since when, in us since the begin, the last wait was to be over and was not, where that matters."""
        self.epoll.register(self._timer.fd, select.EPOLLIN | select.EPOLLET)  # its expiry need not be read
        self.epoll.register(self.wake, select.EPOLLIN)

    def wait(self, begin_ns: int, now: int, until: int) -> list[tuple[int, int]]:
        """Return what is ready: descriptors with their events; none where it waited until `until`, in us."""
        if until - now <= _NEAR_US:
            over, ready = until, self.epoll.poll(0)
        else:
            pulse = now + _PULSE_US
            if until <= pulse:
                self._armed = until
            elif not now < self._armed <= pulse:
                self._armed = pulse
            over = self._armed
            self._timer.arm(begin_ns + over * 1000)
            ready = self.epoll.poll()
        late = (time.monotonic_ns() - begin_ns) // 1000 - over
        self.away = over if late >= LATE_US else NEVER
        return ready

    def close(self) -> None:
        """Give the descriptors back."""
        self._timer.close()
        os.close(self.wake)
        self.epoll.close()
