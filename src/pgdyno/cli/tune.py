"""`pgdyno tune`: search, prove, explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pgdyno.cli.arguments.flags import flag, least_and_most, two_sides, verb
from pgdyno.cli.arguments.numbers import Share, Time
from pgdyno.cli.arguments.planned import PlanFlag, PlannedCommand
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.requests.study_request import (
    CONFIDENCE,
    METRICS,
    PAIRS,
    Check,
    EndFlags,
    KernelKnobs,
    StudyFlags,
    kept_options,
    load_of,
    named_server,
    new_request,
    resumable,
    resumed_request,
)
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import LoadPlan, WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudyRequest, StudySession
    from pgdyno.studies.tune.options import TuneOptions
    from pgdyno.targets.target import Target


class _Flags(PlanFlag, StudyFlags):
    trials: int = flag("Maximum number of search trials.", default=40, type=click.IntRange(1))
    budget: float | None = flag(
        "Time for everything, in minutes: start, data load, trials, proof, restore and report.",
        type=Time("min", 0, min_open=True),
    )
    metric: str = flag("What to improve.", default="throughput", type=click.Choice(METRICS))
    smallest_effect: float = flag(
        "Smallest effect of interest; below it two configurations are equivalent.",
        default=0.02,
        type=click.FloatRange(0, 1, min_open=True),
    )
    tolerance: float | None = flag(
        (
            "How much worse than the best found the winner may be, to take the least memory and the fewest "
            "settings: 5% or 0.05.  [default: a tenth of the gain, or half the scatter of a trial]"
        ),
        type=Share(),
    )
    confidence: float = flag("Confidence of the intervals.", default=0.95, type=CONFIDENCE)
    seed: int = flag("Seed of search and interleaving.", default=1)
    include: tuple[str, ...] = flag("Search this knob too, though it is not searched by default.", metavar="KNOB")
    exclude: tuple[str, ...] = flag("Leave this knob alone.", metavar="KNOB")
    only: tuple[str, ...] = flag("Search only these knobs; may be given again.", metavar="KNOB")
    linux: bool = flag("Search the Linux knobs of the host beside those of the server; as root.")
    reload_only: bool = flag("Never restart: knobs that need it are not searched.")
    restarts: str | None = flag(
        "Maximum number of restarts, and when: none, 3, 22:00-05:00 or 3@22:00-05:00.  [default: any]", metavar="BUDGET"
    )
    noise_runs: int = flag("Baseline runs for the noise floor.", default=6, type=click.IntRange(3))
    rivals: tuple[str, ...] = flag(
        "Measure this configuration beside the winner, such as a DBA's own.", "--rival", metavar="NAME=FILE"
    )
    pairs: tuple[int, int] = flag("Minimum and maximum number of proof pairs.", default=(4, 24), type=PAIRS)
    resume: str | None = flag("Continue an interrupted tune with its own options.", metavar="STUDY")


@verb("tune", cls=PlannedCommand)
def command(flags: _Flags) -> int:
    """Search for a better configuration, prove it against yours and explain it.

    The server is restarted and reconfigured many times, and ends as it was found. Nothing is kept in force: the
    result is a fragment of postgresql.conf with the evidence for each line. Knobs that can lose committed data are
    never touched.
    """
    from pgdyno.cli.terminal.progress import Progress

    store = open_store(flags.store_url)
    request, options = _resumed(store, flags.resume, flags) if flags.resume else _new(flags)
    return run_tune(store, Progress(), request, options, flags)


def run_tune(
    store: Store,
    progress: Progress,
    request: StudyRequest,
    options: TuneOptions,
    flags: EndFlags,
    keep_result: Callable[[StudyResult], None] | None = None,
) -> int:
    """Run the tune, print what it found and return the exit code.

    `request` says what study is opened, `options` what is searched and for how long, and `flags` where the report goes
    and whether JSON is printed. The study is kept in `store`; `progress` shows how it goes. `keep_result` is told the
    result before it is printed; None for nobody.
    """
    from pgdyno.cli.requests.study import check_report_path, print_result, run_study
    from pgdyno.studies.tune.result import tune_result
    from pgdyno.studies.tune.run import keep_restarts, too_short, tune
    from pgdyno.trial.stopwatch import Alarm, BudgetSpent, Stopwatch, process_began

    check_report_path(flags.report)

    watch = None if options.budget_s is None else Stopwatch(options.budget_s, began=process_began())
    if watch is not None and watch.end_s <= watch.now_s():
        raise too_short(options, "before it began: restoring alone may take that long")
    alarm = Alarm(watch)

    def body(session: StudySession) -> StudyResult:
        if watch is not None and session.outage is not None:
            keep_restarts(watch, session.outage, options)
            alarm.wind()
        tuned = tune(session.laboratory, options, progress.announce)
        alarm.stop()
        return tune_result(session.laboratory, tuned, options)

    try:
        with alarm.ringing():
            result = run_study(replace(request, stopwatch=watch), store, progress, body, flags.report)
    except (BudgetSpent, click.Abort) as error:  # click makes the second of the first where it waits for an answer
        if watch is None or watch.now_s() < watch.end_s:
            raise
        raise too_short(options, "before the first trial") from error
    if keep_result is not None:
        keep_result(result)
    print_result(store, result, flags.as_json)
    return int(result.exit_code)


def checks(options: TuneOptions, plan: LoadPlan, *, ask: bool) -> Check:
    """Return the check that refuses knobs and rivals which target or policy do not allow, and then asks."""

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.requests.study import RELOADS_ONLY, confirm_changes, outage_of
        from pgdyno.knobs.constraints import require
        from pgdyno.knobs.policy import check_settings
        from pgdyno.studies.tune.space import reach_sentences, search_space

        for name, settings in options.rivals.items():
            require(check_settings(settings, facts), facts, connections=plan.connections, what=f"rival {name}")
        space = search_space(facts, workload, plan, options)
        knobs = space.names()
        words = (
            f"up to {plural(options.trials, 'search trial')} over {plural(len(knobs), 'knob')}, then "
            f"the proof; sets {', '.join(knobs)}"
        )
        if sentences := reach_sentences(space, facts, options):
            words = "; ".join([words, *sentences])
        away = RELOADS_ONLY if options.never_restarts else outage_of(options.restart_budget, outage)
        confirm_changes(target, workload, words, away, ask=ask)

    return check


def _kernel_knobs(options: TuneOptions, plan: LoadPlan) -> KernelKnobs:
    """Return what names the Linux knobs that the search and its rivals may set."""

    def names(_: Target, facts: Facts, workload: WorkloadSpec) -> Sequence[str]:
        from pgdyno.studies.session.study_session import linux_knobs
        from pgdyno.studies.tune.space import search_space

        space = search_space(facts, workload, plan, options)
        return linux_knobs(space.names(), *options.rivals.values())

    return names


def _new(flags: _Flags) -> tuple[StudyRequest, TuneOptions]:
    """Build the request from the flags."""
    from pgdyno.cli.requests.study import settings_from
    from pgdyno.model.study import StudyKind
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.tune.options import TuneOptions

    least, most = least_and_most("pairs", flags.pairs)
    options = flags.into(
        TuneOptions,
        metric=Metric(flags.metric),
        budget_s=None if flags.budget is None else 60 * flags.budget,
        restarts=_budget(flags.restarts),
        confirm_min=least,
        confirm_max=most,
        rivals={name: settings_from(Path(path)) for name, path in map(_rival, flags.rivals)},
    )
    load = load_of(flags)
    request = new_request(
        flags,
        kind=StudyKind.TUNE,
        name=f"tune {flags.workload}",
        options={"tune": asdict(options)},
        load=load,
        restart=_restart(options),
        budget=options.restart_budget,
        check=checks(options, load.plan, ask=not flags.yes),
        kernel=_kernel_knobs(options, load.plan),
    )
    return request, options


def _restart(options: TuneOptions) -> Literal["always", "as-needed"]:
    return "as-needed" if options.reload_only or options.restarts is not None else "always"


def _budget(text: str | None) -> str | None:
    from pgdyno.control.restart_budget import RestartBudget

    return None if text is None else str(RestartBudget.parse(text))


def _resumed(store: Store, name: str, flags: _Flags) -> tuple[StudyRequest, TuneOptions]:
    """Rebuild the request of an interrupted tune from the store."""
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.tune.options import TuneOptions

    study = resumable(store, name, StudyKind.TUNE, server=named_server(flags))
    options = kept_options(TuneOptions, study, "tune")
    # The search decides by the budget that it began with, so that it asks the same again; only the bound is new.
    more = _budget(flags.restarts)
    allowed = options if more is None else replace(options, restarts=more)
    request = resumed_request(
        flags,
        study,
        restart=_restart(options),
        budget=allowed.restart_budget,
        check=checks(options, study.plan, ask=not flags.yes),
        kernel=_kernel_knobs(options, study.plan),
    )
    return request, options


def _rival(word: str) -> tuple[str, str]:
    return two_sides(word, "rival", "NAME=FILE", "--rival mine=mine.conf")
