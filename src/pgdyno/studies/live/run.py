"""`pgdyno live --b ...`: two arms on a server under its users' own load, from the checks to the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pgdyno.errors import UsageError
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.results.live import LiveResult, LiveSwitch
from pgdyno.model.study import Study
from pgdyno.stats.period_choice import SWITCH_S, wash_of
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import OPTION
from pgdyno.studies.live.arms import Arms, arms_of, not_kept
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.ground import LiveGround, WatchedServer, live_ground, live_study, require_no_stop
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.live.person.hands import LiveHands
from pgdyno.studies.live.person.keeping import ANSWER_S, Confirm, concluded
from pgdyno.studies.live.person.questions import RELOAD, WAITS, plan_question
from pgdyno.studies.live.plan_flips import flips_text
from pgdyno.studies.live.reach import untested
from pgdyno.studies.live.recording import Approved
from pgdyno.studies.live.switch_result import switch_of, switched
from pgdyno.studies.live.switchback import Switchback
from pgdyno.studies.live.windows import RestartCount, RestartPlan, RestartsMade, plan_of
from pgdyno.studies.live.words import REJECTED, judgement
from pgdyno.studies.live.world import A, B
from pgdyno.studies.night.window import NightWindow
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target
from pgdyno.trial.watcher import Watcher
from pgdyno.units import plural, seconds_text


@dataclass(frozen=True, slots=True)
class AskedArms:
    """What is compared: the settings of both arms; an empty A is the server as it is. `rule` is what B would prove.

    Statements of these queryids are `critical`: each is watched between closer bounds.
    """

    a: Mapping[str, str]
    b: Mapping[str, str]
    rule: object = None
    critical: tuple[int, ...] = ()

    def kept(self) -> dict[str, object]:
        """Return what a study keeps of it, for `asked_by`."""
        rule = {} if self.rule is None else {OPTION: self.rule}
        return {"a": dict(self.a), "b": dict(self.b), "critical": list(self.critical), **rule}


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """What a person is asked to approve. `left_s` is how long it takes at most, `notes` what they should know.

    `rollback` restores the server by hand. The answer is heard by `hands`, too. `restarts` are what B costs where it
    needs them. One that `is_approved` was approved before the study was ended, and nobody is asked again.
    """

    target: str
    arms: Arms
    period_s: float
    left_s: float
    max_pairs: int
    effect: str
    stop_file: str
    pause_file: str
    rollback: str
    notes: tuple[str, ...]
    hands: LiveHands = field(default_factory=LiveHands)
    restarts: RestartPlan | None = None
    is_approved: bool = False

    def question(self, seconds: float) -> LiveQuestion:
        """Return what is asked, for so many seconds."""
        found = self.arms.before
        return plan_question(
            {name: self.arms.b.get(name, value) for name, value in found.items()},
            {name: self.arms.a.get(name, value) for name, value in found.items()},
            target=self.target,
            plan=self.periods,
            effect=self.effect,
            notes=self.notes,
            seconds=seconds,
            outage=self.outage,
        )

    @property
    def outage(self) -> str:
        """Return what the switches cost the users, in words."""
        return RELOAD if self.restarts is None else self.restarts.text

    @property
    def periods(self) -> str:
        """Return how it goes, in words."""
        if self.restarts is not None:
            return (
                f"periods of {seconds_text(self.period_s)}, A and B in turns (A B, B A), at most "
                f"{plural(self.max_pairs, 'pair')}, only in {self.restarts.when}; the server is as found between "
                "these windows"
            )
        turns = (
            f"periods of {self.period_s:g} s, A and B in turns, in random order, at most "
            f"{plural(self.max_pairs, 'pair')}"
        )
        return f"{turns}, at most {seconds_text(self.left_s)}"


def asked_by(study: Study) -> AskedArms:
    """Return what a study of two arms was asked, to go on with it. Raises UsageError where it was something else."""
    told = study.asked
    a, b, critical = told.get("a"), told.get("b"), told.get("critical", [])
    if not isinstance(a, Mapping) or not isinstance(b, Mapping) or not b or not isinstance(critical, list):
        raise UsageError(
            f"study {study.id} compared no two configurations, and cannot be resumed",
            hint="Start a new study, without --resume.",
        )
    return AskedArms(dict(a), dict(b), told.get(OPTION), tuple(int(one) for one in critical))


def switch_study(
    store: Store,
    target: Target,
    request: TargetRequest,
    options: LiveOptions,
    asked: AskedArms,
    watcher: Watcher,
    *,
    approve: Callable[[SwitchPlan], bool],
    announce: Callable[[str], None],
    resumed: Study | None = None,
    confirm: Callable[[LiveHands], Confirm] | None = None,
    answer_s: float = ANSWER_S,
) -> LiveResult:
    """Watch the server, and if a person approves compare B with A on its own load; keep all of it as a study.

    `asked` has the arms, and `options` say how long `target` is watched and how pairs are made and judged. The study in
    `store` keeps `request`, how the server was asked for. `watcher` hears its steps, and `announce` takes lines of
    progress. `approve` is shown the plan, once the baseline was watched, and returns whether it may be carried out.

    A `resumed` one goes on with its reference and its pairs, by what was approved at first: with no more restarts than
    that in all; None begins a new one. `confirm` is given the study's hands and returns what asks whether a winner is
    kept, where the dashboard may answer; the question stays open for `answer_s` seconds. None asks nobody, and nobody
    is asked where that is one more restart, which `pgdyno apply` makes when it suits.

    Raises, before anything is kept, UsageError for an arm that cannot be, and EnvironmentUnsuitable where the server
    cannot be watched or changed. Signals restore the server; what was judged until then is kept.
    """
    with live_ground(store, target, options, announce) as ground:
        arms = arms_of(
            asked.a, asked.b, ground.facts, connections=ground.connections, may_restart=bool(options.windows)
        )
        _restart_plan(ground, options)  # a window that is too short is refused before anything is watched
        study = resumed or _study(request, ground, asked)
        notes = (*arms.notes, *not_kept(arms.b, ground.facts, connections=ground.connections))
        watched = ground.watch(study, watcher, arms.before, notes, resumes=resumed is not None)
        told, ending, period_s = watched.told, watched.ending, watched.period_s
        if period_s is None:
            return ending.complete(told)
        critical = _critical(watched, asked)
        recorded = watched.recording.recorded(len(watched.keys)) if resumed else []
        stops = watched.recording.stops() if resumed else ()
        is_dead = len(stops) >= options.guards.trips
        if recorded:
            watched.period_s = period_s = recorded[-1].period_s
            announce(f"continuing from {plural(len(recorded), 'pair')}")
        if stops:
            announce(f"before it was ended: {stops[-1]}{'; B does not come again' if is_dead else ''}")
        approved = watched.recording.approved() if resumed else None
        before = watched.recording.restarts() if resumed else RestartsMade()
        restarts = _restart_plan(
            ground, options, of_reference_s=0.0, pairs=len(recorded), made=before.made,
            approved=None if approved is None else approved.restarts,
        )  # fmt: skip
        spent = "" if restarts is None else restarts.spent
        if before.made:
            announce(f"before it was ended, {plural(before.made, 'restart')}, the way back included")
        flips = watched.flips()
        plans = flips.between(arms.a, arms.b)
        watched.recorder.phase(WAITS)
        plan = _plan(watched, arms, options, period_s, flips_text(plans), len(recorded), restarts)
        plan = replace(plan, is_approved=approved is not None)
        if not is_dead and not spent and not approve(plan):
            require_no_stop(watched.stop)  # which is nobody's answer
            announce("rejected: nothing was changed")
            return ending.complete(_rejected(told, arms, period_s, options))
        if approved is None:
            watched.recording.keep_approved(Approved(None if restarts is None else restarts.most))
        counted = (
            None
            if restarts is None
            else RestartCount(restarts.most, before.made, before.outages, keep=watched.recording.keep_restarts)
        )
        if counted is not None and counted.longest_s is not None:
            watched.quiet = replace(watched.quiet, switch_s=counted.longest_s)
        world = watched.world({A: arms.a, B: arms.b}, arms.names, counted)

        def told_by(outcome: LiveOutcome) -> LiveResult:
            switch = switch_of(
                arms, outcome, watched.reference, watched.keys, watched.names,
                seed=options.seed, session=watched.session,
                not_tested="" if counted else untested((arms.a, arms.b), watched.cached(world.guards.load.body)),
            )  # fmt: skip
            return switched(told, _with_restarts(switch, counted, options.windows), watched.elapsed_s)

        study_of_two = Switchback(
            world, watched.reference, period_s, options.design, options.seed,
            announce=announce, hear=lambda outcome: ending.hear(told_by(outcome), announce),
            guard_rest_s=options.guard_rest_s, most_stops=options.guards.trips,
            critical=(*critical, *flips.critical(plans)), recorded=recorded, recording=watched.recording,
            wash_s=options.wash_s, plans=plans, stops=stops, in_windows=bool(options.windows), spent=spent,
        )  # fmt: skip
        outcome = study_of_two.run()
        watched.tell_back()
        return concluded(
            watched, told_by(outcome),
            confirm=None if confirm is None or options.windows else confirm(watched.hands), answer_s=answer_s,
        )  # fmt: skip


def _restart_plan(
    ground: LiveGround,
    options: LiveOptions,
    *,
    of_reference_s: float | None = None,
    pairs: int = 0,
    made: int = 0,
    approved: int | None = None,
) -> RestartPlan | None:
    """Return what is restarted from now on for the pairs that are left, None for a study of reloads.

    `made` and `approved` are as of `plan_of`. Raises UsageError where no window holds a pair.
    """
    if not options.windows or options.period_s is None:
        return None
    return plan_of(
        tuple(map(NightWindow.parse, options.windows)),
        time.time(),
        max(1, options.design.max_pairs - pairs),
        period_s=options.period_s,
        outage_s=ground.outage_s,
        outage="unknown" if ground.outage is None else str(ground.outage),
        first_s=options.reference_s if of_reference_s is None else of_reference_s,
        drawn=pairs,
        made=made,
        approved=approved,
        quiet=tuple(map(NightWindow.parse, options.not_during)),
    )


def _with_restarts(switch: LiveSwitch, counted: RestartCount | None, windows: tuple[str, ...]) -> LiveSwitch:
    """Return what came of two arms with the restarts that were made, None where only reloads were."""
    if counted is None:
        return switch
    return replace(switch, restarts=counted.made, restarts_most=counted.most, outages=counted.outages, windows=windows)


def shows(title: str, most: int, pair_s: float, left_s: float, *, pairs: int = 0) -> str:
    """Return how many pairs fit into the time that is left, and what is known so far.

    `most` is the number of pairs at most, each of which takes `pair_s` seconds, and `left_s` the time that is left in
    seconds. `title` is what the reference showed or, of a resumed study, what the `pairs` that it has came to.
    """
    fit, length = int(left_s // pair_s), f"{plural(most, 'pair')} take {seconds_text(most * pair_s)}"
    if fit < most:
        length = f"the time is enough for about {fit} of {plural(most, 'pair')}"
    so_far = f"So far, after {plural(pairs, 'pair')}: {title[:1].lower()}{title[1:]}" if pairs and title else title
    return f"{length}. {so_far}".rstrip()


def _critical(watched: WatchedServer, asked: AskedArms) -> tuple[int, ...]:
    """Return the numbers of the statements that the user named. Raises UsageError for one that did not run."""
    ran = {key.queryid for key, calls in zip(watched.keys, watched.reference.calls, strict=True) if calls > 0}
    if missing := [one for one in asked.critical if one not in ran]:
        raise UsageError(
            f"--critical {missing[0]}: no statement of this queryid ran in the reference",
            hint="SELECT queryid, query FROM pg_stat_statements lists them.",
        )
    return tuple(number for number, key in enumerate(watched.keys) if key.queryid in asked.critical)


def _plan(
    watched: WatchedServer,
    arms: Arms,
    options: LiveOptions,
    period_s: float,
    flips: tuple[str, ...],
    pairs: int,
    restarts: RestartPlan | None,
) -> SwitchPlan:
    most, told = options.design.max_pairs, watched.told
    effect = shows(told.title if told.period_s else "", most, 2 * (period_s + SWITCH_S), watched.left_s, pairs=pairs)
    if restarts is not None:
        effect = f"Restarts not counted, {effect}"
    return SwitchPlan(
        target=watched.ground.target.name,
        arms=arms,
        period_s=period_s,
        left_s=watched.left_s,
        max_pairs=options.design.max_pairs,
        effect=effect,
        stop_file=str(watched.stop.path),
        pause_file=str(watched.quiet.pause),
        rollback=watched.rollback,
        notes=(*flips, *told.notes),
        hands=watched.hands,
        restarts=restarts,
    )


def _rejected(told: LiveResult, arms: Arms, period_s: float, options: LiveOptions) -> LiveResult:
    switch = LiveSwitch(
        a=dict(arms.a),
        b=dict(arms.b),
        before=dict(arms.before),
        ending=REJECTED,
        period_s=period_s,
        wash_s=wash_of(period_s),
        seed=options.seed,
        stopped="the plan was rejected, and nothing was changed",
    )
    said = judgement(switch)
    return replace(told, switch=switch, title=said.title, word=said.word)


def _study(request: TargetRequest, ground: LiveGround, asked: AskedArms) -> Study:
    name = f"live {', '.join(f'{name}={value}' for name, value in asked.b.items())}"
    return live_study(name, request, ground, asked.kept())
