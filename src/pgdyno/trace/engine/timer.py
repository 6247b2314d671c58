"""A timer of the kernel that wakes an epoll loop to the microsecond: epoll's own time-out counts milliseconds."""

from __future__ import annotations

import ctypes
import os
import struct
import time

_ABSOLUTE, _NONBLOCK = 1, 0o4000
_SPEC = struct.Struct("@qqqq")
"""`struct itimerspec`: interval, then when, each in seconds and nanoseconds."""


class Timer:
    """A timerfd on the clock of `time.monotonic_ns`; Python has it from 3.13 on."""

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
