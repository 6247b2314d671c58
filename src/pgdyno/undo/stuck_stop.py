"""End a shutdown of ours that hangs, at once and by a signal.

PostgreSQL 18 can wait for ever when it is told to stop fast while it recovers from a crash: recovery ends, and then the
postmaster, its checkpointer and its I/O workers all sleep (seen with 18.6: SIGKILL for the checkpointer and SIGINT for
the postmaster within a tenth of a second). Another fast stop is ignored, new sessions are told that it is shutting
down. An immediate shutdown ends it, and the next start recovers from WAL what was committed.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control import sighup
from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.linux import processes
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.linux.processes import ProcessStat

QUIET_S = 10.0
"""How long nobody of the family may have used the processor: a checkpoint that is being written waits in state D."""
_STEP_S = 0.5
_LAST = re.compile(r"postgres: (?:.*: )?(?:checkpointer|io worker \d+)")
"""Who is left at the end of a shutdown. Senders of WAL and the archiver may have something to wait for."""


def server_in(data_directory: Path | None) -> ProcessIdentity | None:
    """Return the postmaster of a directory of this host, None where there is none or it is out of reach."""
    try:
        return None if data_directory is None else sighup.postmaster(data_directory)
    except EnvironmentUnsuitable:
        return None


@contextmanager
def ended(postmaster: ProcessIdentity | None) -> Iterator[None]:
    """While the body stops this server, shut it down immediately if it hangs; None for a server out of reach."""
    if postmaster is None:
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(postmaster, over), name="pgdyno-stuck-stop", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(postmaster: ProcessIdentity, over: threading.Event) -> None:
    before, since = _Family(), time.monotonic()
    while not over.wait(_STEP_S) and postmaster.is_alive():
        now = _Family.of(postmaster.pid)
        if now.may_be_stuck and now.last == before.last and not now.others & before.others:
            if time.monotonic() - since >= QUIET_S:
                with contextlib.suppress(RestartError, PermissionError):  # it has ended; another user's
                    sighup.send(postmaster, signal.SIGQUIT)
                return
        else:
            since = time.monotonic()
        before = now


@dataclass(frozen=True, slots=True)
class _Family:
    """The children of a postmaster: the `last` of a shutdown with their times, and the numbers of the `others`.

    Of the others there may be some, as long as they come and go: who tries to connect is told that the server stops.
    """

    last: frozenset[ProcessStat] = frozenset()
    others: frozenset[int] = frozenset()
    has_checkpointer: bool = False

    @classmethod
    def of(cls, pid: int) -> _Family:
        titles = {child: _title(child.pid) for child in processes.children_of(pid) if not child.has_ended}
        last = frozenset(child for child, title in titles.items() if _LAST.fullmatch(title))
        others = frozenset(child.pid for child in titles if child not in last)
        return cls(last, others, any(titles[child].endswith("checkpointer") for child in last))

    @property
    def may_be_stuck(self) -> bool:
        return self.has_checkpointer and all(each.state == "S" for each in self.last)


def _title(pid: int) -> str:
    try:
        words = (processes.PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace").strip()
