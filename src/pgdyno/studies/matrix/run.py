"""matrix: cells of load, configuration and host state, measured in interleaved repetitions on one target.

The baseline is measured once before all else. Then each repetition runs every cell once, in a new random order, so
that drift hits all cells alike and any two cells have their pairs. Like every study it is a pure function of plan,
seed and recorded trials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.policy import check_settings, worst_class
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.linux import SMT
from pgdyno.model.matrix import Cell, MatrixRow, SkippedCell
from pgdyno.model.record import CheckRecord
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.sandbox.loopback import obstacle_to
from pgdyno.studies.matrix.cell_workload import CellWorkload, pin_server
from pgdyno.studies.matrix.plan import MatrixPlan, Room, order, skip_reason
from pgdyno.studies.matrix.rows import CellRun, Surroundings, build_row, group_runs
from pgdyno.studies.pairs.blocks import REPEATED, run_repeating
from pgdyno.studies.session.study_session import OWN_SESSIONS, StudySession
from pgdyno.targets.target import Target
from pgdyno.units import plural
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload

LOST = 3
"""So many repetitions of one cell that came to nothing end its measuring: the reason stands in its row."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """What was measured and what was not."""

    rows: tuple[MatrixRow, ...]
    skipped: tuple[SkippedCell, ...]
    trials: tuple[Trial, ...]


def room_of(target: Target, facts: Facts, placements: Sequence[str] = ()) -> Room:
    """Return what of a target decides which cells can be measured there.

    Reads where the server listens, and tries whether the placements by TCP lead to a server.
    """
    setting, smt = facts.settings.get("max_connections"), facts.kernel.get(SMT)
    postmaster = target.cpu.postmaster()
    pinning = None
    if postmaster is None or not target.disposable:
        pinning = "it is not a sandbox on this host"
    obstacle = "the kernel was not read" if smt is None else smt.obstacle
    if smt is not None and obstacle is None and isinstance(smt.value, Unknown):
        obstacle = smt.value.reason
    return Room(
        max_connections=None if setting is None else int(setting.setting),
        own_sessions=OWN_SESSIONS,
        smt_obstacle=obstacle,
        smt_levels=smt.choices if smt is not None else (),
        cpus_obstacle=pinning,
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        placements=_unusable_placements(target, placements),
    )


def _unusable_placements(target: Target, placements: Sequence[str]) -> dict[str, str]:
    (row,) = target.postgres.fetch(
        "SELECT current_setting('listen_addresses') AS tcp, current_setting('unix_socket_directories') AS sockets"
    )
    listens = {word.strip() for word in str(row["tcp"]).split(",")}
    found = {}
    if not target.local:
        found["socket"] = found["loopback"] = "the server is on another host"
    elif not str(row["sockets"]).strip():
        found["socket"] = "the server has no socket (unix_socket_directories is empty)"
    if target.local and not listens & {"*", "localhost", "127.0.0.1", "0.0.0.0"}:  # noqa: S104 - read, not bound
        found["loopback"] = f"the server does not listen on 127.0.0.1 (listen_addresses = '{row['tcp']}')"
    port = int(target.postgres.environment().get("PGPORT") or os.environ.get("PGPORT") or 5432)
    for placement in placements:
        if placement not in ("socket", *found):
            obstacle = obstacle_to(host_of(placement, target), port)
            found |= {} if obstacle is None else {placement: obstacle}
    return found


def host_of(placement: str, target: Target) -> str:
    """Return what the load generators connect to, as libpq's host; empty for what the conninfo says."""
    if placement == "loopback":
        return "127.0.0.1"
    if placement != "socket":
        return placement
    if str(target.postgres.parameters.get("host", "")).startswith("/") or not target.local:
        return ""
    (row,) = target.postgres.fetch("SELECT current_setting('unix_socket_directories') AS sockets")
    return str(row["sockets"]).split(",")[0].strip()


def split(plan: MatrixPlan, room: Room) -> tuple[tuple[Cell, ...], tuple[SkippedCell, ...]]:
    """Return the cells that can be measured and the others with their reasons."""
    reasons = [(cell, skip_reason(plan, cell, room)) for cell in plan.cells()]
    return (
        tuple(cell for cell, reason in reasons if reason is None),
        tuple(SkippedCell(cell, reason) for cell, reason in reasons if reason is not None),
    )


def require_cells(cells: Sequence[Cell], skipped: Sequence[SkippedCell]) -> None:
    """Raise EnvironmentUnsuitable when no cell can be measured here."""
    if not cells:
        raise EnvironmentUnsuitable(
            "no cell of the matrix can be measured here", detail=skipped[0].reason, hint="Choose other levels."
        )


def configurations(plan: MatrixPlan, facts: Facts, *, disposable: bool) -> dict[Cell, Configuration]:
    """Return each cell's configuration in canonical text. Class X passes on a disposable sandbox only, and is labelled.

    Raises PolicyError and UsageError as `check_settings` does.
    """
    return {
        cell: check_settings(plan.settings(cell), facts, disposable_measurement=disposable) for cell in plan.cells()
    }


def run_matrix(session: StudySession, plan: MatrixPlan, announce: Callable[[str], None]) -> Matrix:
    """Measure every cell that can be measured, and return the rows in the order of the plan.

    Raises EnvironmentUnsuitable when no cell can be measured here.
    """
    target, laboratory = session.target, session.laboratory
    room = room_of(target, session.facts, plan.placements)
    cells, skipped = split(plan, room)
    require_cells(cells, skipped)
    for one in skipped:
        announce(f"skipped: {label(one.cell)}: {one.reason}")
    known = configurations(
        replace(plan, smt=tuple(dict.fromkeys(cell.smt for cell in cells))), session.facts, disposable=target.disposable
    )
    workloads = _prepared(plan, cells, session, announce)
    affinity = room.cpus if any(cell.server_cpus for cell in cells) else ()
    hosts = {cell.placement: host_of(cell.placement, target) for cell in cells}

    def measure(cell: Cell, role: Role, block: int, slot: int) -> Trial:
        inner = workloads[cell.mode, cell.scale]
        workload = CellWorkload(inner, server_cpus=cell.server_cpus, every_cpu=affinity)
        load = replace(plan.load(cell), host=hosts[cell.placement])
        spec = TrialSpec(known[cell], role, label(cell), block, slot, factors=cell.factors())
        run = partial(laboratory.run, plan=load, workload=workload)
        return run_repeating(run, spec, spoilt=REPEATED, company=laboratory.company)

    laboratory.expect(1 + plan.repetitions * len(cells))
    try:
        measure(cells[0], Role.BASELINE, 0, 0)
        lost: dict[Cell, int] = {}
        for block in range(1, plan.repetitions + 1):
            announce(f"repetition {block} of {plan.repetitions}: {plural(len(cells), 'cell')}")
            for slot, cell in enumerate(order(cells, block, plan.seed)):
                if lost.get(cell, 0) < LOST:
                    trial = measure(cell, Role.CELL, block, slot)
                    lost[cell] = 0 if trial.state is TrialState.COMPLETE else lost.get(cell, 0) + 1
    finally:
        if affinity:
            pin_server(target, affinity)
    return matrix_of(session, plan, cells, skipped)


def _prepared(
    plan: MatrixPlan, cells: Sequence[Cell], session: StudySession, announce: Callable[[str], None]
) -> Mapping[tuple[str, int], Workload]:
    study = session.study
    found: dict[tuple[str, int], Workload] = {}
    for cell in cells:
        if (cell.mode, cell.scale) not in found:
            found[cell.mode, cell.scale] = workload = make_workload(cell.mode, plan.workload(cell))
            if workload.spec() != study.workload:  # the study's own is ready since the session was opened
                session.data.make_ready(workload, session.facts, policy=study.plan.reset)
    return found


def matrix_of(
    session: StudySession, plan: MatrixPlan, cells: Sequence[Cell], skipped: tuple[SkippedCell, ...]
) -> Matrix:
    """Return the rows of what the store holds of this study.

    The trials are those of the `session`'s study. Each of `cells` becomes a row, in their order; `skipped` are the
    others of the `plan`, with their reasons. The plan also has the settings that give a row its durability class.
    """
    store, facts = session.store, session.facts
    trials = tuple(store.trials(session.study.id))
    runs = group_runs(
        [
            CellRun(
                trial,
                locks=store.samples(trial.id, "locks"),
                sessions=store.samples(trial.id, "sessions"),
                cpu=store.samples(trial.id, "cpu"),
                checks=tuple(store.records(trial.id, CheckRecord)),
            )
            for trial in trials
        ]
    )
    around = Surroundings(
        smt=smt_text(facts),
        system="" if isinstance(facts.host.architecture, Unknown) else facts.host.architecture,
        vcpus=facts.host.cores if isinstance(facts.host.cores, int) else None,
        durability={
            name: klass.value for name, each in plan.configurations.items() if (klass := worst_class(each)) is not None
        },
    )
    rows = tuple(build_row(cell, runs.get(cell, []), around) for cell in cells)
    return Matrix(rows, skipped, trials)


def smt_text(facts: Facts) -> str:
    """Return the SMT level of the server's host as the table has it; empty when it is not known."""
    fact = facts.kernel.get(SMT)
    if fact is None:
        return ""
    if isinstance(fact.value, Unknown):
        return "1" if "one thread a core" in f"{fact.value.reason} {fact.obstacle}" else ""
    return fact.value


def label(cell: Cell) -> str:
    """Return a cell in a few words, for progress and for the trial's arm."""
    extra = [f"SMT {cell.smt}"] if cell.smt else []
    extra += [f"CPUs {cell.server_cpus}"] if cell.server_cpus else []
    extra += [cell.placement] if cell.placement != "socket" else []
    load = f"{cell.instances} x {cell.clients}/{cell.jobs}"
    return ", ".join([cell.configuration, load, cell.mode, *([f"scale {cell.scale}"] if cell.scale else []), *extra])
