"""What every live study that changes a server stands on: checks, the watched reference, and the session to switch in.

The reference comes first, and nothing is changed before a person, or a flag of theirs, has approved the plan. From the
first switch on the server is the undo session's: whatever ends this process, its end or its watchdog puts it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np

from pgdyno.errors import EnvironmentUnsuitable, OutOfTime
from pgdyno.linux.host_texts import read_texts
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.verdict import Metric
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.probes.host.disk import parse as parse_disks
from pgdyno.probes.host.reading import PROC, SYS
from pgdyno.probes.statements import StatementKey, StatementReader
from pgdyno.server import places
from pgdyno.server.outage import Outage
from pgdyno.server.role_settings import Override, read_overrides
from pgdyno.stats.body_index import StatementBody, StatementReference, body_of, reference_of
from pgdyno.stats.period_choice import wash_of
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.live.checking import counts_plans, surroundings
from pgdyno.studies.live.kept import Ending, kept, mark_killed
from pgdyno.studies.live.options import LiveOptions, cost_of_periods
from pgdyno.studies.live.others import OthersSettings, sessions_of_others, told_by_sql
from pgdyno.studies.live.person.hands import Inbox, LiveHands, PairsStage
from pgdyno.studies.live.plan_flips import PlanFlips, plan_flips
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.reach import cached, overridden
from pgdyno.studies.live.recording import RecordedReference, Recording
from pgdyno.studies.live.reference import Watched, watch_baseline
from pgdyno.studies.live.reference_use import (
    busiest,
    reference_alone,
    require_load,
    require_same_server,
    with_errors,
)
from pgdyno.studies.live.server_world import ServerWorld
from pgdyno.studies.live.watch import open_watchable
from pgdyno.studies.live.watched_result import live_result
from pgdyno.studies.live.windows import OUTAGE_S, RestartCount
from pgdyno.studies.live.world import LiveStopped, StopFile
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.outages import expected_outage
from pgdyno.studies.session.study_session import STORE_PATIENCE_S, begin_session, put_back_abandoned
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trial.live_guards import LiveGuards, LiveLoad
from pgdyno.trial.live_recorder import LiveRecorder
from pgdyno.trial.sentry import Sentry, off_text
from pgdyno.trial.watcher import Watcher
from pgdyno.undo.opening import Opening
from pgdyno.units import seconds_text

AGAIN_S = 120.0
"""A study that is resumed looks at the load for so long before it goes on."""
SESSIONS_ROOM = 2
"""Memory must do for so many times the sessions that are there now."""
WINDOW_LOOK_S = 1.0


@dataclass(slots=True)
class LiveGround:
    """A server that may be watched and changed; `connections` sessions may be at work at one time.

    `outage` is what a restart is expected to cost, None where none is made.
    """

    store: Store
    target: Target
    options: LiveOptions
    announce: Callable[[str], None]
    reader: StatementReader
    facts: Facts
    overrides: tuple[Override, ...]
    connections: int
    stack: ExitStack
    began: float
    ends_at: float
    outage: Outage | None = None

    @property
    def outage_s(self) -> float:
        """Return how long a restart is reckoned to take, OUTAGE_S where nobody knows."""
        known = None if self.outage is None else self.outage.seconds
        return float(known) if isinstance(known, int | float) else OUTAGE_S

    def cpu_s(self) -> float | None:
        """Return the server's CPU seconds so far, None where its processes cannot be seen from here."""
        found = self.target.cpu.seconds()
        return None if isinstance(found, Unknown) else found

    def device_requests(self) -> float | None:
        """Return what the disks of the server's host completed since boot, None where that is not this host."""
        if self.target.remote is not None or self.cpu_s() is None:
            return None
        try:
            host = read_texts(PROC, SYS)
            disks = parse_disks(host.text("diskstats"), host.devices)
        except (OSError, ValueError, KeyError, IndexError):
            return None
        return float(sum(one.reads.done + one.writes.done for one in disks.values()))

    def watch(
        self, study: Study, watcher: Watcher, own: Collection[str], notes: Sequence[str] = (), *, resumes: bool = False
    ) -> WatchedServer:
        """Keep the study, watch its server for the reference, and return what was seen.

        `watcher` hears the phases of `study`. `own` are the knobs that may be set, `notes` sentences for a new result.
        One that `resumes` goes on with its earlier reference, and looks for AGAIN_S only whether the load is the same.
        Raises OutOfTime when the stop file was found, and EnvironmentUnsuitable where somebody changed a setting
        meanwhile, most of the load would not see such a knob, or what is resumed is another server or load now.
        """
        if self.target.remote is None:
            Opening.refuse_unfit(self.target, restart=bool(self.options.windows))
        sentry = Sentry(GuardReader(self.target), self.options.guards)
        self.announce(off_text(sentry.begin()))
        folder = places.ensure(places.ensure(places.state_dir() / "runs") / study.id)
        stop, recording = StopFile(folder / "stop"), Recording(folder)
        quiet = QuietTimes.of(self.options.not_during, folder / "pause", self.options.windows, self.outage_s)
        earlier = self._earlier(study, recording) if resumes else None
        ending, row = self.stack.enter_context(kept(self.store, study, self.began, resumes=resumes))
        recorder = LiveRecorder(watcher, row)
        operators = self.options.operators
        hands = self.stack.enter_context(
            LiveHands(
                study.id,
                stop,
                folder / "pause",
                decided=lambda decision: ending.decide(decision, self.announce),
                show=lambda desk: row.put(desk=desk),
                announce=self.announce,
                inbox=None if operators is None else Inbox(RequestBoard(self.store), operators),
                target=self.target.name,
            )
        )
        others = OthersSettings(self.target.postgres, own)
        seconds = self.options.reference_s if earlier is None else min(AGAIN_S, self.options.reference_s)
        self._await_window(quiet, seconds, stop, recorder)
        again = "" if earlier is None else " again"
        self.announce(f'watching "{self.target.name}"{again} for {seconds_text(seconds)}; nothing is changed yet')
        recorder.phase("watch the baseline")
        looks = (lambda: require_no_stop(stop)), sessions_of_others(self.target, places.state_dir() / "undo")
        seen = _watched(self.reader, seconds, looks, self.announce)
        names, now = self.reader.names(), reference_of(seen.whole, len(self.reader.keys))
        if earlier is not None:
            require_load(earlier.reference, now)
            others.require_calm()
            keys, reference, told = earlier.keys, earlier.reference, reference_alone(study)
            period_s: float | None = earlier.period_s
        else:
            keys, reference = tuple(self.reader.keys), now
            around = (
                *notes,
                *overridden(dict.fromkeys(own), self.overrides, reference, keys, names),
                *surroundings(self.facts, self.overrides, ()),
                *cost_of_periods(self.options),
            )
            elapsed_s, is_restarted = time.time() - self.began, bool(self.options.windows)
            told = live_result(study, self.facts, seen, keys, names,
                               around=around, elapsed_s=elapsed_s, is_restarted=is_restarted)  # fmt: skip
            period_s = self.options.period_s or told.period_s
            if period_s is not None:
                others.require_calm()
                recording.keep_reference(RecordedReference(keys, reference, period_s, time.time()))
                ending.hear(told, self.announce)
        return WatchedServer(
            self, study, sentry, stop, quiet, ending, recorder, seen, names, keys, reference, told, period_s, recording,
            hands, others,
        )  # fmt: skip

    def _await_window(self, quiet: QuietTimes, seconds: float, stop: StopFile, recorder: LiveRecorder) -> None:
        """Wait for a window, if there are any, with room for so many seconds and a pair: its load is the one to watch.

        The time of the study begins anew then.
        """
        room = seconds + 2 * (self.options.period_s or 0.0)
        if not self.options.windows or not (why := quiet.why_wait(time.time(), room)):
            return
        recorder.phase(f"wait: {why}")
        self.announce(f"nothing is watched yet: {why}; reference and a pair take {seconds_text(room)} in it")
        while quiet.why_wait(time.time(), room):
            require_no_stop(stop)
            time.sleep(WINDOW_LOOK_S)
        self.ends_at = time.monotonic() + self.options.budget_s

    def _earlier(self, study: Study, recording: Recording) -> RecordedReference:
        """Return the reference of a study to resume. Raises EnvironmentUnsuitable where it says nothing of now."""
        found = recording.reference()
        reference_alone(study)
        require_same_server(study, self.facts)
        if time.time() - found.at > self.options.oldest_s:
            raise EnvironmentUnsuitable(
                f"the reference of study {study.id} is {seconds_text(time.time() - found.at)} old",
                hint="The load of another day is another load: start a new study, without --resume.",
            )
        self.reader.adopt(found.keys)
        return found


@dataclass(slots=True)
class WatchedServer:
    """A server that was watched: its reference, and what switching it needs. `period_s` is None where none will do."""

    ground: LiveGround
    study: Study
    sentry: Sentry
    stop: StopFile
    quiet: QuietTimes
    ending: Ending
    recorder: LiveRecorder
    seen: Watched
    names: tuple[Mapping[int, str], Mapping[int, str]]
    keys: tuple[StatementKey, ...]
    reference: StatementReference
    told: LiveResult
    period_s: float | None
    recording: Recording
    hands: LiveHands
    others: OthersSettings
    session: str = ""
    """The undo session, from `world` on."""
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def left_s(self) -> float:
        """Return how much of the study's time is left."""
        return self.ground.ends_at - time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Return how long the study has run."""
        return time.time() - self.ground.began

    @property
    def rollback(self) -> str:
        """Return the command that restores the server by hand."""
        remote = self.ground.target.remote
        return " ".join(["pgdyno rollback --last", *([remote.request.flags] if remote else [])])

    def load(self, period_s: float) -> LiveLoad:
        """Return what guards compare with: the body and the sessions at work."""
        body = body_of(self.reference, period_s - (self.ground.options.wash_s or wash_of(period_s)))
        active = [one.active for one in self.seen.sessions] or [0]
        p95, p99 = (float(one) for one in np.quantile(active, [0.95, 0.99]))
        cores = self.ground.facts.host.cores
        calls = float(self.reference.calls[body.ids].sum()) / self.reference.seconds
        longest_s = max([self.told.reference.oldest_s, *(one.oldest_s for one in self.seen.sessions)])
        blocked = max((one.blocked for one in self.seen.sessions), default=0)
        return LiveLoad(body, calls, p95, p99, cores if isinstance(cores, int) else None, longest_s, blocked)

    def cached(self, body: StatementBody) -> float | None:
        """Return the share of the body that runs cached plans, None where plans are not counted."""
        return cached(self.seen.whole, body, counts_plans=counts_plans(self.ground.facts))

    def world(
        self, arms: Mapping[str, Configuration], own: Collection[str], restarts: RestartCount | None = None
    ) -> ServerWorld:
        """Begin the undo session, which ends with the ground, and return the server to switch; `own` are the knobs.

        Raises EnvironmentUnsuitable where somebody changed a setting since the reference, such as while a person was
        asked: what they approved would be compared with another server.
        """
        ground, period_s = self.ground, self.period_s
        assert period_s is not None, "without a length of a period nothing is switched"
        self.others.require_calm()
        self.sentry.plan = guards = with_errors(ground.options.guards, self.seen)
        session = ground.stack.enter_context(self._open).enter_context(
            begin_session(ground.target, self.study.id, places.state_dir() / "undo", (), ground.options.watch)
        )
        self.session, self.hands.stage = session.id, PairsStage.GOING
        lock = told_by_sql(ground.target, session.id, self._open)
        ground.announce(f"session {session.id}: the undo bundle is on disk, the watchdog is ready")
        ground.store.hurry()  # an arm is in force: nobody waits for a store that is locked
        return ServerWorld(
            session=session,
            reader=ground.reader,
            sentry=self.sentry,
            guards=LiveGuards(self.load(period_s), guards),
            others=OthersSettings(ground.target.postgres, own),
            watcher=self.recorder,
            stop=self.stop,
            quiet=self.quiet,
            announce=ground.announce,
            course=self.ending.course,
            arms=arms,
            size=len(self.keys),
            calls_a_second=float(self.reference.calls.sum()) / self.reference.seconds,
            dbname=busiest(self.reference, self.names[0], [key.database for key in self.keys]),
            ends_at=ground.ends_at,
            cpu_s=ground.cpu_s,
            device_requests=ground.device_requests,
            restarts=restarts,
            restarted=lambda: None if lock is None else lock.renew(),
        )

    def flips(self) -> PlanFlips:
        """Return what tells which plans an arm changes."""
        ground = self.ground
        return plan_flips(ground.target.postgres, ground.facts, ground.reader, self.reference, self.keys, self.names[0])

    def tell_back(self) -> None:
        """Say that the server is as it was found, and be patient with the store again; the undo session is over."""
        self._open.close()
        self.hands.stage = PairsStage.OVER
        self.ground.store.be_patient(STORE_PATIENCE_S, self.ground.announce)
        self.ground.announce("the server is as it was found")


@contextmanager
def live_ground(
    store: Store, target: Target, options: LiveOptions, announce: Callable[[str], None]
) -> Iterator[LiveGround]:
    """See that the server can be watched and changed; signals put it back, and so does every way out.

    `target` is the server, `store` keeps its studies, and `announce` takes lines of progress. `options.budget_s` runs
    from here. Raises EnvironmentUnsuitable before anything is kept where it cannot be watched.
    """
    began, reader = time.time(), StatementReader(target.postgres)
    ends_at = time.monotonic() + options.budget_s
    with ExitStack() as stack:
        stack.callback(reader.close)
        stack.enter_context(signals_interrupt())
        mark_killed(store)
        undo_root = places.ensure(places.state_dir() / "undo")
        put_back_abandoned(target, undo_root, announce, may_change=True)
        facts = read_facts(target)
        sessions = open_watchable(target.name, facts, reader)
        overrides = read_overrides(target.postgres)[2]
        room, most = SESSIONS_ROOM * max(1, sessions), facts.settings.get("max_connections")
        connections = room if most is None else min(room, int(most.setting))
        outage = None
        if options.windows:
            if target.control is None:
                raise EnvironmentUnsuitable(
                    f'"{target.name}" cannot be restarted by pgdyno, and --allow-restart wants it to be',
                    detail=f"Seen: {target.no_control}." if target.no_control else None,
                    hint="Give --restart-command.",
                )
            outage = expected_outage(target, store)
        yield LiveGround(
            store, target, options, announce, reader, facts, overrides, connections, stack, began, ends_at, outage,
        )  # fmt: skip


def _watched(
    reader: StatementReader, reference_s: float, looks: Sequence[Callable[[], None]], announce: Callable[[str], None]
) -> Watched:
    def sleep(seconds: float) -> None:
        for look in looks:
            look()
        time.sleep(seconds)

    return watch_baseline(reader, reference_s, announce=announce, sleep=sleep)


def require_no_stop(stop: StopFile) -> None:
    """Raise OutOfTime where somebody wants the study to end before anything was changed."""
    try:
        stop.look()
    except LiveStopped as asked:
        hint = "Start a new study when it may run." if stop.told else "Remove it to start over."
        raise OutOfTime(f"{asked.message}, before anything was changed", hint=hint) from asked


def live_study(name: str, request: TargetRequest, ground: LiveGround, asked: Mapping[str, object]) -> Study:
    """Return the study `name` on `ground` as it begins; it keeps `request`, the usual options, and `asked`, its own."""
    options = ground.options
    kept = {
        "metric": Metric.STATEMENT_TIME.value,
        **asked,
        "reference_s": options.reference_s,
        "budget_s": options.budget_s,
        "seed": options.seed,
        "design": asdict(options.design),
        "guards": options.guards.to_json(),
        "not_during": list(options.not_during),
        "wash_s": options.wash_s,
        **({"windows": list(options.windows), "period_s": options.period_s} if options.windows else {}),
    }
    return observed_study(
        StudyKind.LIVE, name, request, ground.target, ground.facts,
        began=ground.began, seconds=options.reference_s, options=kept,
    )  # fmt: skip
