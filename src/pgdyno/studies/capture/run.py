"""Let a server log its load for a while, through an undo session, under guards, and restore the logging.

The process stays and holds the session, as a live study does: whatever ends it, its own end or its watchdog puts the
logging back. The record is on disk before the first change; a capture that is killed leaves one without an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.capture.secrets import public_setting
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.facts import Unknown
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.replay.target_facts import captured_server
from pgdyno.server import places
from pgdyno.studies.capture.cached import read_cached
from pgdyno.studies.capture.commit_order import CommitOrder
from pgdyno.studies.capture.finish import ended_record, kept_and_copied
from pgdyno.studies.capture.plan import CapturePlan
from pgdyno.studies.capture.register import CaptureFolder, CaptureProgress
from pgdyno.studies.capture.source import read_contents, read_moment, read_values
from pgdyno.studies.capture.watching import SIZE, STOPPED, TIME, CaptureWatch
from pgdyno.studies.session.study_session import begin_session, put_back_abandoned
from pgdyno.targets.server_log import LogFile
from pgdyno.targets.target import Target
from pgdyno.trace.capture_logging import style_words
from pgdyno.trace.capture_record import CAPTURE_VERSION, COMMITS, CapturedLog, CaptureRecord
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text
from pgdyno.undo.session import ServerSession
from pgdyno.units import bytes_text, seconds_text

APPLY_S = 300.0
INTERRUPTED = 130
INTERRUPT = "interrupted"
_CODES = {TIME: ExitCode.OK, SIZE: ExitCode.OK, STOPPED: ExitCode.OK, INTERRUPT: INTERRUPTED}


@dataclass(frozen=True, slots=True)
class Captured:
    """A capture that is over: its folder, and its record with the end."""

    folder: Path
    record: CaptureRecord

    @property
    def exit_code(self) -> int:
        """Return 0 for one that ended as asked, 4 where a guard or somebody else's change ended it."""
        assert self.record.end is not None
        return int(_CODES.get(self.record.end.because, ExitCode.RESTORED))

    @property
    def bytes(self) -> int:
        """Return how many bytes of log it has."""
        return sum(log.end or 0 for log in self.record.logs)


def put_back_killed(target: Target, announce: Callable[[str], None], *, may_change: bool) -> None:
    """Put back what a killed session has left, before the server is looked at; errors as `put_back_abandoned`."""
    put_back_abandoned(target, places.ensure(places.state_dir() / "undo"), announce, may_change=may_change)


def run_capture(
    target: Target,
    plan: CapturePlan,
    *,
    output: Path | None,
    host: str | None,
    announce: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Captured:
    """Capture as planned; with `output` the log is copied there when it is over.

    `plan` was made for `target` just before. `output` is a folder that must not exist yet; with None the log stays
    where the server wrote it. `host`, kept in the record, is the ssh address where an agent reached the server, None
    without one. `announce` takes lines of progress; `clock` returns seconds that never go back, and `sleep` waits for
    so many.

    SIGINT, SIGTERM and SIGHUP end it as `stop` does. Raises what a session raises, EnvironmentUnsuitable where
    something is in the way, and nothing is left then.
    """
    plan.require()
    with signals_interrupt():
        sentry = Sentry(GuardReader(target), plan.options.guards)
        announce(off_text(sentry.begin()))
        folder = CaptureFolder.make(plan.id, output)
        order: CommitOrder | None = None
        try:
            folder.tell(CaptureProgress(folder.folder, ProcessIdentity.own(), time.time()))
            if plan.options.commit_order:
                order = CommitOrder.open(target.postgres, plan.id, folder.folder / COMMITS, announce)
            record = _begun(target, plan, host)
            folder.keep(record)
            running = _Running(target, plan, folder, record, sentry, announce, clock, sleep, order)
            because = running.capture()
            if order is not None:
                order.drain()
        except BaseException:
            if not (folder.place / _IN_FORCE).exists():
                folder.discard()
            raise
        finally:
            if order is not None:
                order.close()
        announce("the server logs as it did before")
        ended = ended_record(target, plan, running.record, because, announce, clock, sleep)
        if order is not None:
            announce(order.words)
            ended = replace(
                ended, commits=None if order.lost else COMMITS, commits_lost=order.lost,
                key_tables=order.key_tables, key_links=order.key_links,
            )  # fmt: skip
        if output is None:
            folder.keep(ended)
        else:
            ended = kept_and_copied(plan, folder, ended, announce, clock)
        return Captured(folder.folder, ended)


_IN_FORCE = "in-force"


def _begun(target: Target, plan: CapturePlan, host: str | None) -> CaptureRecord:
    """Return the record before the first change."""
    settings = {row.name: public_setting(row.name, row.setting) or "" for row in plan.facts.settings.values()}
    server, contents, moment = plan.facts.server, read_contents(target.postgres), read_moment(target.postgres)
    cached, cache_unread = read_cached(target.postgres, [one.name for one in contents.databases])
    return CaptureRecord(
        version=CAPTURE_VERSION,
        id=plan.id,
        target=target.postgres.label,
        host=host,
        system_identifier="" if isinstance(server.system_identifier, Unknown) else server.system_identifier,
        server_version=server.version_num,
        data_directory=str(server.data_directory),
        style=style_words(plan.options.style, settings.get("log_statement", "")),
        began_at=moment.at,
        lsn=moment.lsn,
        seconds=plan.options.seconds,
        max_bytes=plan.options.max_bytes,
        clock_ahead_s=moment.ahead_s,
        round_trip_s=moment.round_trip_s,
        sampled=plan.options.sampled,
        settings=settings,
        logging=dict(plan.wanted),
        databases=contents.databases,
        tables=contents.tables,
        sequences=contents.sequences,
        unread=contents.unread,
        cached=cached,
        cache_unread=cache_unread,
        holes=plan.holes,
        log_directory=str(plan.folder.path),
        server=captured_server(target),
    )


@dataclass(slots=True)
class _Running:
    """A capture while its session is open."""

    target: Target
    plan: CapturePlan
    folder: CaptureFolder
    record: CaptureRecord
    sentry: Sentry
    announce: Callable[[str], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    order: CommitOrder | None
    _progress: CaptureProgress | None = None

    def capture(self) -> str:
        """Switch the logging on, watch until something ends it, and put it back; return what ended it."""
        plan, because = self.plan, INTERRUPT
        with begin_session(self.target, plan.id, places.state_dir() / "undo", (), plan.options.watch) as session:
            self.record = replace(self.record, session=session.id)
            self.folder.keep(self.record)
            self.announce(f"session {session.id}: the undo bundle is on disk, the watchdog is ready")
            try:
                session.expect("switch the logging on", APPLY_S)
                session.apply(plan.change, restart="never")
                (self.folder.place / _IN_FORCE).touch(mode=0o600)
                self._begin()
                because = self._watch(session)
            except KeyboardInterrupt:
                if not (self.folder.place / _IN_FORCE).exists():
                    raise
            except (GuardBreached, EnvironmentUnsuitable) as stopped:
                if not (self.folder.place / _IN_FORCE).exists():
                    raise
                because = str(stopped.breach) if isinstance(stopped, GuardBreached) else stopped.one_line
            self.announce(f"ended: {because}; restoring the logging")
            session.expect("restore the logging", APPLY_S)
        return because

    def _begin(self) -> None:
        moment = read_moment(self.target.postgres)
        self.record = replace(
            self.record, began_at=moment.at, lsn=moment.lsn, clock_ahead_s=moment.ahead_s,
            round_trip_s=moment.round_trip_s,
        )  # fmt: skip
        self.folder.keep(self.record)
        options = self.plan.options
        self.announce(
            f"capturing for {seconds_text(options.seconds)} or {bytes_text(options.max_bytes)}; to end it: "
            f"pgdyno capture stop {self.plan.id}"
        )

    def _watch(self, session: ServerSession) -> str:
        plan, postgres = self.plan, self.target.postgres
        watch = CaptureWatch(
            options=plan.options,
            expect=session.expect,
            sentry=self.sentry,
            is_stopped=lambda: self.folder.is_stopped,
            files=lambda: plan.folder.files(plan.id, plan.options.style),
            free=plan.folder.free,
            logging=lambda: read_values(postgres, plan.wanted),
            seen=self._seen,
            announce=self.announce,
            drain=None if self.order is None else self.order.drain,
            clock=self.clock,
            sleep=self.sleep,
        )
        self._progress = CaptureProgress(self.folder.folder, ProcessIdentity.own(), time.time())
        return watch.until_its_end()

    def _seen(self, files: Sequence[LogFile], bytes_per_s: float) -> None:
        """Keep the names of new files in the record, for whoever finds it without an end, and tell other terminals."""
        if [file.path for file in files] != [log.path for log in self.record.logs]:
            logs = tuple(CapturedLog(file.path, self.plan.options.style) for file in files)
            self.record = replace(self.record, logs=logs)
            self.folder.keep(self.record)
        assert self._progress is not None, "the watch has begun"
        self._progress = replace(self._progress, bytes=sum(file.size for file in files), bytes_per_s=bytes_per_s)
        self.folder.tell(self._progress)
