"""`pgdyno matrix`: instances x clients x threads x mode x scale x configuration x host state, as one table."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import verb
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import target_request
from pgdyno.cli.requests.dry_run import pgbench_of
from pgdyno.cli.requests.matrix_options import MatrixFlags, plan_of
from pgdyno.cli.requests.study_request import (
    Check,
    Course,
    Load,
    carry_out,
    kept_options,
    named_server,
    new_request,
    resumable,
    resumed_request,
)
from pgdyno.errors import ExitCode
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import LoadPlan, WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.matrix.plan import MatrixPlan
    from pgdyno.studies.session.study_session import StudyRequest, StudySession
    from pgdyno.targets.target import Target


@verb("matrix")
def command(flags: MatrixFlags) -> int:
    """Measure a matrix of loads, configurations and host states, and print it as a table.

    Several load generators begin together; their transactions add up. Cells run in repetitions of random order, each
    with fresh data and a checkpoint. The default configuration is always measured beside the others. Exit code 0 when
    every row is complete, 3 when some are not.
    """
    from pgdyno.cli.requests.study import check_report_path
    from pgdyno.cli.terminal.progress import Progress

    if flags.resume is None:
        plan = plan_of(flags)
        if flags.dry_run:
            return _print_dry_run(plan, flags)
        if flags.manifests is not None:
            return _write_manifests(plan, flags)
    check_report_path(flags.report)
    store, progress = open_store(flags.store_url), Progress()
    request, plan = _resumed(store, flags.resume, flags) if flags.resume else _new(plan_of(flags), flags)

    def body(session: StudySession) -> StudyResult:
        from pgdyno.studies.matrix.result import matrix_result
        from pgdyno.studies.matrix.run import run_matrix

        return matrix_result(session, plan, run_matrix(session, plan, progress.announce))

    result = carry_out(request, flags, store, progress, body)
    return int(result.exit_code)


def _new(plan: MatrixPlan, flags: MatrixFlags) -> tuple[StudyRequest, MatrixPlan]:
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.matrix.plan import to_json

    server, first = target_request(flags), plan.cells()[0]
    request = new_request(
        flags,
        kind=StudyKind.MATRIX,
        name=f"matrix of {plural(len(plan.cells()), 'cell')}",
        options={"matrix": to_json(plan), "seed": plan.seed},
        load=Load(first.mode, plan.workload(first), _study_load(plan)),
        target=replace(server, loopback="loopback" in plan.placements and server.dsn is None),
        **_course(plan, flags),
    )
    return request, plan


def _resumed(store: Store, name: str, flags: MatrixFlags) -> tuple[StudyRequest, MatrixPlan]:
    """Rebuild the request of an interrupted matrix from the store."""
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.matrix.file import plan_from_json

    study = resumable(store, name, StudyKind.MATRIX, server=named_server(flags))
    plan = plan_from_json(kept_options(dict[str, object], study, "matrix"))
    return resumed_request(flags, study, **_course(plan, flags)), plan


def _course(plan: MatrixPlan, flags: MatrixFlags) -> Course:
    return Course(
        check=_checks(plan, ask=not flags.yes),
        kernel=lambda target, facts, _: _kernel_knobs(plan, target, facts),
        changes=plan.changes,
    )


def _study_load(plan: MatrixPlan) -> LoadPlan:
    """Return the smallest load: larger ones that do not fit are skipped cell by cell, not refused as a whole."""
    return plan.load(min(plan.cells(), key=lambda cell: cell.connections))


def _kernel_knobs(plan: MatrixPlan, target: Target, facts: Facts) -> tuple[str, ...]:
    """Return the Linux knobs of the cells that can be measured: one that cannot be changed here is not asked for."""
    from pgdyno.studies.matrix.run import room_of, split
    from pgdyno.studies.session.study_session import linux_knobs

    return linux_knobs(*(plan.settings(cell) for cell in split(plan, room_of(target, facts, plan.placements))[0]))


def _checks(plan: MatrixPlan, *, ask: bool) -> Check:
    """Return the check that refuses settings which the target or the policy does not allow, and then asks."""

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.requests.study import confirm_changes, outage_text
        from pgdyno.studies.matrix.run import configurations, require_cells, room_of, split

        cells, skipped = split(plan, room_of(target, facts, plan.placements))
        require_cells(cells, skipped)
        configurations(replace(plan, smt=("",)), facts, disposable=target.disposable)
        knobs = sorted({name for cell in cells for name in plan.settings(cell)})
        words = f"{plural(len(cells), 'cell')} in {plural(plan.repetitions, 'repetition')}, {len(skipped)} skipped"
        words += f"; sets {', '.join(knobs)}" if knobs else ""
        restarts = "a restart before every run" if plan.changes else "none: no setting is touched"
        confirm_changes(target, workload, words, outage_text(restarts, outage), ask=ask and plan.changes)

    return check


def _print_dry_run(plan: MatrixPlan, flags: MatrixFlags) -> int:
    from pgdyno.cli.requests.dry_run import pgbench_of
    from pgdyno.cli.terminal.columns import print_script
    from pgdyno.studies.matrix.dry_run import dry_run

    print_script(dry_run(plan, pgbench_of(flags)))
    return int(ExitCode.OK)


def _write_manifests(plan: MatrixPlan, flags: MatrixFlags) -> int:
    from pgdyno.studies.matrix.manifests import Cluster, PodServer, write_manifests

    assert flags.manifests is not None, "the flag was given"
    address = PodServer.of_conninfo(flags.target or "")
    cluster = Cluster(flags.image or "", restricted=flags.openshift)
    for path in write_manifests(plan, address, pgbench_of(flags, look=False), flags.manifests, cluster):
        click.echo(str(path))
    if not plan.pods:
        click.echo(
            "note: the pods have no limits of CPU and memory; set them by --vcpus-total and --memory-total", err=True
        )
    click.echo(
        f"next: {shlex.quote(str(flags.manifests / 'run.sh'))}, then pgdyno import pods with what it fetched", err=True
    )
    return int(ExitCode.OK)
