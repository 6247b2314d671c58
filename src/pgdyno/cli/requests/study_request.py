"""The request of a study: from the flags that measuring verbs share, and back from the store to go on with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Unpack

import click

from pgdyno.cli.arguments.bounds import BoundsFlags, bounds
from pgdyno.cli.arguments.flags import JsonFlag, flag
from pgdyno.cli.arguments.load import LoadFlags, load_plan, workload_parameters
from pgdyno.cli.arguments.safety import SafetyFlags, safety
from pgdyno.cli.arguments.store import StoreFlag
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.errors import UsageError
from pgdyno.model.shapes import shaped
from pgdyno.studies.session.target_request import TargetRequest

T = TypeVar("T")

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.control.restart_budget import RestartBudget
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.study import Study, StudyKind
    from pgdyno.model.trial import LoadPlan, WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudyRequest, StudySession
    from pgdyno.targets.target import Target

Check = Callable[["Target", "Facts", "WorkloadSpec", "Outage | None"], None]
KernelKnobs = Callable[["Target", "Facts", "WorkloadSpec"], Sequence[str]]
CONFIDENCE, PAIRS = click.FloatRange(0.8, 0.999), click.IntRange(2, 1000)
"""What the rule for verdicts can be asked for (`stats.boundary`); beyond it a study would fail in its first pairs."""
METRICS = ("throughput", "latency_p50", "latency_p95", "latency_p99", "server_cpu_ms_per_tx")


class Course(TypedDict, total=False):
    """How a study treats the server; the fields are those of `StudyRequest`, and so are their defaults."""

    check: Check
    kernel: KernelKnobs
    restart: Literal["always", "as-needed"]
    budget: RestartBudget | None
    changes: bool
    other_environment: bool


@dataclass(frozen=True, slots=True)
class Load:
    """What is run, and how it is driven."""

    workload: str
    parameters: Mapping[str, str | int | float | bool]
    plan: LoadPlan


class EndFlags(JsonFlag, StoreFlag):
    """The flags with which a verb that measures ends."""

    report: Path | None = flag("Write the HTML report here.")
    yes: bool = flag("Do not ask before changing a --target.")


class MeasuringFlags(TargetFlags, BoundsFlags, SafetyFlags, EndFlags):
    """The flags of every study that changes a server."""


class StudyFlags(LoadFlags, MeasuringFlags):
    """The flags of a study of one load."""


def load_of(flags: LoadFlags) -> Load:
    """Return the load of the flags."""
    parameters = workload_parameters(flags.workload, flags.params, flags.scripts, flags.init)
    return Load(flags.workload, parameters, load_plan(flags))


def new_request(
    flags: MeasuringFlags,
    *,
    kind: StudyKind,
    name: str,
    options: Mapping[str, object],
    load: Load,
    target: TargetRequest | None = None,
    **course: Unpack[Course],
) -> StudyRequest:
    """Build the request of a new study; `target` stands for that of the flags.

    `kind` and `name` are those that it has in the store, and `load` is what is run. `flags` give bounds and safety, and
    the server where `target` is None. What a resumed study needs (target, bounds, safety) is kept among its options,
    beside its kind's own in `options`.
    """
    from pgdyno.studies.session.study_session import StudyRequest

    server, bound, safe = target or target_request(flags), bounds(flags), safety(flags)
    return StudyRequest(
        kind=kind,
        name=name,
        target=server,
        workload=load.workload,
        parameters=load.parameters,
        plan=load.plan,
        options={"target": server.to_json(), "bounds": asdict(bound), "safety": safe.to_json(), **options},
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        **course,
    )


def named_server(flags: TargetFlags) -> TargetRequest | None:
    """Return the server that stands for the one of a study that is resumed; None where none was named."""
    return None if flags.target is None else target_request(flags)


def resumed_request(flags: MeasuringFlags, study: Study, **course: Unpack[Course]) -> StudyRequest:
    """Rebuild the request of an interrupted study; --target, --keep-data, guards and watchdog still count."""
    from pgdyno.studies.session.study_session import StudyRequest
    from pgdyno.trial.assess import Bounds

    parts = {key: value for key, value in study.options.items() if isinstance(value, Mapping)}
    safe = safety(flags, parts.get("safety"))
    target = TargetRequest.from_json(parts["target"], flags.target)
    return StudyRequest(
        kind=study.kind,
        name=study.name,
        target=replace(target, keep_data=target.keep_data or flags.keep_data),
        workload=study.workload.name,
        parameters=study.workload.parameters,
        plan=study.plan,
        options=study.options,
        bounds=Bounds(**parts["bounds"]),
        guards=safe.plan(),
        watch=safe.deadlines(),
        resume=study.id,
        **course,
    )


def of_named_server(request: TargetRequest) -> Callable[[Study], bool]:
    """Return what tells of a study whether it was made on this server; it says yes where nobody can know.

    A sandbox goes by its name. Another server is opened to be asked who it is: errors are those of opening it.
    """
    from pgdyno.studies.session.environment_change import facts_image, other_server
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts

    if request.dsn is None and request.host is None:
        return lambda study: study.target == f"sandbox {request.sandbox}"
    with opened(request, to_read=True) as target:
        image = facts_image(read_facts(target))
    return lambda study: not other_server(study.facts, image)


def resumable(store: Store, name: str, *kinds: StudyKind, server: TargetRequest | None = None) -> Study:
    """Return the study that --resume names; `last` is the newest of these kinds that no process runs.

    Where a `server` was named, `last` is the newest of that one; see `of_named_server`.

    Raises UsageError when it is of another kind, was imported or is complete, EnvironmentUnsuitable when a process runs
    it, StoreError when there is none of that name.
    """
    from pgdyno.model.study import StudyState
    from pgdyno.studies.kinds import kind_of
    from pgdyno.studies.session.own_jobs import check_begun
    from pgdyno.studies.session.ownership import check_resumable, runner_of, runs_elsewhere

    words = " or ".join(kind.value for kind in kinds)
    running = None
    if name == "last":
        is_of_it = (lambda _study: True) if server is None else of_named_server(server)
        for study in store.studies():
            if study.kind not in kinds or not _was_run_here(study) or not is_of_it(study):
                continue
            if not kind_of(study.kind).continued_by(study):
                continue  # such as one that only watched: it hides none that can be gone on with
            runner = runner_of(store, study.id)
            if runner is None:
                if running is None or study.state is not StudyState.COMPLETE:
                    check_resumable(study)
                    return study
                break
            running = running or runner
        if running is not None:
            raise runs_elsewhere(running)
        where = "" if server is None else " of this server"
        raise UsageError(
            f"the store has no {words} study{where} that could be resumed", hint="Begin one, without --resume."
        )
    study = store.study(name)
    if study.kind not in kinds:
        raise UsageError(
            f"study {study.id} is of kind {study.kind.value} and not {words}",
            hint="Resume it with the verb that began it; bench, noise and A/B are started again.",
        )
    check_resumable(study)
    if not _was_run_here(study):
        raise UsageError(f"study {study.id} was imported, and cannot be resumed", hint="Import all its files at once.")
    check_begun(study)
    runner = runner_of(store, study.id)
    if runner is not None:
        raise runs_elsewhere(runner)
    return study


def _was_run_here(study: Study) -> bool:
    from pgdyno.store.bundle_import import IMPORTED

    return "target" in study.options and IMPORTED not in study.options


def kept_options(kind: type[T], study: Study, key: str) -> T:
    """Return the options that a study was begun with; what an earlier version kept beside them is passed over."""
    return shaped(kind, study.options[key], "the options", strict=False)


def carry_out(
    request: StudyRequest,
    flags: EndFlags,
    store: Store,
    progress: Progress,
    body: Callable[[StudySession], StudyResult],
) -> StudyResult:
    """Run the study, write its report where one was asked for, print its result and return it.

    `request` says what study is opened, on which server; it is kept in `store`, and `progress` shows how it goes.
    `body` is what the study does within its session; `flags` say where the report goes and whether JSON is printed.
    """
    from pgdyno.cli.requests.study import print_result, run_study

    result = run_study(request, store, progress, body, flags.report)
    print_result(store, result, flags.as_json)
    return result
