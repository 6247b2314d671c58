"""A matrix as a plan: factors, levels and repetitions; its cells, their order, and which cannot be measured. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product

from pgdyno.errors import UsageError, hinted
from pgdyno.model.cpus import parse_cpus
from pgdyno.model.matrix import BASELINE_NAME, BUILTIN, MODES, OWN_SIZE, Cell, workload_of
from pgdyno.model.shapes import plain
from pgdyno.model.trial import LoadPlan, check_length
from pgdyno.units import parse_quantity

PLACEMENTS = ("socket", "loopback")
MOST_CELLS = 2000
NO_SCALE = 0
DEFAULT_SCALE = 10
"""Of pgbench's tables, where a mode needs them and no scale is named."""
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Pod:
    """The shape of one load generator where there are so many: CPUs and bytes of memory, None for no bound."""

    vcpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """Everything that a matrix is made from; kept in the study's options.

    `jobs` empty means one thread a client, `scales` empty what each mode needs. `configurations` are settings by name;
    the default one, which changes nothing, comes first unless `force`. `pods` gives each number of instances its shape.
    `modes` are workloads and `parameters` those of every one of them; `custom` are the files of mode custom. `network`
    names networks for the record: admin, injection, client.
    """

    instances: tuple[int, ...] = (1,)
    clients: tuple[int, ...] = (1,)
    jobs: tuple[int, ...] = ()
    modes: tuple[str, ...] = ("tpcb-like",)
    scales: tuple[int, ...] = ()
    configurations: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {BASELINE_NAME: {}})
    smt: tuple[str, ...] = ("",)
    server_cpus: tuple[str, ...] = ("",)
    placements: tuple[str, ...] = ("socket",)
    repetitions: int = 3
    seed: int = 1
    warmup_s: float = 20.0
    measure_s: float = 30.0
    protocol: str = "prepared"
    driver_cpus: str = ""
    pods: Mapping[int, Pod] = field(default_factory=dict)
    parameters: Mapping[str, Value] = field(default_factory=dict)
    custom: Mapping[str, str | int] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)
    force: bool = False

    def cells(self) -> tuple[Cell, ...]:
        """Return every cell: configurations outermost, loads innermost, as the table lists them."""
        sizes = [(mode, scale) for mode in self.modes for scale in self._scales(mode)]
        axes = (self.configurations, self.smt, self.server_cpus, self.placements, sizes)
        loads = [
            (instances, clients, jobs)
            for instances, clients in product(self.instances, self.clients)
            for jobs in (self.jobs or (clients,))
        ]
        return tuple(
            Cell(instances, clients, min(jobs, clients), mode, scale, name, smt, cpus, placement)
            for name, smt, cpus, placement, (mode, scale) in product(*axes)
            for instances, clients, jobs in dict.fromkeys((i, c, min(j, c)) for i, c, j in loads)
        )

    def _scales(self, mode: str) -> tuple[int, ...]:
        """Return the levels of scale of a mode; scripts with data of their own get pgbench's tables where asked for."""
        if workload_of(mode) in OWN_SIZE:
            return (NO_SCALE,)
        brings_data = mode == "custom" and self.custom.get("init") and not self._runs_builtin
        return self.scales or (NO_SCALE if brings_data else DEFAULT_SCALE,)

    @property
    def _runs_builtin(self) -> bool:
        entries = str(self.custom.get("scripts", "")).split(",")
        return any(entry.strip().partition("@")[0] in BUILTIN for entry in entries)

    def load(self, cell: Cell) -> LoadPlan:
        """Return how the load of a cell is driven. `host` is given by the target, which knows its addresses."""
        pod = self.pods.get(cell.instances, Pod())
        return LoadPlan(
            clients=cell.clients,
            jobs=cell.jobs,
            warmup_s=self.warmup_s,
            measure_s=self.measure_s,
            protocol=self.protocol,
            instances=cell.instances,
            cpus=self.driver_cpus,
            instance_vcpus=pod.vcpus,
            instance_memory_bytes=pod.memory_bytes,
        )

    def workload(self, cell: Cell) -> dict[str, Value]:
        """Return the parameters of the cell's workload."""
        files = self.custom if cell.mode == "custom" else {}
        return {**self.parameters, **files, **({} if workload_of(cell.mode) in OWN_SIZE else {"scale": cell.scale})}

    def settings(self, cell: Cell) -> dict[str, str]:
        """Return what the cell sets on server and host."""
        return {**self.configurations[cell.configuration], **({"cpu.smt": cell.smt} if cell.smt else {})}

    @property
    def changes(self) -> bool:
        """Return True when any cell changes a setting of the server or its host."""
        return any(self.configurations.values()) or any(self.smt)


@hinted("pgdyno matrix --help has the axes with their levels; docs/reference/matrix.md has examples.")
def check(plan: MatrixPlan) -> MatrixPlan:
    """Return the plan when it can be run; raise UsageError with what is wrong otherwise.

    A configuration without the baseline beside it is refused unless the plan is forced, because a gain over nothing
    measured is none; so is a set of pods whose product of CPUs and number differs, which would compare drivers.
    """
    for name, levels in (("instances", plan.instances), ("clients", plan.clients), ("jobs", plan.jobs)):
        if any(number < 1 for number in levels):
            raise UsageError(f"{name} {min(levels)} must be at least 1")
    check_length(plan.warmup_s, plan.measure_s)
    for axis in ("instances", "clients", "jobs", "modes", "scales", "smt", "server_cpus", "placements"):
        levels = getattr(plan, axis)
        if len(set(levels)) != len(levels):
            raise UsageError(f"a level of {axis} is named twice: {', '.join(map(str, levels))}")
        if not levels and axis not in ("jobs", "scales"):
            raise UsageError(f"{axis} has no level", hint="Leave it out for its default.")
    if unknown := [mode for mode in plan.modes if workload_of(mode) not in MODES]:
        raise UsageError(f'mode "{unknown[0]}" is not one of {", ".join(MODES)}')
    if "custom" in plan.modes and not plan.custom.get("scripts"):
        raise UsageError("mode custom needs scripts", hint="Name them with weights: --script read.sql@9.")
    if "scale" in plan.parameters:
        raise UsageError(
            "scale is a factor of a matrix", hint="Give its levels: --scale 10,100, or scales in the file."
        )
    for cpus in filter(None, (plan.driver_cpus, *plan.server_cpus)):
        parse_cpus(cpus)
    _check_baseline(plan)
    _check_pods(plan)
    if len(plan.cells()) > MOST_CELLS:
        raise UsageError(f"{len(plan.cells())} cells are more than {MOST_CELLS}", hint="Leave out levels.")
    return plan


def _check_baseline(plan: MatrixPlan) -> None:
    names = list(plan.configurations)
    if plan.configurations.get(BASELINE_NAME, None) == {} and names[0] == BASELINE_NAME:
        return
    if plan.configurations.get(BASELINE_NAME):
        raise UsageError(
            f'configuration "{BASELINE_NAME}" is the baseline and sets nothing', hint="Give yours another name."
        )
    if not plan.force:
        raise UsageError(
            f'configuration "{names[0]}" has no baseline beside it' if names else "there is no configuration",
            detail="A matrix measures the defaults first: a tuned figure alone says nothing of the tuning.",
            hint=f'Put configuration "{BASELINE_NAME}", without a setting, first; or add --force.',
        )


def _check_pods(plan: MatrixPlan) -> None:
    for of, products in (
        ("vCPU", {count: count * pod.vcpus for count, pod in plan.pods.items() if pod.vcpus is not None}),
        ("memory", {count: count * pod.memory_bytes for count, pod in plan.pods.items() if pod.memory_bytes}),
    ):
        if not products:
            continue
        missing = [count for count in plan.instances if count not in products]
        if missing:
            raise UsageError(f"{missing[0]} instances have no bound of {of}, and others have one")
        if max(products.values()) > 1.001 * min(products.values()) and not plan.force:
            found = ", ".join(f"{count} instances {value:g}" for count, value in products.items())
            raise UsageError(
                f"the product of instances and {of} is not constant: {found}",
                detail="Loads of drivers that have more or less in all would compare the drivers.",
                hint="Give totals (--vcpus-total, --memory-total), or add --force.",
            )


def check_workloads(plan: MatrixPlan) -> None:
    """Raise UsageError on a parameter that a workload of the plan does not take, or a driver that a matrix has not.

    Reads the scripts of mode custom; asks no server.
    """
    from pgdyno.workloads.registry import make_workload

    for cell in plan.cells():
        make_workload(cell.mode, plan.workload(cell))
        if plan.workload(cell).get("driver") == "loop":
            raise UsageError(
                "driver=loop is not for a matrix, which adds up load generators of pgbench",
                hint="pgdyno bench --workload ybio -D driver=loop measures one.",
            )


def pods_of_totals(instances: Sequence[int], vcpus: float | None = None, memory: str | None = None) -> dict[int, Pod]:
    """Return the shape of a pod for each number of instances, so that all together have these totals.

    Raises UsageError on totals that are not positive.
    """
    total = None if memory is None else parse_quantity(memory, "B")
    if (vcpus is not None and vcpus <= 0) or (total is not None and total <= 0):
        raise UsageError("the totals of CPUs and memory of the load generators must be above 0")
    if vcpus is None and total is None:
        return {}
    return {
        count: Pod(None if vcpus is None else vcpus / count, None if total is None else int(total / count))
        for count in instances
    }


def order(cells: Sequence[Cell], repetition: int, seed: int) -> tuple[Cell, ...]:
    """Return the order of the cells in one repetition: drawn for each, from seed and repetition only."""
    drawn = list(cells)
    random.Random(f"matrix/{seed}/{repetition}").shuffle(drawn)  # noqa: S311 - no secret: an order that a resumed study draws again
    return tuple(drawn)


@dataclass(frozen=True, slots=True)
class Room:
    """What of a target decides which cells can be measured there. A reason is None where the thing can be done."""

    max_connections: int | None = None
    own_sessions: int = 0
    smt_obstacle: str | None = None
    smt_levels: tuple[str, ...] = ()
    cpus_obstacle: str | None = None
    cpus: tuple[int, ...] = ()
    placements: Mapping[str, str] = field(default_factory=dict)
    """Placements that cannot be used here, each with the reason."""


def skip_reason(plan: MatrixPlan, cell: Cell, room: Room) -> str | None:
    """Return why a cell cannot be measured on this target, None when it can."""
    set_here = plan.configurations[cell.configuration].get("max_connections")
    most = int(parse_quantity(set_here, None)) if set_here else room.max_connections
    if most is not None and cell.connections + room.own_sessions > most:
        return f"{cell.connections} connections do not fit into max_connections = {most}"
    if cell.smt and room.smt_obstacle is not None:
        return f"SMT is not switchable here: {room.smt_obstacle}"
    if cell.smt and room.smt_levels and cell.smt not in room.smt_levels:
        return f"SMT {cell.smt} is not one of {', '.join(room.smt_levels)} here"
    if cell.server_cpus and room.cpus_obstacle is not None:
        return f"the server's CPUs cannot be chosen: {room.cpus_obstacle}"
    if cell.server_cpus and (missing := set(parse_cpus(cell.server_cpus)) - set(room.cpus)):
        return f"this host has no CPU {min(missing)}"
    return room.placements.get(cell.placement)


def to_json(plan: MatrixPlan) -> dict[str, object]:
    """Return the plan as plain JSON values for the study's options."""
    return {
        **{one.name: plain(getattr(plan, one.name)) for one in fields(plan)},
        "configurations": [{"name": name, "settings": dict(each)} for name, each in plan.configurations.items()],
        "pods": [{"instances": count, **asdict(pod)} for count, pod in plan.pods.items()],
    }


def with_configurations(plan: MatrixPlan, named: Mapping[str, Mapping[str, str]]) -> MatrixPlan:
    """Return the plan with these configurations; the baseline is put first where it is missing and not forced out."""
    first = {} if plan.force and BASELINE_NAME not in named else {BASELINE_NAME: named.get(BASELINE_NAME, {})}
    return replace(plan, configurations={**first, **named})
