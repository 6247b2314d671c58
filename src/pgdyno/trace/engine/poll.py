"""What an engine waits by: its sockets, a timer, and a descriptor by which its threads wake it."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time

LATE_US = 2000
"""Lateness of the engine that is passed on to what a session sends next; less may be of any machine."""
NEVER = 1 << 62
_PULSE_US = 10_000
"""It wakes at least so often, so that one that was kept from running knows since when."""
_NEAR_US = 10
"""What is due within it is looked out for: to sleep and to wake up takes as long of the processor."""

_ABSOLUTE, _NONBLOCK = 1, 0o4000
_SPEC = struct.Struct("@qqqq")
"""`struct itimerspec`: interval, then when, each in seconds and nanoseconds."""


class _Timer:
    """A timerfd on the clock of `time.monotonic_ns`: epoll counts milliseconds. Python has it from 3.13 on."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._set = self._libc.timerfd_settime
        self._spec = ctypes.create_string_buffer(_SPEC.size)
        self._armed = 0

    def arm(self, at_ns: int) -> None:
        """Make the descriptor readable from `at_ns` on; costs nothing where it is armed for that already."""
        if at_ns == self._armed:
            return
        self._armed = at_ns
        _SPEC.pack_into(self._spec, 0, 0, 0, *divmod(max(at_ns, 1), 1_000_000_000))
        self._set(self.fd, _ABSOLUTE, self._spec, None)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


class Poll:
    """One epoll with what wakes it; sockets are registered by who has them."""

    def __init__(self) -> None:
        self.epoll, self._timer = select.epoll(), _Timer()
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
