"""The flags of a matrix: one for each factor, taken over those of a plan file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.arguments.flags import F, Flags, stack
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.terminal.files import read_text
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.studies.matrix.plan import MatrixPlan

_NUMBERS = {"instances": "instances", "clients": "clients", "jobs": "jobs", "scale": "scales"}
_WORDS = {"workload": "modes", "smt": "smt", "server_cpus": "server_cpus", "placement": "placements"}
_MODES = "tpcb-like, simple-update (-N), select-only (-S), ybio, tprocc, custom"


def matrix_options(function: F) -> F:
    """Add the flags that say which cells a matrix has and how they are run."""
    option: Callable[..., Callable[[F], F]] = click.option
    options = [
        option("--instances", metavar="N,N", help="Load generators that begin together, such as 16,32.  [default: 1]"),
        option("--clients", "-c", metavar="N,N", help="Sessions of each load generator.  [default: 1]"),
        option("--jobs", "-j", metavar="N,N", help="Threads of each load generator.  [default: as clients]"),
        option("--workload", "-w", "--mode", "-b", "workload", metavar="NAME,NAME",
               help=f"{_MODES}.  [default: tpcb-like]"),
        option("--param", "-D", "params", multiple=True, metavar="NAME=VALUE",
               help="A parameter of the workloads, such as warehouses=4; may be given again."),
        option("--scale", "-s", metavar="N,N", help="Scale of pgbench's tables, about 16 MB each.  [default: 10]"),
        option("--conf", "confs", multiple=True, metavar="NAME=FILE",
               help="A configuration of `name = value` lines; the default one is measured beside it."),
        option("--smt", metavar="LEVEL,LEVEL", help="SMT levels of the server's host, such as off,on or 2,4,8."),
        option("--server-cpus", multiple=True, metavar="LIST", help="CPUs of a sandbox's server; may be given again."),
        option("--placement", metavar="WHERE,WHERE", help="socket, loopback or a host's name.  [default: socket]"),
        option("--script", "scripts", multiple=True, metavar="FILE[@WEIGHT]", help="A script of mode custom."),
        option("--init", metavar="FILE", type=click.Path(path_type=Path), help="SQL that loads custom's data."),
        option("--driver-cpus", metavar="LIST", help="CPUs of the load generators, as taskset -c has them."),
        option("--vcpus-total", type=click.FloatRange(0, min_open=True),
               help="CPUs of all load generators together; each gets its share, by cgroup."),
        option("--memory-total", metavar="SIZE", help="Memory of all load generators together, such as 224GB."),
        option("--repetitions", "-r", type=click.IntRange(1), help="How often every cell is run.  [default: 3]"),
        option("--seed", type=int, help="Seed of the order of cells.  [default: 1]"),
        option("--protocol", "-M", type=click.Choice(["simple", "extended", "prepared"]),
               help="pgbench's query protocol.  [default: prepared]"),
        option("--warmup", type=Time("s", 0), help="Longest warm-up of a run, in seconds.  [default: 20]"),
        option("--measure", type=Time("s", 2), help="Measured window, in seconds.  [default: 30]"),
    ]  # fmt: skip
    return stack(function, options)


def plan_of(flags: Flags) -> MatrixPlan:
    """Return the plan of file and flags, checked. Raises UsageError on either."""
    from pgdyno.cli.requests.study import settings_from
    from pgdyno.fleet.start import allowed_cpus
    from pgdyno.studies.matrix.plan import MatrixPlan, check, check_workloads, pods_of_totals, with_configurations

    file = flags.path("plan_file")
    plan = MatrixPlan() if file is None else _read(file)
    changes: dict[str, Any] = {}
    for flag, name in _NUMBERS.items():
        if (text := flags.text(flag)) is not None:
            changes[name] = _numbers(text, flag)
    for flag, name in _WORDS.items():
        words = flags.words(flag) if flag == "server_cpus" else tuple((flags.text(flag) or "").split(","))
        if any(words):
            changes[name] = tuple(word.strip() for word in words)
    for flag, name in (("warmup", "warmup_s"), ("measure", "measure_s")):
        if (seconds := flags.number(flag)) is not None:
            changes[name] = seconds
    for flag in ("repetitions", "seed"):
        if (number := flags.number(flag)) is not None:
            changes[flag] = int(number)
    for flag in ("protocol", "driver_cpus"):
        if (text := flags.text(flag)) is not None:
            changes[flag] = text
    changes |= _parameters(flags, plan)
    if custom := _custom(flags):
        changes["custom"] = {**plan.custom, **custom}
    plan = replace(plan, force=flags.on("force"), **changes)
    if confs := flags.words("confs"):
        plan = with_configurations(
            plan, {**_beyond_default(plan.configurations), **_configurations(confs, settings_from)}
        )
    if not flags.on("dry_run") and flags.values["manifests"] is None:
        allowed_cpus(plan.driver_cpus)  # here, before a server is started; a manifest's pods run elsewhere
    totals = pods_of_totals(plan.instances, flags.number("vcpus_total"), flags.text("memory_total"))
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


def _numbers(text: str, flag: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f'--{flag} "{text}" is not a list of whole numbers', hint=f"--{flag} 16,32,64") from None


def _configurations(
    words: tuple[str, ...], settings_from: Callable[[Path], Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not name:
            raise UsageError(f'configuration "{word}" is not NAME=FILE', hint="Write it as --conf tuned=tuned.conf.")
        if name in found:
            raise UsageError(f'configuration "{name}" is named twice', hint="Give each --conf a name of its own.")
        found[name] = settings_from(Path(path))
    return found


def _parameters(flags: Flags, plan: MatrixPlan) -> dict[str, object]:
    """Return what -D changes of a plan; scale is a factor, as --scale has it."""
    from pgdyno.cli.arguments.load import workload_parameters

    given = workload_parameters(Flags({**flags.values, "scripts": (), "init": None, "workload": None}))
    scale = given.pop("scale", None)
    if scale is not None and flags.text("scale") is not None:
        raise UsageError("--scale and -D scale exclude each other", hint="Name every level in --scale, such as 10,100.")
    changes: dict[str, object] = {} if scale is None else {"scales": _numbers(str(scale), "scale")}
    return {**changes, "parameters": {**plan.parameters, **given}} if given else changes


def _custom(flags: Flags) -> dict[str, str | int]:
    from pgdyno.cli.arguments.load import workload_parameters

    # What scripts and init mean is told by the flags of the other verbs.
    given = workload_parameters(Flags({**flags.values, "params": (), "workload": "custom"}))
    return {name: value for name, value in given.items() if isinstance(value, str)}
