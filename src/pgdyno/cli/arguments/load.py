"""The flags that say what is run and how it is driven, and the plan that they make."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.bounds import bounds_options
from pgdyno.cli.arguments.flags import F, Flags, stack
from pgdyno.cli.arguments.numbers import Time
from pgdyno.model.matrix import BUILTIN, MODES

if TYPE_CHECKING:
    from pgdyno.model.trial import LoadPlan

_BEYOND = 1e15  # a float has no digits for more: such a number stays a text


class WorkloadName(click.Choice[str]):
    """A workload by name: one of pgdyno's own, or one that an installed package offers."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises BadParameter for one that nobody offers."""
        if value not in self.choices:
            from pgdyno.workloads.registry import is_installed

            if is_installed(value):
                return value
        return super().convert(value, param, ctx)


def workload_options(function: F) -> F:
    """Add the flags that say what is run, how it is driven, and what disturbs it."""
    return stack(
        bounds_options(function),
        [
            click.option(
                "--workload",
                "-w",
                type=WorkloadName(MODES),
                default="tpcb-like",
                show_default=True,
                help="What is run.",
            ),
            click.option(
                "--param",
                "-D",
                "params",
                multiple=True,
                metavar="NAME=VALUE",
                help="A parameter of the workload, such as scale=50 or tab_rows=1e6; may be given again.",
            ),
            click.option(
                "--script",
                "scripts",
                multiple=True,
                metavar="FILE[@WEIGHT]",
                help="A pgbench script of workload custom.",
            ),
            click.option(
                "--init", metavar="FILE", type=click.Path(path_type=Path), help="SQL that loads custom's data."
            ),
            click.option(
                "--clients", "-c", type=click.IntRange(1), default=None, help="Sessions.  [default: the host's cores]"
            ),
            click.option(
                "--jobs",
                "-j",
                type=click.IntRange(1),
                default=None,
                help="pgbench threads.  [default: 1 for 8 clients]",
            ),
            click.option(
                "--protocol",
                "-M",
                type=click.Choice(["simple", "extended", "prepared"]),
                default="prepared",
                show_default=True,
                help="pgbench's query protocol.",
            ),
            click.option(
                "--rate",
                "-R",
                type=click.FloatRange(0, min_open=True),
                help="Open loop: transactions per second to schedule.",
            ),
            click.option("--connect-each", "-C", is_flag=True, help="A new connection for each transaction."),
            click.option(
                "--warmup",
                type=Time("s", 0),
                default=20.0,
                show_default=True,
                help="Longest warm-up, in seconds.",
            ),
            click.option(
                "--measure",
                type=Time("s", 2),
                default=30.0,
                show_default=True,
                help="Measured window, in seconds.",
            ),
            click.option(
                "--reset",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                show_default=True,
                help="When the data is cloned anew: auto is before each trial of a load that writes.",
            ),
            click.option("--load-seed", type=int, help="pgbench's random seed.  [default: drawn for each run]"),
        ],
    )


def workload_parameters(flags: Flags) -> dict[str, str | int | float | bool]:
    """Read -D NAME=VALUE, --script and --init into the workload's parameters."""
    from pgdyno.cli.arguments.planned import planned_parameters
    from pgdyno.errors import UsageError

    parameters = planned_parameters(flags.values.get("workload"))
    for word in flags.words("params"):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f'parameter "{word}" is not NAME=VALUE', hint="Write it as -D scale=50.")
        parameters[name] = _typed(value)
    given = [name for name in ("scripts", "init") if flags.values[name]]
    if given and flags.values.get("workload", "custom") != "custom":  # a matrix has modes instead
        raise UsageError(f"--{given[0].removesuffix('s')} is for workload custom", hint="Add --workload custom.")
    if flags.words("scripts"):
        parameters["scripts"] = ",".join(_absolute_script(word) for word in flags.words("scripts"))
    if flags.path("init") is not None:
        parameters["init"] = str(Path(flags.choice("init")).absolute())
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


def load_plan(flags: Flags) -> LoadPlan:
    """Build the load plan; clients default to the host's cores. Raises UsageError where it is too short."""
    from pgdyno.model.trial import LoadPlan, check_length

    check_length(flags.real("warmup"), flags.real("measure"))
    cores = os.cpu_count() or 1
    clients = int(flags.number("clients") or cores)
    seed = flags.number("load_seed")
    return LoadPlan(
        clients=clients,
        jobs=int(flags.number("jobs") or max(1, min(clients // 8, cores))),
        warmup_s=flags.real("warmup"),
        measure_s=flags.real("measure"),
        protocol=flags.choice("protocol"),
        rate=flags.number("rate"),
        connect_each=flags.on("connect_each"),
        reset=flags.choice("reset"),
        seed=None if seed is None else int(seed),
    )
