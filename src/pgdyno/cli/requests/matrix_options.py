"""The flags of a matrix: one for each factor, taken over those of a plan file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.arguments.flags import Flags, argument, flag, two_sides
from pgdyno.cli.arguments.load import whole_name, workload_parameters
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.requests.study_request import MeasuringFlags
from pgdyno.cli.terminal.files import read_text
from pgdyno.errors import UsageError
from pgdyno.model.trial import PROTOCOLS

if TYPE_CHECKING:
    from pgdyno.studies.matrix.plan import MatrixPlan

_MODES = "tpcb-like, simple-update (-N), select-only (-S), ybio, tprocc, replay:TRACE, custom"


class _CellFlags(Flags):
    plan_file: Path | None = argument("[PLAN.toml]")
    instances: str | None = flag("Load generators that begin together, such as 16,32.  [default: 1]", metavar="N,N")
    clients: str | None = flag("Sessions of each load generator.  [default: 1]", "-c", metavar="N,N")
    jobs: str | None = flag("Threads of each load generator.  [default: as clients]", "-j", metavar="N,N")
    workload: str | None = flag(
        f"{_MODES}.  [default: tpcb-like]", "--workload", "-w", "--mode", "-b", metavar="NAME,NAME"
    )
    params: tuple[str, ...] = flag(
        "A parameter of the workloads, such as warehouses=4; may be given again.", "--param", "-D", metavar="NAME=VALUE"
    )
    scale: str | None = flag(
        "Scale of pgbench's tables, about 16 MB each.  [default: 10; none for custom with --init]", "-s", metavar="N,N"
    )
    confs: tuple[str, ...] = flag(
        "A configuration of `name = value` lines; the default one is measured beside it.", "--conf", metavar="NAME=FILE"
    )
    smt: str | None = flag("SMT levels of the server's host, such as off,on or 2,4,8.", metavar="LEVEL,LEVEL")
    server_cpus: tuple[str, ...] = flag("CPUs of a sandbox's server; may be given again.", metavar="LIST")
    placement: str | None = flag("socket, loopback or a host's name.  [default: socket]", metavar="WHERE,WHERE")
    scripts: tuple[str, ...] = flag("A script of mode custom.", "--script", metavar="FILE[@WEIGHT]")
    init: Path | None = flag("SQL that loads the data of mode custom.", metavar="FILE")
    driver_cpus: str | None = flag("CPUs of the load generators, as taskset -c has them.", metavar="LIST")
    vcpus_total: float | None = flag(
        "CPUs of all load generators together; each gets its share, by cgroup.", type=click.FloatRange(0, min_open=True)
    )
    memory_total: str | None = flag("Memory of all load generators together, such as 224GB.", metavar="SIZE")
    repetitions: int | None = flag("How often every cell is run.  [default: 3]", "-r", type=click.IntRange(1))
    seed: int | None = flag("Seed of the order of cells.  [default: 1]")
    protocol: str | None = flag("pgbench's query protocol.  [default: prepared]", "-M", type=click.Choice(PROTOCOLS))
    warmup: float | None = flag("Longest warm-up of a run, in seconds.  [default: 20]", type=Time("s", 0))
    measure: float | None = flag("Measured window, in seconds.  [default: 30]", type=Time("s", 2))


class MatrixFlags(_CellFlags, MeasuringFlags):
    """The flags of `pgdyno matrix`: which cells it has, and how they are run."""

    force: bool = flag("Allow tuned configurations without a baseline, and load generators that differ.")
    dry_run: bool = flag("Print every cell with pgbench's command line; nothing is run.")
    manifests: Path | None = flag("Write Kubernetes Jobs for the load generators there; nothing is run.", metavar="DIR")
    openshift: bool = flag("Jobs of --manifests for OpenShift: the namespace chooses their user.")
    image: str | None = flag(
        "Image of the Jobs' pods, with pgbench, psql, sh and gzip.  [default: docker.io/library/postgres]",
        metavar="IMAGE",
    )
    resume: str | None = flag("Continue an interrupted matrix with its own plan: its id, or last.", metavar="STUDY")


def plan_of(flags: MatrixFlags) -> MatrixPlan:
    """Return the plan of file and flags, checked. Raises UsageError on either."""
    from pgdyno.cli.requests.study import settings_from
    from pgdyno.fleet.start import allowed_cpus
    from pgdyno.studies.matrix.plan import MatrixPlan, check, check_workloads, pods_of_totals, with_configurations

    plan = MatrixPlan() if flags.plan_file is None else _read(flags.plan_file)
    given: dict[str, object] = {
        "instances": _numbers(flags.instances, "instances"),
        "clients": _numbers(flags.clients, "clients"),
        "jobs": _numbers(flags.jobs, "jobs"),
        "scales": _numbers(flags.scale, "scale"),
        "modes": None if (modes := _words(flags.workload)) is None else tuple(map(whole_name, modes)),
        "smt": _words(flags.smt),
        "server_cpus": flags.server_cpus or None,
        "placements": _words(flags.placement),
        "warmup_s": flags.warmup,
        "measure_s": flags.measure,
        "repetitions": flags.repetitions,
        "seed": flags.seed,
        "protocol": flags.protocol,
        "driver_cpus": flags.driver_cpus,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes |= _parameters(flags, plan)
    if custom := _custom(flags):
        changes["custom"] = {**plan.custom, **custom}
    plan = replace(plan, force=flags.force, **changes)
    if confs := flags.confs:
        plan = with_configurations(
            plan, {**_beyond_default(plan.configurations), **_configurations(confs, settings_from)}
        )
    if not flags.dry_run and flags.manifests is None:
        allowed_cpus(plan.driver_cpus)  # here, before a server is started; a manifest's pods run elsewhere
    totals = pods_of_totals(plan.instances, flags.vcpus_total, flags.memory_total)
    plan = check(replace(plan, pods=totals) if totals else plan)
    check_workloads(plan)
    return plan


def _beyond_default(configurations: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    return {name: settings for name, settings in configurations.items() if settings}


def _read(file: Path) -> MatrixPlan:
    from pgdyno.cli.requests.study import settings_from
    from pgdyno.studies.matrix.file import parse_matrix

    text = read_text(file, "plan", hint="docs/reference/matrix.md has an example and every key.")
    return parse_matrix(text, lambda name: settings_from(file.parent / name), source=file.name)


def _numbers(text: str | None, name: str) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f'--{name} "{text}" is not a list of whole numbers', hint=f"--{name} 16,32,64") from None


def _words(text: str | None) -> tuple[str, ...] | None:
    return tuple(word.strip() for word in text.split(",")) if text and text.strip(",") else None


def _configurations(
    words: tuple[str, ...], settings_from: Callable[[Path], Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for word in words:
        name, path = two_sides(word, "configuration", "NAME=FILE", "--conf tuned=tuned.conf")
        if name in found:
            raise UsageError(f'configuration "{name}" is named twice', hint="Give each --conf a name of its own.")
        found[name] = settings_from(Path(path))
    return found


def _parameters(flags: MatrixFlags, plan: MatrixPlan) -> dict[str, object]:
    """Return what -D changes of a plan; scale is a factor, as --scale has it."""
    given = workload_parameters(None, flags.params)
    scale = given.pop("scale", None)
    if scale is not None and flags.scale is not None:
        raise UsageError(
            "--scale and -D scale cannot be used together", hint="Name every level in --scale, such as 10,100."
        )
    changes: dict[str, object] = {} if scale is None else {"scales": _numbers(str(scale), "scale")}
    return {**changes, "parameters": {**plan.parameters, **given}} if given else changes


def _custom(flags: MatrixFlags) -> dict[str, str | int]:
    # What scripts and init mean is told by the flags of the other verbs.
    given = workload_parameters("custom", (), flags.scripts, flags.init)
    return {name: value for name, value in given.items() if isinstance(value, str)}
