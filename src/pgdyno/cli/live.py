"""`pgdyno live`: a server under its users' own load, watched, or two configurations of it compared."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.flags import verb
from pgdyno.cli.arguments.operators import read_operators
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import names_a_server, target_request
from pgdyno.cli.requests.dbtune import FileTimes, take_file
from pgdyno.cli.requests.live_approval import (
    Asker,
    approve,
    asker_of,
    asks,
    check_answer,
    confirm,
    decide,
    settings_of,
    show_search,
)
from pgdyno.cli.requests.live_flags import AUTO, LEAST_PAIRS, LiveFlags
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.results.live import LiveResult
    from pgdyno.model.study import Study
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.live.options import LiveOptions
    from pgdyno.studies.live.search_run import AskedSearch
    from pgdyno.studies.session.target_request import TargetRequest

LEAST_REFERENCE_MIN = 2.0
"""Of less, no length of a period has enough neighbours to be chosen."""
USUAL_PAIR_MIN = 1.0
LEAST_PERIOD_S = 15.0
OF_THE_BEGINNING = frozenset(
    {"reference", "max_pairs", "smallest_effect", "guards", "guard_trips", "seed", "not_during"}
)
"""What a study that is resumed has from its begin."""
_OF_CHANGES = (OF_THE_BEGINNING - {"reference"}) | {
    "approve", "approve_timeout", "notify", "budget", "watchdog_deadline"
}  # fmt: skip


@verb("live")
def command(flags: LiveFlags) -> int:
    """Work with a server's real load, through pg_stat_statements only: no benchmark, no clone, no queries of our own.

    --watch-only reads the counters for a while and prints the smallest change in statement time that a study could show
    here. --b compares settings with those in force: after the reference, and after you have approved the plan, both
    take turns in random order until the verdict is final; then the server is as it was. --search does the same with one
    candidate after another, two to four pairs each, asks before each of them, and confirms the best in fresh pairs.
    --allow-restart compares settings that need a restart, too: in --windows only, after saying how many there will be.

    Exit code 0 for better or equivalent, 1 for worse, or better with something against it, 2 when nobody could be asked
    and nothing was changed, 3 for not resolved, 4 when a guard, a veto or somebody else's change ended it and the
    server was restored, 6 when the server cannot be watched or changed, with the commands that would change that.
    """
    from pgdyno.cli.requests.study import check_report_path, print_result, write_report
    from pgdyno.cli.terminal.progress import Progress

    a, b = settings_of(flags.a_words, "--a"), settings_of(flags.b_words, "--b")
    modes = [flags.watch_only, flags.search, flags.demo]
    rule = flags.rule
    earlier = [name for name in (flags.resume, flags.again) if name is not None]
    resumes = bool(earlier)
    if [*modes, bool(b), rule is not None].count(True) + len(earlier) != 1:
        raise UsageError(
            "give one of --watch-only, --b, --rule, --search, --resume, --again and --demo",
            hint="Begin with pgdyno live --watch-only, then compare: pgdyno live --b work_mem=64MB.",
        )
    if flags.dbtune is not None and (flags.demo or resumes):
        raise UsageError("--dbtune is for a new study", hint="Leave it out with --demo, --resume and --again.")
    if flags.demo:
        _check_demo(flags)
    if a and not b:
        raise UsageError("--a needs --b to compare it with", hint="Add --b KNOB=VALUE.")
    if flags.watch_only:
        _check_watching()
    _check_companions({"search": flags.search, "compares": bool(b) or rule is not None, "resume": resumes})
    flags, times = take_file(flags)
    check_report_path(flags.report)
    if b:
        check_answer(flags, (*a, *b), restarts=flags.allow_restart)
    if flags.search or rule is not None:
        check_answer(flags, (), restarts=flags.allow_restart)
    if rule is not None:
        from pgdyno.studies.advice import advised

        advised.require([rule], advised.AdviceSource())
    store, progress = open_store(flags.store_url), Progress()
    if flags.demo:
        result = _shown(flags, store, progress)
    elif flags.search:
        result = _searched(flags, times, store, progress)
    elif earlier:
        result = _resumed(earlier[0], flags, store, progress)
    else:
        compares = b or rule is not None
        result = _compared(flags, times, a, b, store, progress) if compares else _watched(flags, store, progress)
    write_report(store, result, flags.report, progress)
    print_result(store, result, flags.as_json)
    return int(result.exit_code)


def _check_watching() -> None:
    """Refuse flags of what changes a server: beside --watch-only they would be taken for heard, and not even read."""
    context = click.get_current_context()
    for option in context.command.params:
        name = str(option.name)
        if name in _OF_CHANGES and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option.opts[0]} is for studies that change settings", hint="Leave it out.")


def _check_companions(modes: Mapping[str, bool]) -> None:
    """Refuse flags that would mean nothing in this mode, and would be taken for heard."""
    context = click.get_current_context()
    typed = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for name in sorted(typed & {"candidates", "only", "include", "exclude"}):
        if not modes["search"]:
            raise UsageError(f"--{name} is for --search", hint="Leave it out, or search: pgdyno live --search.")
    if "operator_token_file" in typed and not any(modes.values()):
        raise UsageError(
            "--operator-token-file is for studies that ask: --b, --rule, --search and --resume", hint="Leave it out."
        )
    for name in sorted(typed & {"windows", "period", "wash_out"}):
        if "allow_restart" not in typed:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for --allow-restart", hint=f"Leave it out, or add --allow-restart to {flag}.")
    if "allow_restart" in typed:
        if not modes["compares"] or "a_words" in typed:
            raise UsageError(
                "--allow-restart is for --b and --rule, against the server as it is",
                hint="A search and --a change only what a reload brings into force.",
            )
        if "windows" not in typed:
            raise UsageError(
                "--allow-restart wants the times of the day at which the server may be restarted",
                hint="Give --windows 01:00-05:00; it may be given again.",
            )
    if "critical" in typed and not modes["compares"]:
        raise UsageError("--critical is for --b and --rule", hint="A search vetoes what becomes twice as slow.")
    for name in sorted(typed & OF_THE_BEGINNING):
        if modes["resume"]:
            flag = next(one.opts[0] for one in context.command.params if one.name == name)
            raise UsageError(
                f"{flag} cannot be changed when a study is resumed", hint="Leave it out, or start a new study."
            )


def _watched(flags: LiveFlags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.watch import watch_only
    from pgdyno.studies.session.opening import opened

    request, reference_s = target_request(flags), 60 * flags.reference
    with opened(request) as target:
        return watch_only(store, target, request, reference_s=reference_s, announce=progress.announce)


def _shown(flags: LiveFlags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.demo import live_demo

    return live_demo(
        store,
        progress,
        keep=flags.keep,
        seed=_seed(flags),
        approve=lambda plan: approve(plan, None),
        announce=progress.announce,
    )


def _check_demo(flags: LiveFlags) -> None:
    if flags.target or flags.host:
        raise UsageError(
            "--demo runs on a sandbox of its own, and not on --target", hint="Leave --target and --host out."
        )


def _seed(flags: LiveFlags) -> int:
    return secrets.randbelow(1 << 31) if flags.seed is None else int(flags.seed)


def _compared(
    flags: LiveFlags, times: FileTimes | None, a: dict[str, str], b: dict[str, str], store: Store, progress: Progress
) -> LiveResult:
    from pgdyno.studies.live.run import AskedArms, switch_study
    from pgdyno.studies.session.opening import opened

    options, request, name = _options(flags, times), target_request(flags), flags.rule
    asker = asker_of(flags)
    with opened(request) as target:
        option: object = None
        if name is not None:
            from pgdyno.studies.advice.advised import AdviceSource, proposed_by

            found = proposed_by(target, name, AdviceSource(), store=store, progress=progress.announce)
            b, option = dict(found.settings), found.option
        ask = asks(flags.approve, (*a, *b), restarts=flags.allow_restart)
        arms = AskedArms(a, b, option, tuple(map(int, flags.critical)))
        return switch_study(
            store, target, request, options, arms, progress,
            approve=lambda plan: approve(plan, asker if ask else None),
            announce=progress.announce, confirm=confirm(_last_asker(flags, asker)), answer_s=asker.timeout_s,
        )  # fmt: skip


def _resumed(name: str, flags: LiveFlags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.cli.requests.study_request import of_named_server, resumable
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.live.options import earlier_study, options_of
    from pgdyno.studies.live.recording import is_approved
    from pgdyno.studies.live.run import asked_by, switch_study
    from pgdyno.studies.live.search_run import is_search, search_asked_by
    from pgdyno.studies.session.opening import opened
    from pgdyno.studies.winner import request_of
    from pgdyno.undo.watch import Deadlines

    watch, operators = Deadlines(health_s=flags.watchdog_deadline), read_operators(flags.operator_token_file)
    again = flags.again is not None
    request = target_request(flags)
    named = request if names_a_server(request) else None
    if again:
        study = earlier_study(store, name, fits=None if named is None else lambda: of_named_server(named))
    else:
        study = resumable(store, name, StudyKind.LIVE, server=named)
    resumed = None if again else study
    request = named or request_of(study)
    asker = asker_of(flags)
    if is_search(study):
        if click.get_current_context().get_parameter_source("budget") is ParameterSource.COMMANDLINE:
            raise UsageError(
                "the budget of a search cannot be changed by --budget when it is resumed", hint="Leave it out."
            )
        check_answer(flags, (), restarts=flags.allow_restart)
        asked, options = search_asked_by(study, asker.timeout_s), options_of(study, watch=watch, operators=operators)
        if again:
            options = options.anew(_seed(flags))
        return _search(flags, store, progress, request, options, asked, asker, resumed)
    typed = click.get_current_context().get_parameter_source("budget") is ParameterSource.COMMANDLINE
    keeps_time = "windows" in study.asked and not typed  # which was reckoned from its pairs
    arms, options = asked_by(study), options_of(study, None if keeps_time else 60 * flags.budget, watch, operators)
    if again:
        options = options.anew(_seed(flags))
    if again or not is_approved(study):
        check_answer(flags, (*arms.a, *arms.b), restarts=bool(options.windows))
    ask = asks(flags.approve, (*arms.a, *arms.b), restarts=bool(options.windows))
    with opened(request) as target:
        return switch_study(
            store, target, request, options, arms, progress,
            approve=lambda plan: approve(plan, asker if ask else None), announce=progress.announce, resumed=resumed,
            confirm=confirm(_last_asker(flags, asker)), answer_s=asker.timeout_s,
        )  # fmt: skip


def _searched(flags: LiveFlags, times: FileTimes | None, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.search_run import AskedSearch

    asker = asker_of(flags)
    asked = AskedSearch(
        candidates=flags.candidates,
        answer_s=asker.timeout_s,
        only=flags.only,
        include=flags.include,
        exclude=flags.exclude,
    )
    return _search(flags, store, progress, target_request(flags), _options(flags, times), asked, asker)


def _search(
    flags: LiveFlags,
    store: Store,
    progress: Progress,
    request: TargetRequest,
    options: LiveOptions,
    asked: AskedSearch,
    asker: Asker,
    resumed: Study | None = None,
) -> LiveResult:
    from pgdyno.studies.live.search_run import search_study
    from pgdyno.studies.session.opening import opened

    word = flags.approve
    with opened(request) as target:
        return search_study(
            store, target, request, options, asked, progress,
            show=show_search,
            decide=lambda plan: decide(plan, asker if asks(word, tuple(plan.proposal.settings)) else None),
            announce=progress.announce, resumed=resumed, confirm=confirm(_last_asker(flags, asker)),
        )  # fmt: skip


def _last_asker(flags: LiveFlags, asker: Asker) -> Asker:
    """Return who asks whether a winner is kept: --approve auto leaves the terminal alone, as ever."""
    return replace(asker, reads=asker.reads and flags.approve != AUTO)


def _options(flags: LiveFlags, times: FileTimes | None) -> LiveOptions:
    from pgdyno.model.guard_table import GUARDS, LIVE_GUARDS
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.live.options import LiveOptions
    from pgdyno.studies.live.quiet import QuietTimes
    from pgdyno.studies.live.windows import PAIRS
    from pgdyno.trial.guard_settings import guard_plan
    from pgdyno.undo.watch import Deadlines

    reference, budget = flags.reference, flags.budget
    if reference < LEAST_REFERENCE_MIN:
        raise UsageError(
            f"--reference {reference:g} min is too short to choose the length of a period",
            hint=f"Give --reference {LEAST_REFERENCE_MIN:g}min or more; 10 is little, 30 is better.",
        )
    max_pairs, windows, quiet = flags.max_pairs, QuietTimes.of(flags.windows).words, QuietTimes.of(flags.not_during)
    pair_min = USUAL_PAIR_MIN if times is None else 2 * times.period_s / 60
    if windows:
        source = click.get_current_context().get_parameter_source
        typed = {one for one in ("period", "wash_out") if source(one) is ParameterSource.COMMANDLINE}
        if times is None or typed:  # those of DBtune's file do where nobody typed others
            times = FileTimes(60 * flags.period, 60 * flags.wash_out)
        pair_min = 2 * times.period_s / 60 + 3
        max_pairs = max_pairs if source("max_pairs") is ParameterSource.COMMANDLINE else PAIRS
        if times.wash_s >= times.period_s:
            raise UsageError(
                f"--wash-out {times.wash_s / 60:g} min leaves nothing of a --period of {times.period_s / 60:g} min",
                hint="Give a shorter --wash-out; a third of the period is usual.",
            )
        if source("budget") is not ParameterSource.COMMANDLINE:
            budget = reference + (max_pairs + 2) * pair_min
    elif quiet.windows:
        quiet.require_room(time.time(), 2 * (LEAST_PERIOD_S if times is None else times.period_s))
    least = reference + LEAST_PAIRS * pair_min
    if budget < least:
        raise UsageError(
            f"--budget {budget:g} min has no room for the reference of {reference:g} min and {LEAST_PAIRS} pairs",
            hint=f"Give --budget {least:g}min or more, or a shorter --reference.",
        )
    return LiveOptions(
        reference_s=60 * reference,
        budget_s=60 * budget,
        seed=_seed(flags),
        design=Design(smallest_effect=flags.smallest_effect, min_pairs=LEAST_PAIRS, max_pairs=max_pairs),
        guards=guard_plan(flags.guards, flags.guard_trips, {**GUARDS, **LIVE_GUARDS}),
        watch=Deadlines(health_s=flags.watchdog_deadline),
        period_s=None if times is None else times.period_s,
        wash_s=None if times is None else times.wash_s,
        not_during=quiet.words,
        windows=windows,
        operators=read_operators(flags.operator_token_file),
    )
