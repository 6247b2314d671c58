"""`pgdyno scale`: levels of load on hardware in proportion, and whether they answer alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import FILE, argument, flag, verb
from pgdyno.cli.arguments.numbers import Time, Whole, max_bytes
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import target_request
from pgdyno.cli.requests.study_request import (
    Course,
    Load,
    MeasuringFlags,
    carry_out,
    kept_options,
    new_request,
    resumable,
    resumed_request,
)
from pgdyno.cli.terminal.progress import Progress
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.study import Study
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.probes.sampler import Sampler
    from pgdyno.server.outage import Outage
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.scale.plan import ScalePlan
    from pgdyno.studies.session.guarding import Halting
    from pgdyno.studies.session.study_session import StudyRequest, StudySession
    from pgdyno.targets.target import Target
    from pgdyno.workloads.protocol import LoadReading

LONGEST_S = 86_400.0
PART = "scale_part"
"""The option of a study of one server's levels, which says of which whole one they are."""


class _Flags(MeasuringFlags):
    plan: Path | None = argument("[PLAN.toml]", type=FILE, required=False, default=None)
    apply: bool = flag("Run the levels; without it the plan is printed and nothing is run.")
    max_seconds: float = flag(
        "End the study after this time and judge what was measured.", default=LONGEST_S, type=Time("s", 1)
    )
    max_clients: int = flag("Refuse a plan with more connections than this.", default=256, type=Whole(1, 100_000))
    max_size: str | None = flag("Refuse to load more data than this, such as 20GB.", metavar="SIZE")
    stop_file: Path | None = flag("End the study when this file exists.")
    resume: str | None = flag("Continue an interrupted study with its own plan.", metavar="STUDY")


@verb("scale")
def command(flags: _Flags) -> int:
    """Measure levels in per cent of production, each on its share of the hardware, and say whether they perform alike.

    Prints the plan, the undo and the outage, and runs nothing without --apply. A level limits the server's CPUs and
    memory by a cgroup, which needs root; the load generator is outside of the limit. Or a level names a server of its
    own, which must be in the list of servers that may be changed. docs/reference/scale.md describes the plan.

    Exit code 0 if success rate, response time and path length of every level are constant within the tolerance of the
    plan, 1 if one is not, 3 if it is not resolved.
    """
    from pgdyno.cli.requests.study import check_report_path
    from pgdyno.cli.terminal.columns import print_plan
    from pgdyno.errors import UsageError
    from pgdyno.studies.scale.words import plan_lines
    from pgdyno.studies.session.guarding import halting

    check_report_path(flags.report)
    if (flags.plan is None) == (flags.resume is None):
        raise UsageError("give either a plan or --resume", hint="pgdyno scale PLAN.toml prints what it would do.")
    halt = halting(flags.max_seconds, flags.stop_file)
    progress = _EndingProgress(halt)
    if flags.resume is not None:
        store = open_store(flags.store_url)
        request, plan = _resumed(store, flags)
        return _carry_out(request, plan, flags, store, progress, halt)
    plan = _read(flags)
    server = target_request(flags)
    is_named = server.dsn is not None or server.host is not None
    if is_named and "" not in plan.targets:
        raise UsageError("every level of the plan has a target of its own", hint="Leave --target and --host out.")
    name = "--target" if is_named else f"sandbox {server.sandbox}"
    name = ", ".join(one or name for one in plan.targets)
    print_plan(plan_lines(plan, name, flags.max_seconds, flags.stop_file))
    if not flags.apply:
        progress.announce("nothing was run; add --apply to run it")
        return 0
    return _carry_out(_new(plan, flags), plan, flags, open_store(flags.store_url), progress, halt)


class _EndingProgress(Progress):
    """Progress that ends the study when its time is over or its stop file is there."""

    def __init__(self, halt: Halting) -> None:
        super().__init__()
        self._halt = halt

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        from pgdyno.trial.stopwatch import BudgetSpent

        if why := self._halt():
            raise BudgetSpent(why)
        super().reading(elapsed_s, duration_s, load, sampler)


def _carry_out(
    request: StudyRequest, plan: ScalePlan, flags: _Flags, store: Store, progress: Progress, halt: Halting
) -> int:
    from pgdyno.studies.scale.servers import check_servers, require_apart, require_proportion, seen_server

    def body(session: StudySession) -> StudyResult:
        from pgdyno.studies.scale.run import part_of, run_scale, scale_result
        from pgdyno.studies.session.study_session import open_study

        with ExitStack() as stack:
            sessions = {plan.targets[0]: session}
            for target in plan.targets[1:]:
                part = _part(store, plan, target, session.study, flags)
                sessions[target] = stack.enter_context(open_study(part, store, progress, progress.announce))
            require_apart({target: seen_server(one.target) for target, one in sessions.items()})
            require_proportion(plan, {target: one.facts for target, one in sessions.items()})
            ended = run_scale(sessions, plan, halt, progress.announce)
            studies = {target: one.study for target, one in sessions.items()}
            result = scale_result(store, studies, plan, ended)
            for target in plan.targets[1:]:
                sessions[target].finish(part_of(result, store, studies[target]))
        return result

    check_servers(plan)
    return int(carry_out(request, flags, store, progress, body).exit_code)


def _read(flags: _Flags) -> ScalePlan:
    from pgdyno.cli.terminal.files import read_text
    from pgdyno.errors import UsageError
    from pgdyno.studies.scale.file import parse_plan

    assert flags.plan is not None, "it was looked at"
    text = read_text(flags.plan, hint="Name a plan of levels.")
    plan = parse_plan(text, source=flags.plan.name, folder=flags.plan.absolute().parent)
    if plan.most_clients > flags.max_clients:
        raise UsageError(
            f"the plan has {plural(plan.most_clients, 'connection')}, and --max-clients is {flags.max_clients}",
            hint="Give fewer in the plan, or a larger --max-clients.",
        )
    return plan


def _new(
    plan: ScalePlan, flags: _Flags, target: str | None = None, mark: Mapping[str, object] | None = None
) -> StudyRequest:
    from pgdyno.model.shapes import plain
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.scale.servers import request_of

    target = plan.targets[0] if target is None else target
    top = next((one for one in reversed(plan.levels) if one.server == target), plan.levels[-1])
    return new_request(
        flags,
        kind=StudyKind.SCALE,
        name=f"scale {plan.name}",
        options={"scale": plain(plan), **({} if mark is None else {PART: mark})},
        load=Load(plan.workload, plan.parameters_of(top), plan.load(rate=plan.rate_of(top))),
        target=replace(request_of(plan, target), keep_data=flags.keep_data) if target else None,
        **_course(plan, flags, target),
    )


def _part(store: Store, plan: ScalePlan, target: str, whole: Study, flags: _Flags) -> StudyRequest:
    """Return the request of another server's study, which goes on where the whole one had begun it."""
    mark = {"of": whole.id, "target": target}
    begun = next((one for one in store.studies() if one.options.get(PART) == mark), None)
    if begun is None:
        return _new(plan, flags, target, mark)
    return resumed_request(flags, begun, **_course(plan, flags, target))


def _resumed(store: Store, flags: _Flags) -> tuple[StudyRequest, ScalePlan]:
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.scale.plan import ScalePlan

    assert flags.resume is not None, "it was looked at"
    study = resumable(store, flags.resume, StudyKind.SCALE)
    if isinstance(mark := study.options.get(PART), Mapping):  # of one server: all go on together
        study = resumable(store, str(mark["of"]), StudyKind.SCALE)
    plan = kept_options(ScalePlan, study, "scale")
    return resumed_request(flags, study, **_course(plan, flags, plan.targets[0])), plan


def _course(plan: ScalePlan, flags: _Flags, own: str) -> Course:
    from pgdyno.studies.scale.plan import bounds_of

    names = bounds_of(plan)
    most = None if flags.max_size is None else max_bytes(flags.max_size)

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.requests.study import confirm_changes
        from pgdyno.server import places
        from pgdyno.workloads.disk_room import require_here, require_size
        from pgdyno.workloads.registry import make_workload
        from pgdyno.workloads.working_set import sized

        require_here(places.state_dir(), "logs of the load are written", "Name another folder by PGDYNO_HOME.")
        if most is not None:
            parameters, _ = sized(plan.parameters_of(plan.levels[-1]), facts)
            require_size(make_workload(plan.workload, parameters), target, most)
        count = sum(one.server == own for one in plan.levels)
        words = (
            f"{plural(count, 'level')} in {plural(plan.repetitions, 'repetition')}; "
            f"limits {' and '.join(names) or 'nothing'}"
        )
        confirm_changes(target, workload, words, "none: no restart", ask=not flags.yes and bool(names))

    def kernel(target: Target, facts: Facts, workload: WorkloadSpec) -> Sequence[str]:
        return names

    return Course(check=check, kernel=kernel, restart="as-needed", changes=bool(names))
