"""The sign of life of a session: one small file in the undo bundle, rewritten in place once a second.

It holds the time of the last beat and two promises of the main thread: `until`, by when it will promise again (a
study that hangs does not), and `down_until`, how long the server may be down because the session is restarting it.
Times are of CLOCK_MONOTONIC, which all processes of a host share: no clock adjustment and no suspended host makes a
beat look old. The file never grows, so a full disk cannot stop it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

NAME = "heartbeat"
PERIOD_S = 1.0
_SIZE = 256


log = logging.getLogger(__name__)


def now() -> float:
    """Return the host's monotonic time in seconds."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Beat:
    """One sign of life; `doing` is for people. Infinite `until` promises nothing."""

    at: float
    until: float = math.inf
    down_until: float = 0.0
    doing: str = ""


def write(folder: Path, beat: Beat) -> None:
    """Write the beat in place: one write call of a fixed length below a page, which a reader sees whole."""
    text = json.dumps(asdict(replace(beat, doing=beat.doing[:60]))).encode()
    with (folder / NAME).open("r+b" if (folder / NAME).exists() else "w+b", buffering=0) as file:
        file.write(text.ljust(_SIZE))


def read(folder: Path) -> Beat | None:
    """Return the last beat, None when there is none that can be read."""
    try:
        fields = json.loads((folder / NAME).read_bytes())
        return Beat(float(fields["at"]), float(fields["until"]), float(fields["down_until"]), str(fields["doing"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Heart:
    """Beats from a thread of its own until `stop`."""

    def __init__(self, folder: Path, *, period_s: float = PERIOD_S) -> None:
        self._folder = folder
        self._period_s = period_s
        self._each: Callable[[], None] | None = None
        self._beat = Beat(now())
        self._is_written = True
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgdyno-heartbeat", daemon=True)
        # Owner-only, as everything in a bundle; made before the watchdog looks for it.
        os.close(os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        write(folder, self._beat)

    def start(self, *, each: Callable[[], None] | None = None) -> None:
        """Begin to beat, and call `each` with every beat."""
        self._each = each
        self._thread.start()

    def stop(self) -> None:
        """Beat no more. Idempotent."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def expect(self, doing: str, within_s: float | None = None) -> None:
        """Promise to come back within so many seconds; without a number, promise nothing until the next call."""
        until = math.inf if within_s is None else now() + within_s
        self._write(lambda beat: replace(beat, until=until, doing=doing))

    @contextmanager
    def server_may_be_down(self, within_s: float) -> Iterator[None]:
        """Let the watchdog forgive a server that is down, for so long at most: the session is restarting it."""
        self._write(lambda beat: replace(beat, down_until=now() + within_s))
        try:
            yield
        finally:
            self._write(lambda beat: replace(beat, down_until=0.0))

    def _write(self, change: Callable[[Beat], Beat] = lambda beat: beat) -> None:
        with self._lock:
            self._beat = replace(change(self._beat), at=now())
            try:
                write(self._folder, self._beat)
            except OSError as error:  # the watchdog acts on it; here nothing better can be done
                if self._is_written:
                    log.warning("the heartbeat cannot be written: %s", error)
                self._is_written = False
            else:
                self._is_written = True

    def _run(self) -> None:
        while not self._stopped.wait(self._period_s):
            self._write()
            if self._each is not None:
                try:
                    self._each()
                except Exception:
                    # A heart that stops for a failed side task would end a healthy session.
                    log.exception("the task beside the heartbeat failed")
