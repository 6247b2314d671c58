"""`--dbtune FILE`: what a session file of DBtune says stands where no flag was typed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import click
from click.core import ParameterSource

from pgdyno.cli.requests.live_flags import LiveFlags
from pgdyno.errors import UsageError
from pgdyno.units import seconds_text

WARMUP_S, MEASUREMENT_S = 120.0, 180.0
"""DBtune's own, where its file names only one of the two."""


@dataclass(frozen=True, slots=True)
class FileTimes:
    """How long a period is by the file, and how much of its begin does not count."""

    period_s: float
    wash_s: float


def take_file(flags: LiveFlags) -> tuple[LiveFlags, FileTimes | None]:
    """Return the flags with what the file says, and its times; both as they are without a file. Tells what was taken.

    Raises UsageError for a file that is none, or a warm-up that is longer than what is measured after it.
    """
    if flags.dbtune is None:
        return flags, None
    from pgdyno.server.postgres import redact
    from pgdyno.studies.live.dbtune_file import read_dbtune

    found, context = read_dbtune(flags.dbtune), click.get_current_context()

    def typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    values, said = dict[str, object](), list[str]()
    if not typed("target"):
        values["target"] = found.connection
        said.append(f"server {redact(found.connection or '')}")
    if found.restart_command is not None and not typed("restart_command"):
        values["restart_command"] = shlex.join(found.restart_command)
        said.append(f"restart command {shlex.join(found.restart_command)}")
    if found.memory_percent is not None and not any(word.startswith("memory=") for word in flags.guards):
        values["guards"] = (*flags.guards, f"memory={100 - found.memory_percent:g}%")
        said.append(f"guard memory={100 - found.memory_percent:g}%")
    times = None
    if found.warmup_s is not None or found.measurement_s is not None:
        warmup_s, measurement_s = found.warmup_s or WARMUP_S, found.measurement_s or MEASUREMENT_S
        if warmup_s > measurement_s:
            raise UsageError(
                f"warmup_time {warmup_s:g} is longer than measurement_time {measurement_s:g}",
                hint="Take both out of the file: the reference chooses periods, usually of 30 s.",
            )
        times = FileTimes(warmup_s + measurement_s, warmup_s)
        said.append(f"periods of {seconds_text(times.period_s)}, {seconds_text(warmup_s)} of them not counted")
    click.echo(f'"{flags.dbtune}": {"; ".join(said) or "nothing that no flag says"}', err=True)
    if found.unused:
        click.echo(f"not used: {', '.join(found.unused)}", err=True)
    return flags.but(**values), times
