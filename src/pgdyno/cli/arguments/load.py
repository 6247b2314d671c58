"""The flags that say what is run and how it is driven, and the plan that they make."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.cli.arguments.numbers import Finite, Time
from pgdyno.model.matrix import BUILTIN, MODES
from pgdyno.model.trial import PROTOCOLS, RATES, LoadPlan, check_length

_BEYOND = 1e15  # a float has no digits for more: such a number stays a text


class WorkloadName(click.Choice[str]):
    """A workload by name: one of pgdyno's own, or one that an installed package offers."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, as `whole_name` has it. Raises BadParameter where nobody offers it."""
        if value not in self.choices:
            from pgdyno.workloads.registry import is_installed

            if is_installed(value.partition(":")[0]):
                return whole_name(value)
        return super().convert(value, param, ctx)


def whole_name(name: str) -> str:
    """Return the name of a workload with the file behind its colon by its whole path, as a study may be resumed."""
    workload, colon, subject = name.partition(":")
    return f"{workload}:{Path.cwd() / subject}" if colon else name


class LoadFlags(Flags):
    """What is run, and how it is driven."""

    workload: str = flag(
        "Workload to run; replay:TRACE is a captured load.", "-w", default="tpcb-like", type=WorkloadName(MODES)
    )
    params: tuple[str, ...] = flag(
        "A parameter of the workload, such as scale=50 or tab_rows=1e6; may be given again.",
        "--param",
        "-D",
        metavar="NAME=VALUE",
    )
    scripts: tuple[str, ...] = flag("A pgbench script of workload custom.", "--script", metavar="FILE[@WEIGHT]")
    init: Path | None = flag("SQL that loads the data of workload custom or replay.", metavar="FILE")
    clients: int | None = flag("Sessions.  [default: the host's cores]", "-c", type=click.IntRange(1))
    jobs: int | None = flag("pgbench threads.  [default: 1 for 8 clients]", "-j", type=click.IntRange(1))
    protocol: str = flag("pgbench's query protocol.", "-M", default="prepared", type=click.Choice(PROTOCOLS))
    rate: float | None = flag("Open loop: transactions per second to schedule.", "-R", type=Finite(*RATES))
    connect_each: bool = flag("Open a new connection for each transaction.", "-C")
    warmup: float = flag("Longest warm-up, in seconds.", default=20.0, type=Time("s", 0))
    measure: float = flag("Measured window, in seconds.", default=30.0, type=Time("s", 2))
    reset: str = flag(
        "When to clone the data again; auto: before each trial of a load that writes.",
        default="auto",
        type=click.Choice(["auto", "always", "never"]),
    )
    load_seed: int | None = flag("pgbench's random seed.  [default: drawn for each run]")


def workload_parameters(
    workload: str | None, params: Sequence[str], scripts: Sequence[str] = (), init: Path | None = None
) -> dict[str, str | int | float | bool]:
    """Read -D NAME=VALUE, --script and --init into the workload's parameters; a matrix has None for the workload.

    `params` are the words of -D: each wins over an earlier one of its name and over the plan file. `scripts` are
    FILE[@WEIGHT], joined by commas in the result, and `init` is a file of SQL; both get absolute paths there, and both
    are left out where none was given. Raises UsageError for a word without a name or `=`, and for files that the
    workload does not take.
    """
    from pgdyno.cli.arguments.planned import planned_parameters
    from pgdyno.errors import UsageError

    parameters = planned_parameters(workload)
    for word in params:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f'parameter "{word}" is not NAME=VALUE', hint="Write it as -D scale=50.")
        parameters[name] = _typed(value)
    takes_init = (workload or "").partition(":")[0] in ("custom", "replay")
    if (workload != "custom" and scripts) or (init and not takes_init):
        raise UsageError(f"--{'script' if scripts else 'init'} is for workload custom", hint="Add --workload custom.")
    if scripts:
        parameters["scripts"] = ",".join(_absolute_script(word) for word in scripts)
    if init is not None:
        parameters["init"] = str(init.absolute())
    return parameters


def _absolute_script(word: str) -> str:
    """Return the script's absolute path, so that a study is resumed from any folder; a built-in's name stays."""
    path = word.rpartition("@")[0] or word
    return word if path in BUILTIN or not path else str(Path.cwd() / word)


def _typed(value: str) -> str | int | float | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        number = float(value)
    except ValueError:
        return value
    if not abs(number) < _BEYOND:  # nan, too
        return value
    return int(number) if number.is_integer() else number


def load_plan(flags: LoadFlags) -> LoadPlan:
    """Build the load plan; clients default to the host's cores. Raises UsageError where it is too short."""
    check_length(flags.warmup, flags.measure)
    cores = os.cpu_count() or 1
    clients = flags.clients or cores
    return LoadPlan(
        clients=clients,
        jobs=flags.jobs or max(1, min(clients // 8, cores)),
        warmup_s=flags.warmup,
        measure_s=flags.measure,
        protocol=flags.protocol,
        rate=flags.rate,
        connect_each=flags.connect_each,
        reset=flags.reset,
        seed=flags.load_seed,
    )
