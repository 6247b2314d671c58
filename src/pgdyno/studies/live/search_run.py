"""`pgdyno live --search`: candidates on a server under its users' own load, from the checks to what is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import SearchSpace, build_space, configuration_to_point, starting_points
from pgdyno.knobs.values import canonical_text
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.results.live import LiveOwnEffect, LiveResult, LiveSearch, LiveSwitch
from pgdyno.model.shapes import shaped
from pgdyno.model.study import Study, StudyKind
from pgdyno.report.wording import STRATEGIES, settings_text
from pgdyno.server.role_settings import statement
from pgdyno.stats.period_choice import USUAL_S, WASH_S
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.arms import Arms, arms_of, not_kept
from pgdyno.studies.live.candidates import EDITED, Proposal, Reply
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.earlier import earlier_starts
from pgdyno.studies.live.ground import SESSIONS_ROOM, LiveGround, WatchedServer, live_ground, live_study
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.live.person.hands import LiveHands
from pgdyno.studies.live.person.keeping import Confirm, concluded
from pgdyno.studies.live.person.questions import WAITS, candidate_question
from pgdyno.studies.live.reach import untested
from pgdyno.studies.live.search import LiveSearcher
from pgdyno.studies.live.search_duels import SearchDuels
from pgdyno.studies.live.search_recording import SearchRecording
from pgdyno.studies.live.server_world import ServerWorld
from pgdyno.studies.live.switch_result import switch_of
from pgdyno.studies.live.words import search_judgement, uncured
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.studies.tune.importance import search_model
from pgdyno.targets.target import Target
from pgdyno.trial.watcher import Watcher
from pgdyno.units import plural

UNSEEN = dict.fromkeys(
    (
        "commit_delay",
        "commit_siblings",
        "synchronous_commit",
        "wal_compression",
        "wal_writer_delay",
        "wal_writer_flush_after",
    ),
    "acts at the commit, whose time is in no statement's counters",
)
"""What the statements' own time does not show."""
ANSWER_ROOM_S = 60.0
USUAL_SD = 0.1
"""Where the reference was too short to show how a pair scatters."""


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """What is searched: knobs that a reload brings into force, and at most so many candidates.

    `answer_s` is how long the person may take.
    """

    candidates: int
    answer_s: float
    only: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What a person is shown before the first candidate. `left_s` is how long it takes at most."""

    target: str
    knobs: Mapping[str, str]
    left_out: Mapping[str, str]
    candidates: int
    period_s: float
    left_s: float
    stop_file: str
    pause_file: str
    rollback: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A candidate, and the values as found of all knobs that are searched; `stop_file` ends the study meanwhile, too.

    The answer is heard by `hands`, too; `check` returns what an edit comes to, or raises why it cannot be.
    """

    proposal: Proposal
    before: Mapping[str, str]
    stop_file: str
    hands: LiveHands = field(default_factory=LiveHands)
    check: Callable[[Configuration], Configuration] = lambda settings: settings

    @property
    def title(self) -> str:
        """Return what is asked."""
        return f"Try {self.proposal.name}?"

    @property
    def can_be_edited(self) -> bool:
        """Return whether other values may be written for it."""
        return not self.proposal.leaves_out

    def question(self, settings: Mapping[str, str], seconds: float) -> LiveQuestion:
        """Return the question, which waits for so many seconds; `settings` may have been edited."""
        origin = self.origin(settings)
        return candidate_question(
            settings, self.before, title=self.title, origin=origin, learnt=self.proposal.learnt, seconds=seconds,
            can_be_edited=self.can_be_edited,
        )  # fmt: skip

    def origin(self, settings: Mapping[str, str]) -> str:
        """Return why these settings are to be tried, for people."""
        origin = self.proposal.origin if settings == dict(self.proposal.settings) else EDITED
        return STRATEGIES.get(origin, origin)


def is_search(study: Study) -> bool:
    """Return whether a live study searched."""
    return study.kind is StudyKind.LIVE and "candidates" in study.asked


def search_asked_by(study: Study, answer_s: float) -> AskedSearch:
    """Return what a search was asked, to go on with it. Raises UsageError where that was not kept."""
    told = study.asked
    candidates, words = told.get("candidates"), [told.get(name) for name in ("only", "include", "exclude")]
    if type(candidates) is not int or type(told.get("connections")) is not int:
        raise UsageError(f"study {study.id} did not keep what it searched", hint="Start a new study, without --resume.")
    only, include, exclude = (tuple(map(str, one)) if isinstance(one, list) else () for one in words)
    return AskedSearch(candidates, answer_s, only, include, exclude)


def search_study(
    store: Store,
    target: Target,
    request: TargetRequest,
    options: LiveOptions,
    asked: AskedSearch,
    watcher: Watcher,
    *,
    show: Callable[[SearchPlan], None],
    decide: Callable[[CandidatePlan], Reply],
    announce: Callable[[str], None],
    resumed: Study | None = None,
    confirm: Callable[[LiveHands], Confirm] | None = None,
) -> LiveResult:
    """Watch the server, search settings that its own load runs faster with, and keep all of it as a study.

    `asked` says which knobs are searched, by how many candidates at most, and how long an answer is waited for. `show`
    tells the plan, and `decide` answers for each candidate. At the end the server is as it was found. One that is
    `resumed` is handed what it heard before it was ended, and has the time that was left. `store`, `target`, `request`,
    `options`, `watcher`, `announce`, `confirm` and what is raised are as of `switch_study`.
    """
    with live_ground(store, target, options, announce) as ground:
        if resumed is not None:
            ground.connections = _connections(ground, resumed)
        space, left_out = _space(ground, asked)
        starts = earlier_starts(store.studies(), ground.facts, space) if resumed is None else _kept_starts(resumed)
        kept = {**_kept(asked), "connections": ground.connections, "starts": list(starts)}
        study = resumed or live_study(f"live search of {len(space.names())} knobs", request, ground, kept)
        watched = ground.watch(study, watcher, space.names(), resumes=resumed is not None)
        if watched.period_s is None:
            return watched.ending.complete(watched.told)
        recording = SearchRecording(watched.recording.folder)
        if resumed is not None:
            recording.load()
        searching = _Searching(watched, options, asked, space, left_out, decide, recording, starts)
        show(searching.plan())
        searching.searcher.run()
        searching.end()
        return concluded(
            watched, searching.whole_result(),
            confirm=None if confirm is None else confirm(watched.hands), answer_s=asked.answer_s,
        )  # fmt: skip


class _Searching:
    """The searcher on a real server: its undo session begins with the first candidate that was approved."""

    def __init__(
        self,
        watched: WatchedServer,
        options: LiveOptions,
        asked: AskedSearch,
        space: SearchSpace,
        left_out: Mapping[str, str],
        decide: Callable[[CandidatePlan], Reply],
        recording: SearchRecording,
        starts: Sequence[Mapping[str, str]],
    ) -> None:
        ground = watched.ground
        assert watched.period_s is not None, "without a length of a period nothing is searched"
        self.period_s = watched.period_s
        self._watched, self._options, self._asked = watched, options, asked
        self._space, self._left_out, self._decide = space, left_out, decide
        self._world: ServerWorld | None = None
        self._duels = SearchDuels(
            recording, watched.reference, self.period_s, options.seed, options.guard_rest_s, self._open_world,
            ground.announce, wash_s=options.wash_s, flips=watched.flips(),
        )  # fmt: skip
        chosen = watched.told.chosen
        self.searcher = LiveSearcher(
            duels=self._duels,
            space=space,
            facts=ground.facts,
            connections=ground.connections,
            starts=(
                *(configuration_to_point(space, Configuration.of(one), ground.facts) for one in starts),
                *starting_points(space, ground.facts, connections=ground.connections, read_only=False),
            ),
            design=options.design,
            seed=options.seed,
            candidates=asked.candidates,
            pair_sd=(chosen.pair_sd if chosen is not None else None) or USUAL_SD,
            pair_s=self._duels.pair_s,
            ends_at=self._duels.begin(watched.left_s),
            decide=lambda proposal: self._duels.answer(proposal, self._answer),
            announce=lambda text: None if self._duels.is_recalling else ground.announce(text),
            hear=self._hear,
            notes=[f"{settings_text(one)} comes first: an earlier study found it better here" for one in starts],
        )

    def plan(self) -> SearchPlan:
        """Return what a person is shown."""
        watched = self._watched
        return SearchPlan(
            target=watched.ground.target.name,
            knobs={one.name: one.to_text(one.default) for one in self._space.dimensions},
            left_out=self._left_out,
            candidates=self._asked.candidates,
            period_s=self.period_s,
            left_s=self.searcher.ends_at - self._duels.recording.told_at,
            stop_file=str(watched.stop.path),
            pause_file=str(watched.quiet.pause),
            rollback=watched.rollback,
            notes=watched.told.notes,
        )

    def _open_world(self) -> ServerWorld:
        self._world = self._watched.world({}, self._space.names())
        self._world.keeps_session = True
        return self._world

    def _hear(self) -> None:
        if not self._duels.is_recalling:  # the store has it
            self._watched.ending.hear(self.result(), self._watched.ground.announce)

    def end(self) -> None:
        """Restore the server."""
        if self._world is not None:
            self._world.keeps_session = False
            self._world.put_back()
            self._watched.tell_back()

    def _answer(self, proposal: Proposal) -> Reply:
        """Ask the person, again after an edit that cannot be; the server waits in its baseline."""
        while True:
            if self._world is not None:
                self._world.session.expect("an answer", self._asked.answer_s + ANSWER_ROOM_S)
            stop = self._watched.stop
            before = self._before(self._space.names())  # an edit may add a knob
            self._watched.recorder.phase(WAITS)
            answer = self._decide(CandidatePlan(proposal, before, str(stop.path), self._watched.hands, self._edited))
            if stop.is_wanted:
                return Reply(None, ends=True)
            if answer.settings is None or answer.settings == proposal.settings:
                return answer
            try:
                return replace(answer, settings=self._edited(answer.settings))
            except PgdynoError as error:
                self._watched.ground.announce(f"{error.message}. {error.hint or ''}".rstrip())

    def _edited(self, settings: Configuration) -> Configuration:
        """Return what a person has edited, checked as every arm is, and kept to the knobs that are searched."""
        ground = self._watched.ground
        for name in settings:
            if name not in self._space.names():
                raise UsageError(f"{name} is not searched here", hint=f"Edit {', '.join(self._space.names())}.")
        arms = arms_of({}, settings, ground.facts, connections=self.searcher.connections)
        changed = {name: value for name, value in arms.b.items() if value != arms.before[name]}
        if not changed:
            raise UsageError("these are the values of the server as it is", hint="Reject it to leave it out.")
        return Configuration.of(changed)

    def _before(self, names: Iterable[str]) -> dict[str, str]:
        facts = self._watched.ground.facts
        rows = {name: facts.row(name) for name in names}
        return {name: canonical_text(row, row.setting) for name, row in rows.items() if row is not None}

    def _final(self, settings: Configuration, outcome: LiveOutcome) -> LiveSwitch:
        watched = self._watched
        body = watched.load(self.period_s).body
        arms = Arms(BASELINE, settings, self._before(settings))
        found = switch_of(
            arms, outcome, watched.reference, watched.keys, watched.names,
            seed=self._options.seed, session=watched.session,
            not_tested=untested((settings,), watched.cached(body)),
        )  # fmt: skip
        return replace(found, memory_bytes=round(self.searcher.memory(settings)))

    def whole_result(self) -> LiveResult:
        """Return what all came to, with what the model makes of it."""
        found = self.result()
        assert found.search is not None, "it is one"
        model = search_model(self._space.dimensions, self.searcher.history(), self._options.design.confidence)
        winner, ground = found.search.winner, self._watched.ground
        notes = [*uncured(found.reference, found.search, ground.facts.host.cores), *found.search.notes]
        if winner is not None:
            notes += not_kept(Configuration.of(winner.b), ground.facts, connections=ground.connections)
        return replace(found, search=replace(found.search, model=model, notes=tuple(notes)))

    def result(self) -> LiveResult:
        """Return what there is by now."""
        searcher = self.searcher
        search = LiveSearch(
            knobs=self._space.names(),
            left_out=dict(self._left_out),
            candidates=tuple(searcher.tried),
            finals=tuple(self._final(settings, outcome) for settings, outcome in searcher.finals),
            chosen=searcher.chosen,
            effects=tuple(LiveOwnEffect(setting=name, verdict=verdict) for name, verdict in searcher.effects),
            stopped=searcher.stopped,
            notes=tuple(searcher.notes),
            is_restored=searcher.is_restored,
            session=self._watched.session,
        )
        said = search_judgement(search)
        return replace(
            self._watched.told, search=search, title=said.title, word=said.word, elapsed_s=self._watched.elapsed_s
        )


def _kept_starts(study: Study) -> tuple[dict[str, str], ...]:
    return shaped(tuple[dict[str, str], ...], study.asked.get("starts", ()), "the options")


def _connections(ground: LiveGround, study: Study) -> int:
    """Return how many sessions the search reckoned with. Raises EnvironmentUnsuitable where more are there now."""
    before = int(str(study.asked["connections"]))
    if ground.connections > SESSIONS_ROOM * before:
        now = ground.connections // SESSIONS_ROOM
        raise EnvironmentUnsuitable(
            f"{plural(now, 'session')} are there now, and the memory of its candidates was calculated for {before}",
            hint="Start a new study, without --resume.",
        )
    return before


def _space(ground: LiveGround, asked: AskedSearch) -> tuple[SearchSpace, dict[str, str]]:
    """Return the knobs to search, and the reason of each that is not.

    Raises EnvironmentUnsuitable where none is left; errors of names as `build_space`.
    """
    ruled = {one.name: f"is set for sessions: {statement(one)}" for one in ground.overrides} | UNSEEN
    named = {*asked.only, *asked.include}
    space = build_space(
        load_catalogue(),
        ground.facts,
        include=asked.include or None,
        exclude=[*asked.exclude, *(name for name in ruled if name in ground.facts.settings)],
        only=asked.only or None,
        reload_only=True,
        budget=TrialBudget(
            warmup_s=WASH_S, measure_s=USUAL_S - WASH_S, read_only=False, connections=ground.connections
        ),
    )
    left_out = {one.name: ruled.get(one.name, one.reason) for one in space.excluded}
    if not space.dimensions:
        told = {name: why for name, why in left_out.items() if not named or name in named}
        raise EnvironmentUnsuitable(
            "there is no knob to search on a live load",
            detail="; ".join(f"{name}: {why}" for name, why in told.items()),
            hint="Name others with --include or --only; pgdyno tune searches restarts too, with a load of its own.",
        )
    return space, left_out


def _kept(asked: AskedSearch) -> dict[str, object]:
    return {name: value for name, value in asdict(asked).items() if name != "answer_s"}
