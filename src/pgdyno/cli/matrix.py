"""`pgdyno matrix`: instances x clients x threads x mode x scale x configuration x host state, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.flags import Flags
from pgdyno.cli.matrix_options import matrix_options, plan_of
from pgdyno.cli.options import bounds, bounds_options, open_store, store_option, target_options, target_request
from pgdyno.cli.safety import safety, safety_options
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.trial import LoadPlan, WorkloadSpec
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.matrix_plan import MatrixPlan
    from pgdyno.studies.stand import Stand, StudyRequest
    from pgdyno.target.outage import Outage
    from pgdyno.target.target import Target
    from pgdyno.workloads.pgbench_command import Pgbench

Check = Callable[["Target", "Facts", "WorkloadSpec", "Outage | None"], None]


@click.command("matrix")
@click.argument("plan_file", metavar="[PLAN.toml]", required=False, type=click.Path(path_type=Path))
@target_options
@matrix_options
@bounds_options
@safety_options
@click.option("--force", is_flag=True, help="Measure tuned configurations without a baseline, unlike load generators.")
@click.option("--dry-run", is_flag=True, help="Print every cell with pgbench's command line; nothing is run.")
@click.option("--manifests", type=click.Path(path_type=Path), metavar="DIR",
              help="Write Kubernetes Jobs for the load generators there; nothing is run.")  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path), help="Write the HTML report here.")
@click.option("--resume", metavar="STUDY", help="Go on with an interrupted matrix, or last; its own plan holds.")
@click.option("--yes", is_flag=True, help="Do not ask before changing a --target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Measure a matrix of loads, configurations and host states, and print it as a table.

    Several load generators begin together; their transactions add up. Cells run in repetitions of random order, each
    with fresh data and a checkpoint. The default configuration is always measured beside the others. Exit code 0 when
    every row came out whole, 3 when some did not.
    """
    from pgdyno.cli.progress import Progress
    from pgdyno.cli.study import check_report_path, print_result, run_study

    flags = Flags(values)
    resume = flags.text("resume")
    if resume is None:
        plan = plan_of(flags)
        if flags.on("dry_run"):
            return _print_dry_run(plan, flags)
        if flags.path("manifests") is not None:
            return _write_manifests(plan, flags)
    report = flags.path("report")
    check_report_path(report)
    store, progress = open_store(flags.text("store_url")), Progress()
    request, plan = _resumed(store, resume, flags) if resume else _new(plan_of(flags), flags)

    def body(stand: Stand) -> dict[str, object]:
        from pgdyno.studies.matrix import run_matrix
        from pgdyno.studies.matrix_result import matrix_result

        return matrix_result(stand, plan, run_matrix(stand, plan, progress.announce))

    result = run_study(request, store, progress, body, report)
    print_result(store, result, flags.on("as_json"))
    rows = result["rows"]
    assert isinstance(rows, list), "a matrix has rows"
    return int(ExitCode.OK if all(row["state"] == "complete" for row in rows) else ExitCode.NOT_RESOLVED)


def _new(plan: MatrixPlan, flags: Flags) -> tuple[StudyRequest, MatrixPlan]:
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.matrix_plan import to_json
    from pgdyno.studies.stand import StudyRequest

    server, bound, safe = target_request(flags), bounds(flags), safety(flags)
    server = replace(server, loopback="loopback" in plan.placements and server.dsn is None)
    first = plan.cells()[0]
    request = StudyRequest(
        kind=StudyKind.MATRIX,
        name=f"matrix of {len(plan.cells())} cells",
        target=server,
        workload=first.mode,
        parameters=plan.parameters(first),
        plan=_study_load(plan),
        options={
            "target": server.to_json(),
            "bounds": asdict(bound),
            "safety": safe.to_json(),
            "matrix": to_json(plan),
            "seed": plan.seed,
        },
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        check=_checks(plan, ask=not flags.on("yes")),
        kernel=lambda target, facts, _: _kernel_knobs(plan, target, facts),
        changes=plan.changes,
    )
    return request, plan


def _resumed(store: Store, name: str, flags: Flags) -> tuple[StudyRequest, MatrixPlan]:
    """Rebuild the request of an interrupted matrix from the store."""
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.matrix_file import plan_from_json
    from pgdyno.studies.stand import StudyRequest
    from pgdyno.studies.target_request import TargetRequest
    from pgdyno.trial.assess import Bounds

    if name == "last":
        name = next((study.id for study in store.studies() if study.kind is StudyKind.MATRIX), "")
        if not name:
            raise UsageError("the store has no matrix that could be resumed", hint="Begin one: pgdyno matrix.")
    study = store.study(name)
    if study.kind is not StudyKind.MATRIX:
        raise UsageError(f"study {study.id} is not a matrix", hint="Resume it with the verb that began it.")
    parts = {key: value for key, value in study.options.items() if isinstance(value, Mapping)}
    plan, safe = plan_from_json(parts["matrix"]), safety(flags, parts.get("safety"))
    request = StudyRequest(
        kind=study.kind,
        name=study.name,
        target=TargetRequest.from_json(parts["target"], flags.text("target")),
        workload=study.workload.name,
        parameters=study.workload.parameters,
        plan=study.plan,
        options=study.options,
        bounds=Bounds(**parts["bounds"]),
        guards=safe.plan(),
        watch=safe.deadlines(),
        resume=study.id,
        check=_checks(plan, ask=not flags.on("yes")),
        kernel=lambda target, facts, _: _kernel_knobs(plan, target, facts),
        changes=plan.changes,
    )
    return request, plan


def _study_load(plan: MatrixPlan) -> LoadPlan:
    """Return the smallest load: larger ones that do not fit are skipped cell by cell, not refused as a whole."""
    return plan.load(min(plan.cells(), key=lambda cell: cell.connections))


def _kernel_knobs(plan: MatrixPlan, target: Target, facts: Facts) -> tuple[str, ...]:
    """Return the Linux knobs of the cells that can be measured: one that cannot be changed here is not asked for."""
    from pgdyno.studies.matrix import room_of, split
    from pgdyno.studies.stand import linux_knobs

    return linux_knobs(*(plan.settings(cell) for cell in split(plan, room_of(target, facts))[0]))


def _checks(plan: MatrixPlan, *, ask: bool) -> Check:
    """Return the check that refuses settings which the target or the policy does not allow, and then asks."""

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.study import confirm_changes, outage_text
        from pgdyno.studies.matrix import configurations, require_cells, room_of, split

        cells, skipped = split(plan, room_of(target, facts))
        require_cells(cells, skipped)
        configurations(replace(plan, smt=("",)), facts, disposable=target.disposable)
        words = f"{len(cells)} cells in {plan.repetitions} repetitions, {len(skipped)} skipped"
        restarts = "a restart before every run" if plan.changes else "none: no setting is touched"
        confirm_changes(target, workload, words, outage_text(restarts, outage), ask=ask and plan.changes)

    return check


def _print_dry_run(plan: MatrixPlan, flags: Flags) -> int:
    from pgdyno.studies.matrix_dry_run import dry_run

    for line in dry_run(plan, _pgbench(flags)):
        click.echo(line)
    return int(ExitCode.OK)


def _pgbench(flags: Flags, *, look: bool = True) -> Pgbench:
    """Return the pgbench that would run: the target's, or that of the sandbox's build, without making a sandbox.

    Without `look` no server is asked.
    """
    from pgdyno.studies.stand import opened
    from pgdyno.target.binaries import client_bin_dir, find_build
    from pgdyno.target.runner import LocalRunner
    from pgdyno.workloads.pgbench_command import Pgbench, find_pgbench

    request = target_request(flags)
    if look and (request.dsn is not None or request.host is not None):
        with opened(request) as target:
            return find_pgbench(target)
    build = find_build(LocalRunner(), request.sandbox_bin)
    folders = [build.bin_dir, client_bin_dir(build.bin_dir)]
    found = next((one / "pgbench" for one in folders if one is not None and (one / "pgbench").is_file()), None)
    return Pgbench(found or Path("pgbench"), build.major)


def _write_manifests(plan: MatrixPlan, flags: Flags) -> int:
    from pgdyno.studies.manifests import Address, write_manifests

    folder = flags.path("manifests")
    assert folder is not None, "the flag was given"
    written = write_manifests(
        plan, Address.of_conninfo(flags.text("target") or ""), _pgbench(flags, look=False), folder
    )
    for path in written:
        click.echo(str(path))
    return int(ExitCode.OK)
