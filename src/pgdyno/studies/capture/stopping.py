"""End a capture from another terminal, and wait for what it still has to do: restore the logging, copy the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.studies.capture.register import CaptureState, KnownCapture, find_capture
from pgdyno.units import bytes_text, seconds_text

STOP_S = 120.0
STILL_S = 60.0
"""A copy of which nothing has come for so long is waited for no more; how long a whole one takes nobody can say."""
_TURN_S, _SAY_S = 0.2, 5.0


def stop_capture(
    known: KnownCapture,
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> KnownCapture:
    """Ask a capture to end, where it runs, and return it once the log is where it was asked for.

    `known` is the capture as it was found. `tell` hears every five seconds how far a copy is; `clock` returns seconds
    that never go back, and `sleep` waits for so many. Ctrl-C ends the waiting alone, and its KeyboardInterrupt tells
    what goes on. Raises UsageError for one that does not end, EnvironmentUnsuitable for a copy that stands still.
    """
    try:
        if known.state is CaptureState.RUNNING:
            known.stop()
            known = _ended(known, clock, sleep)
        return _copied(known, tell, clock, sleep)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"process {known.progress.process.pid} goes on: pgdyno capture status shows when it has ended"
        ) from None


def copy_text(known: KnownCapture) -> str:
    """Say how much of the log is copied."""
    return f"{bytes_text(known.progress.copied)} of {bytes_text(known.progress.to_copy or 0)}"


def _ended(known: KnownCapture, clock: Callable[[], float], sleep: Callable[[float], None]) -> KnownCapture:
    deadline = clock() + STOP_S
    while known.state is CaptureState.RUNNING:
        if clock() >= deadline:
            raise UsageError(
                f"capture {known.record.id} has not ended within {seconds_text(STOP_S)}",
                hint=f"See what its terminal says, or end process {known.progress.process.pid}: the watchdog restores.",
            )
        sleep(_TURN_S)
        known = find_capture(known.record.id)
    return known


def _copied(
    known: KnownCapture, tell: Callable[[str], None], clock: Callable[[], float], sleep: Callable[[float], None]
) -> KnownCapture:
    copied, moved, said = -1, clock(), clock() - _SAY_S
    while known.state is CaptureState.COPYING:
        now = clock()
        if known.progress.copied != copied:
            copied, moved = known.progress.copied, now
        if now - moved > STILL_S:
            raise EnvironmentUnsuitable(
                f"the copy of capture {known.record.id} stands still: {copy_text(known)}",
                detail=f'The server logs as it did before, and the log stays in "{known.record.log_directory}".',
                hint=f"See what its terminal says, or end process {known.progress.process.pid}.",
            )
        if now - said >= _SAY_S:
            said = now
            tell(f"the server logs as it did before; copying the log: {copy_text(known)}")
        sleep(_TURN_S)
        known = find_capture(known.record.id)
    return known
