"""`pgdyno live`: a server under its users' own load, watched, or two configurations of it compared."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.help_groups import GroupedCommand
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.arguments.target import names_a_server, target_options, target_request
from pgdyno.cli.requests.dbtune import FileTimes, take_file
from pgdyno.cli.requests.live_approval import (
    ANSWER_S,
    AUTO,
    CLASS_A,
    EACH,
    Asker,
    approve,
    asks,
    check_answer,
    decide,
    notify_words,
    settings_of,
    show_search,
)
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.results.live import LiveResult
    from pgdyno.model.study import Study
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.live.options import LiveOptions
    from pgdyno.studies.live.search_run import AskedSearch
    from pgdyno.studies.session.target_request import TargetRequest

LEAST_PAIRS = 3
LEAST_REFERENCE_MIN = 2.0
"""Of less, no length of a period has enough neighbours to be chosen."""
USUAL_PAIR_MIN = 1.0
OF_THE_BEGINNING = frozenset(
    {"reference", "max_pairs", "smallest_effect", "guards", "guard_trips", "seed", "not_during"}
)
"""What a study that is resumed has from its begin."""


@click.command("live", cls=GroupedCommand)
@target_options
@click.option("--watch-only", is_flag=True,
              help="Change nothing: say how small an effect this server could show in 10, 30 and 60 "
                   "minutes.")  # fmt: skip
@click.option("--b", "b_words", multiple=True, metavar="KNOB=VALUE,...",
              help="Compare these settings with those of --a; only what a reload brings into force.")  # fmt: skip
@click.option("--a", "a_words", multiple=True, metavar="KNOB=VALUE,...",
              help="What B is compared with.  [default: the server as it is]")  # fmt: skip
@click.option("--rule", metavar="RULE", help="Compare what this rule of advise proposes, to prove or refute it.")
@click.option("--critical", multiple=True, type=int, metavar="QUERYID",
              help="Veto B when this statement takes half as long again; may be given again.")  # fmt: skip
@click.option("--notify", metavar="COMMAND",
              help="Run this when an answer is waited for, with the question as its last word; no shell.")  # fmt: skip
@click.option("--search", is_flag=True,
              help="Search settings that this load runs faster with, of those that need no restart.")  # fmt: skip
@click.option("--candidates", type=click.IntRange(1), default=20, show_default=True,
              help="How many configurations a search tries at most.")  # fmt: skip
@click.option("--only", multiple=True, metavar="KNOB", help="Search these knobs alone; may be given again.")
@click.option("--include", multiple=True, metavar="KNOB",
              help="Search this knob too, though it is not searched by default.")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="KNOB", help="Leave this knob alone.")
@click.option(
    "--resume", metavar="STUDY", help="Go on with a comparison or search that was ended or killed: its id, or last."
)
@click.option("--again", metavar="STUDY",
              help="Begin a study with the options of this one, such as from a timer: its id, or last.")  # fmt: skip
@click.option("--dbtune", metavar="FILE", type=click.Path(path_type=Path),
              help="Take server, restart command, times and memory guard from DBtune's YAML file.")  # fmt: skip
@click.option("--demo", is_flag=True,
              help="Show it on a sandbox, under a load whose answer is planted: 12 minutes at most.")  # fmt: skip
@click.option("--approve", type=click.Choice([EACH, CLASS_A, AUTO]), default=EACH, show_default=True,
              help="Ask before the server is changed; class-A: only for what touches more than speed.")  # fmt: skip
@click.option("--approve-timeout", type=Time("min", 0.01), default=ANSWER_S / 60, show_default=True,
              help="How long to wait for an answer; none is a rejection.")  # fmt: skip
@click.option("--reference", type=Time("min", 1), default=30.0, show_default=True,
              help="How long the server is watched as it is; less than 10 minutes says little.")  # fmt: skip
@click.option("--budget", type=Time("min", 1), default=120.0, show_default=True,
              help="How long the study may take, the reference included.")  # fmt: skip
@click.option("--max-pairs", type=click.IntRange(LEAST_PAIRS), default=48, show_default=True,
              help="Maximum number of pairs.")  # fmt: skip
@click.option("--smallest-effect", type=click.FloatRange(0, 1, min_open=True), default=0.02, show_default=True,
              help="Smallest effect of interest; within it A and B are equivalent.")  # fmt: skip
@click.option("--guard", "guards", multiple=True, metavar="NAME=VALUE",
              help="Where a guard trips, such as statement-time=5x or errors=20%, or NAME=off.")  # fmt: skip
@click.option("--guard-trips", type=click.IntRange(1), default=1, show_default=True,
              help="How often guards may stop B before it is given up.")  # fmt: skip
@click.option("--watchdog-deadline", type=Time("s", 1, 3600), default=30.0, show_default=True,
              help="How long the server may be silent before the watchdog puts it back.")  # fmt: skip
@click.option("--not-during", multiple=True, metavar="HH:MM-HH:MM",
              help="Leave the server in its baseline at this time of the day; may be given again.")  # fmt: skip
@click.option("--seed", type=int, default=None, help="Seed of the order within the pairs.  [default: drawn]")
@click.option("--report", type=click.Path(path_type=Path), help="Write the HTML report here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Work with the load that is really there, by pg_stat_statements alone: no benchmark, no clone, no query of ours.

    --watch-only reads the counters for a while and prints the smallest change of the statements' time that a study
    could show here. --b compares settings with those in force: after the reference, and after you have approved the
    plan, both take turns in random order until the verdict is final; then the server is as it was.
    --search does the same with one candidate after another, two to four pairs each, asks before each of them, and
    confirms the best by fresh pairs.

    Exit code 0 for better or equivalent, 1 for worse, or better with something against it, 2 when nobody could be asked
    and nothing was changed, 3 for not resolved, 4 when a guard, a veto or somebody else's change ended it and the
    server was put back, 6 when the server cannot be watched or changed, with the commands that would change that.
    """
    from pgdyno.cli.requests.study import check_report_path, print_result
    from pgdyno.cli.terminal.progress import Progress

    flags = Flags(values)
    a, b = settings_of(flags.words("a_words"), "--a"), settings_of(flags.words("b_words"), "--b")
    modes = [flags.on(name) for name in ("watch_only", "search", "demo")]
    rule = flags.text("rule")
    again = flags.text("again") is not None
    resumes = flags.text("resume") is not None or again
    if [*modes, bool(b), rule is not None, resumes].count(True) != 1 or (again and flags.text("resume") is not None):
        raise UsageError(
            "give one of --watch-only, --b, --rule, --search, --resume, --again and --demo",
            hint="Begin with pgdyno live --watch-only, then compare: pgdyno live --b work_mem=64MB.",
        )
    if flags.path("dbtune") is not None and (flags.on("demo") or resumes):
        raise UsageError("--dbtune is for what is begun", hint="Leave it out with --demo, --resume and --again.")
    if flags.on("demo"):
        _check_demo(flags)
    if a and not b:
        raise UsageError("--a is what --b is compared with", hint="Add --b KNOB=VALUE.")
    _check_companions({"search": flags.on("search"), "compares": bool(b) or rule is not None, "resume": resumes})
    flags, times = take_file(flags)
    report = flags.path("report")
    check_report_path(report)
    if b:
        check_answer(flags, (*a, *b))
    if flags.on("search") or rule is not None:
        check_answer(flags, ())
    if rule is not None:
        from pgdyno.studies.advice import advised

        advised.require([rule], advised.AdviceSource())
    store, progress = open_store(flags.text("store_url")), Progress()
    if flags.on("demo"):
        result = _shown(flags, store, progress)
    elif flags.on("search"):
        result = _searched(flags, times, store, progress)
    elif resumes:
        result = _resumed(flags, store, progress)
    else:
        compares = b or rule is not None
        result = _compared(flags, times, a, b, store, progress) if compares else _watched(flags, store, progress)
    if report is not None:
        from pgdyno.report.drawing.html import write_html
        from pgdyno.studies.reports import build_report

        write_html(build_report(store, result.study), report)
        progress.announce(f"report: {report}")
    print_result(store, result, flags.on("as_json"))
    return int(result.exit_code)


def _check_companions(modes: Mapping[str, bool]) -> None:
    """Refuse flags that would mean nothing in this mode, and would be taken for heard."""
    context = click.get_current_context()
    typed = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for name in sorted(typed & {"candidates", "only", "include", "exclude"}):
        if not modes["search"]:
            raise UsageError(f"--{name} is for --search", hint="Leave it out, or search: pgdyno live --search.")
    if "critical" in typed and not modes["compares"]:
        raise UsageError("--critical is for --b and --rule", hint="A search vetoes what becomes twice as slow.")
    for name in sorted(typed & OF_THE_BEGINNING):
        if modes["resume"]:
            flag = next(one.opts[0] for one in context.command.params if one.name == name)
            raise UsageError(f"{flag} is what the study was begun with", hint="Leave it out, or begin a study anew.")


def _watched(flags: Flags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.watch import watch_only
    from pgdyno.studies.session.opening import opened

    request, reference_s = target_request(flags), 60 * flags.real("reference")
    with opened(request) as target:
        return watch_only(store, target, request, reference_s=reference_s, announce=progress.announce)


def _shown(flags: Flags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.demo import live_demo

    return live_demo(
        store,
        progress,
        keep=flags.on("keep"),
        seed=_seed(flags),
        approve=lambda plan: approve(plan, None),
        announce=progress.announce,
    )


def _check_demo(flags: Flags) -> None:
    if flags.text("target") or flags.text("host"):
        raise UsageError(
            "--demo runs on a sandbox of its own, and not on --target", hint="Leave --target and --host out."
        )


def _seed(flags: Flags) -> int:
    seed = flags.number("seed")
    return secrets.randbelow(1 << 31) if seed is None else int(seed)


def _compared(
    flags: Flags, times: FileTimes | None, a: dict[str, str], b: dict[str, str], store: Store, progress: Progress
) -> LiveResult:
    from pgdyno.studies.live.run import AskedArms, switch_study
    from pgdyno.studies.session.opening import opened

    options, request, name = _options(flags, times), target_request(flags), flags.text("rule")
    asker = Asker(60 * flags.real("approve_timeout"), notify_words(flags.text("notify")))
    with opened(request) as target:
        option: object = None
        if name is not None:
            from pgdyno.studies.advice.advised import AdviceSource
            from pgdyno.studies.advice.proposed import proposed_by

            found = proposed_by(target, name, AdviceSource(), store=store, progress=progress.announce)
            b, option = dict(found.settings), found.option
        ask = asks(flags.choice("approve"), (*a, *b))
        arms = AskedArms(a, b, option, tuple(map(int, flags.words("critical"))))
        return switch_study(
            store, target, request, options, arms, progress,
            approve=lambda plan: approve(plan, asker if ask else None),
            announce=progress.announce,
        )  # fmt: skip


def _resumed(flags: Flags, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.cli.requests.study_request import resumable
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.live.options import earlier_study, options_of
    from pgdyno.studies.live.run import asked_by, switch_study
    from pgdyno.studies.live.search_run import is_search, search_asked_by
    from pgdyno.studies.session.opening import opened
    from pgdyno.studies.winner import request_of
    from pgdyno.undo.watch import Deadlines

    watch = Deadlines(health_s=flags.real("watchdog_deadline"))
    again = flags.text("again")
    study = resumable(store, flags.choice("resume"), StudyKind.LIVE) if again is None else earlier_study(store, again)
    resumed = study if again is None else None
    request = target_request(flags)
    request = request if names_a_server(request) else request_of(study)
    asker = Asker(60 * flags.real("approve_timeout"), notify_words(flags.text("notify")))
    if is_search(study):
        if click.get_current_context().get_parameter_source("budget") is ParameterSource.COMMANDLINE:
            raise UsageError(
                "--budget is what a search was begun with, and what is left of it stays", hint="Leave it out."
            )
        check_answer(flags, ())
        asked, options = search_asked_by(study, asker.timeout_s), options_of(study, watch=watch)
        if again is not None:
            options = options.anew(_seed(flags))
        return _search(flags, store, progress, request, options, asked, asker, resumed)
    arms, options = asked_by(study), options_of(study, 60 * flags.real("budget"), watch=watch)
    if again is not None:
        options = options.anew(_seed(flags))
    check_answer(flags, (*arms.a, *arms.b))
    ask = asks(flags.choice("approve"), (*arms.a, *arms.b))
    with opened(request) as target:
        return switch_study(
            store, target, request, options, arms, progress,
            approve=lambda plan: approve(plan, asker if ask else None), announce=progress.announce, resumed=resumed,
        )  # fmt: skip


def _searched(flags: Flags, times: FileTimes | None, store: Store, progress: Progress) -> LiveResult:
    from pgdyno.studies.live.search_run import AskedSearch

    asker = Asker(60 * flags.real("approve_timeout"), notify_words(flags.text("notify")))
    asked = AskedSearch(
        candidates=flags.whole("candidates"),
        answer_s=asker.timeout_s,
        only=flags.words("only"),
        include=flags.words("include"),
        exclude=flags.words("exclude"),
    )
    return _search(flags, store, progress, target_request(flags), _options(flags, times), asked, asker)


def _search(
    flags: Flags,
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

    word = flags.choice("approve")
    with opened(request) as target:
        return search_study(
            store, target, request, options, asked, progress,
            show=show_search,
            decide=lambda plan: decide(plan, asker if asks(word, tuple(plan.proposal.settings)) else None),
            announce=progress.announce, resumed=resumed,
        )  # fmt: skip


def _options(flags: Flags, times: FileTimes | None) -> LiveOptions:
    from pgdyno.model.guard_table import GUARDS, LIVE_GUARDS
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.live.options import LiveOptions
    from pgdyno.studies.live.quiet import QuietTimes
    from pgdyno.trial.guard_settings import guard_plan
    from pgdyno.undo.watch import Deadlines

    reference, budget = flags.real("reference"), flags.real("budget")
    if reference < LEAST_REFERENCE_MIN:
        raise UsageError(
            f"--reference {reference:g} min is too short for the length of a period to be chosen",
            hint=f"Give --reference {LEAST_REFERENCE_MIN:g}min or more; 10 is little, 30 is better.",
        )
    pair_min = USUAL_PAIR_MIN if times is None else 2 * times.period_s / 60
    least = reference + LEAST_PAIRS * pair_min
    if budget < least:
        raise UsageError(
            f"--budget {budget:g} min does not hold the reference of {reference:g} min and {LEAST_PAIRS} pairs",
            hint=f"Give --budget {least:g}min or more, or a shorter --reference.",
        )
    return LiveOptions(
        reference_s=60 * reference,
        budget_s=60 * budget,
        seed=_seed(flags),
        design=Design(
            smallest_effect=flags.real("smallest_effect"), min_pairs=LEAST_PAIRS, max_pairs=flags.whole("max_pairs")
        ),
        guards=guard_plan(flags.words("guards"), flags.whole("guard_trips"), {**GUARDS, **LIVE_GUARDS}),
        watch=Deadlines(health_s=flags.real("watchdog_deadline")),
        period_s=None if times is None else times.period_s,
        wash_s=None if times is None else times.wash_s,
        not_during=QuietTimes.of(flags.words("not_during")).words,
    )
