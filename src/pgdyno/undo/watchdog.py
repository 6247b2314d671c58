"""The watchdog: restores the server when the session that changed it does not.

    python -m pgdyno.undo.watchdog BUNDLE

Runs on the database host, in a session of its own, beside the tuner and without needing it, its terminal, its store
or a free connection. Two processes: the first watches; the second sleeps on a lock that the kernel hands over when
the first dies, becomes the first, and forks another second. It acts when the tuner is gone, gives no sign of life,
stays longer than it promised, or when the server does not answer past its deadline: it ends the tuner, so that
nothing is written behind its back, and restores as `pgdyno rollback` does, again and again until that has worked. An
error that nobody foresaw ends neither: the first goes on after a pause that grows. Who takes over after turns that were
short, however they ended, rests as long, or two would replace each other as fast as they can.
What it needs for that it proves at its start; passwords, where SQL is the only way, come by standard input. It leaves
when the bundle is closed, or to a person when others have set something meanwhile that no repetition ends, or when
the bundle was deleted. SIGTERM has it restore the server at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.linux.identity import ProcessIdentity, end_process, wait_until
from pgdyno.server import health
from pgdyno.server.health import Health
from pgdyno.server.postgres import Postgres
from pgdyno.undo import heartbeat, rollback, watch_proof, watch_record
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.watch import take_secrets
from pgdyno.undo.watch_judge import HELD_S, Turn, WatchdogView, grown, reason_to_act
from pgdyno.undo.watch_record import WatchdogRole

TICK_S = 0.5
ASK_EVERY_S = 1.0
GIVE_UP_S = 24 * 3600.0
DELETED_S = 3600.0
"""How long a bundle may be missing from an undo folder that is there: a rename."""
_UNLINKED_S = 60.0
"""The same when its files have no name left: only a copy from a backup brings it back."""
_RESPAWN_S = 5.0
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_DAMAGE_ATTEMPTS = 3


class _Second(BaseException):
    """Raised in the process that the first one has forked: leave its work, and wait for the end of its turn."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn


def main(argv: list[str]) -> int:
    """Watch until the session is over; 0 when it ended well or was restored whole, 5 when damage is left.

    1 where it cannot watch, with the reason in one line: another one is begun, and tracebacks would fill the disk.
    """
    try:
        return _watch(Path(argv[0]))
    except Exception as error:
        _say(f"cannot watch: {_text(error)}")
        return 1


def _watch(directory: Path) -> int:
    secrets = take_secrets()
    _settle()
    bundle = UndoBundle.open(directory)
    if secrets is None and bundle.manifest.owner.is_alive():
        return 1  # it starts another one, with the secrets
    postgres = Postgres(bundle.manifest.conninfo).with_secrets(secrets or {})
    obstacle = watch_proof.obstacle(bundle, postgres)
    before: Turn | None = None
    while True:
        try:
            return _take_turn(bundle, postgres, obstacle, before)
        except _Second as forked:
            before = forked.turn
            os.setsid()
            _settle()


def _take_turn(bundle: UndoBundle, postgres: Postgres, obstacle: PgdynoError | None, before: Turn | None = None) -> int:
    """Wait to become the first, and watch. In a second one that was forked, the first one's lock is closed before.

    `before` is the turn of the one that forked it.
    """
    directory = bundle.directory
    with open(directory / watch_record.LOCK, "a", opener=watch_record.private) as lock:
        watch_record.sign_in(directory, WatchdogRole.SECOND, ProcessIdentity.own(), obstacle)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if watch_record.is_left_to_person(directory):
            return 5
        if _is_unlinked(bundle, lock.fileno()):  # the first has had its time, or there was nothing left to do
            return 5
        if bundle.is_closed():
            return 0
        _say(f"watching session {bundle.id}, process {bundle.manifest.owner.pid}")
        if obstacle is not None:
            _say(f"could not restore just now: {_text(obstacle)}")
        now = heartbeat.now()
        turn = Turn(now) if before is None else before.followed(now)
        return _Watchdog(bundle, postgres, lock.fileno(), turn).stay(obstacle)


class _Watchdog:
    def __init__(self, bundle: UndoBundle, postgres: Postgres, lock: int, turn: Turn | None = None) -> None:
        self._bundle = bundle
        self._lock = lock
        self._postgres = postgres
        self._deadlines = watch_record.read_deadlines(bundle.directory)
        self._second: int | None = None
        self._respawn_s = self._forked_at = 0.0
        self._awake_since = self._last_tick = heartbeat.now()
        self._turn = turn or Turn(self._last_tick)
        self._asked_at = 0.0
        self._journal_size: int | None = -1
        self._closed = False
        self._health = Health.ALIVE
        self._unhealthy_since: float | None = None
        self._told: set[str] = set()
        self._asked_to_end = False

    def stay(self, obstacle: PgdynoError | None) -> int:
        """Watch as long as `watch` has to: what it meets is met again by who would take over, and at once."""
        pause_s = self._turn.pause_s
        while True:
            began = heartbeat.now()
            try:
                watch_record.sign_in(self._bundle.directory, WatchdogRole.FIRST, ProcessIdentity.own(), obstacle)
                if pause_s:
                    self._rest(pause_s)
                return self.watch()
            except Exception as error:  # whatever it is, the next one would meet it too
                self._say_once(f"watching was interrupted: {_text(error)}")
            pause_s = grown(0.0 if heartbeat.now() - began > HELD_S else pause_s)

    def _rest(self, pause_s: float) -> None:
        signal.signal(signal.SIGTERM, self._ask_to_end)
        self._see_to_the_second()
        wait_until(lambda: self._asked_to_end or self._is_closed(), timeout_s=pause_s)

    def watch(self) -> int:
        """Watch and act; 0 when the session is over and the server as it was, 5 when it is left to a person."""
        signal.signal(signal.SIGTERM, self._ask_to_end)
        while not self._is_closed():
            self._see_to_the_second()
            reason = "SIGTERM" if self._asked_to_end else reason_to_act(self._look(), self._deadlines)
            if reason is not None:
                return self._act(reason)
            time.sleep(TICK_S)
        return 0

    def _ask_to_end(self, _number: int, _frame: FrameType | None) -> None:
        self._asked_to_end = True

    def _is_closed(self) -> bool:
        """Read the journal only when it has changed: over a night it grows long."""
        try:
            size = (self._bundle.directory / "journal.jsonl").stat().st_size
        except OSError:
            size = None
        if size != self._journal_size:
            self._journal_size, self._closed = size, self._bundle.is_closed()
        return self._closed

    def _look(self) -> WatchdogView:
        now = heartbeat.now()
        if now - self._last_tick > 4 * TICK_S + 1:  # we ourselves were stopped: the others get their time again
            self._awake_since = now
        if not self._bundle.directory.is_dir():  # a beat that cannot be written or read says nothing
            self._awake_since = now
        self._last_tick = now
        address = self._bundle.manifest.address
        if address is not None and now - self._asked_at >= ASK_EVERY_S:
            self._asked_at, is_ill = now, False
            try:
                self._health = health.ask(address)
                is_ill = self._health is not Health.ALIVE
            except EnvironmentUnsuitable as error:  # a question that could not be asked had no bad answer
                self._say_once(_text(error))
            self._unhealthy_since = self._unhealthy_since or now if is_ill else None
        return WatchdogView(
            now=now,
            awake_since=self._awake_since,
            owner=self._bundle.manifest.owner.pid,
            owner_is_alive=self._bundle.manifest.owner.is_alive(),
            beat=heartbeat.read(self._bundle.directory),
            health=self._health,
            unhealthy_since=self._unhealthy_since,
        )

    def _see_to_the_second(self) -> None:
        """Have a second one. A fork has all that this process has proved, and the passwords, and starts at once."""
        ended = None
        if self._second is not None:
            pid, status = os.waitpid(self._second, os.WNOHANG)
            if pid == 0:
                return
            ended = os.waitstatus_to_exitcode(status)
            self._second = None
        # A new one that fails is not to be tried twice a second; one that was killed is replaced at once.
        if ended is not None:
            self._respawn_s = grown(self._respawn_s, least_s=_RESPAWN_S) if ended > 0 else 0.0
        if heartbeat.now() - self._forked_at < self._respawn_s:
            return
        try:
            self._second, self._forked_at = os.fork(), heartbeat.now()
        except OSError as error:
            self._say_once(f"the second watchdog cannot be started: {error}")
        if self._second == 0:
            raise _Second(self._turn)

    def _say_once(self, text: str) -> None:
        """Name a cause when it is new: over a day of attempts a log of repetitions hides it."""
        if text not in self._told:
            self._told.add(text)
            _say(text)

    def _act(self, reason: str) -> int:
        self._say_once(f"acting: {reason}")
        # The disk may be away, or no process be had that works with the server's account; the restore tries again.
        with contextlib.suppress(OSError, PgdynoError):
            self._bundle.release_reserve()  # so that the log has room too
        _set_oom_score(watch_record.read_oom_score(self._bundle.directory))  # the server inherits it
        pause_s, damaged, began = 0.0, 0, heartbeat.now()
        seen_at = began
        self._asked_to_end = False  # from here on it says that trying has to end
        while True:
            try:
                self._end_owner()
                restored = rollback.rollback(self._bundle, postgres=self._postgres, by=f"watchdog: {reason}")
            except Exception as error:  # whatever it is, giving up would leave the server changed
                self._say_once(f"not restored yet: {_text(error)}")
            else:
                if restored.is_whole or restored.already_closed:
                    how = "restarted" if restored.restarted else "left down" if restored.left_down else "reloaded"
                    _say("; ".join((f"restored in {restored.seconds:.1f} s, {how}", *restored.notes)))
                    if restored.not_compared:
                        _say(f"settings not compared: {restored.not_compared}")
                    return 0
                damaged += 1
                for text in (*restored.damage, *map(str, restored.settings_differences)):
                    self._say_once(f"not as it was found: {text}")
                if damaged >= _DAMAGE_ATTEMPTS:
                    return self._leave("still not as it was found")
            now = heartbeat.now()
            seen_at = now if self._bundle.directory.is_dir() else seen_at
            unlinked = _is_unlinked(self._bundle, self._lock)
            obstacle = _why_never(self._bundle, now - began, now - seen_at, unlinked=unlinked)
            if self._asked_to_end:
                obstacle = "SIGTERM while it could not be restored"
            if obstacle is not None:
                return self._leave(obstacle)
            self._see_to_the_second()
            pause_s = grown(pause_s)
            wait_until(lambda: self._asked_to_end, timeout_s=pause_s)

    def _leave(self, obstacle: str) -> int:
        watch_record.leave_to_person(self._bundle.directory)
        _say(f"{obstacle}: left to pgdyno rollback {self._bundle.id}")
        return 5

    def _end_owner(self) -> None:
        """Ask the tuner to end, which restores; end it when it does not in its time, or cannot hear us."""
        owner = self._bundle.manifest.owner
        if not owner.is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner.pid, signal.SIGTERM)
        if not wait_until(lambda: not owner.is_alive() or self._bundle.is_closed(), timeout_s=self._deadlines.grace_s):
            end_process(owner, grace_s=1.0)
            _say(f"process {owner.pid} was ended")


def _is_unlinked(bundle: UndoBundle, lock: int) -> bool:
    """Tell a bundle that was deleted from one that is away: our open lock file has no name on its disk any more."""
    return os.fstat(lock).st_nlink == 0 and not bundle.directory.is_dir()


def _why_never(bundle: UndoBundle, tried_s: float, missing_s: float, *, unlinked: bool) -> str | None:
    """Return why trying on makes no sense: the undo was deleted, or nobody has fixed what is wrong for a day.

    A data directory or an undo folder that is away may come back: a disk that is mounted again, a rename.
    """
    if tried_s > GIVE_UP_S:
        return f"not restored within {GIVE_UP_S / 3600:.0f} h"
    deleted = missing_s > DELETED_S and bundle.directory.parent.is_dir()
    return "the undo bundle was deleted" if deleted or (unlinked and missing_s > _UNLINKED_S) else None


def _text(error: Exception) -> str:
    return error.one_line if isinstance(error, PgdynoError) else f"{type(error).__name__}: {error}"


def _settle() -> None:
    """Be hard to kill by accident: no signal of a terminal, and the last one that the kernel ends for memory."""
    os.umask(0o077)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        # A handler and not SIG_IGN, which the server that we start would inherit.
        signal.signal(number, _do_nothing)
    _set_oom_score("-1000")


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _set_oom_score(text: str) -> None:
    with contextlib.suppress(OSError):  # only root may lower it
        _OOM_SCORE.write_text(text)


def _say(text: str) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with contextlib.suppress(OSError):  # a full disk must not end the watchdog
        sys.stderr.write(f"{stamp} {os.getpid()} {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
