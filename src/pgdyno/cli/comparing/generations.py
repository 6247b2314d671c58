"""`pgdyno compare --generation STEP=METRIC/CLOCK`: what machines gained from one to the next, beyond their clock."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.reporting import emit, format_of
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.studies.platforms.figures import Generation

_STEP = re.compile(r"(?P<step>[^=]{1,60})=(?P<metric>\d+(?:\.\d+)?)/(?P<clock>\d+(?:\.\d+)?)")


def generations_command(flags: CompareFlags) -> int:
    """Draw the steps that were given."""
    from pgdyno.studies.platforms.generations_page import generations_page, step_sentences

    steps = [_step(word) for word in flags.generations]
    subject, output = flags.subject, flags.output
    if flags.as_json and output is None:
        rows = [
            {"step": one.step, "metric": one.metric, "clock": one.clock, "beyond_clock": one.per_clock} for one in steps
        ]
        click.echo(json.dumps({"of": subject, "steps": rows, "sentences": step_sentences(steps, subject)}))
        return 0
    chosen = format_of(flags.wanted, output)
    emit(generations_page(steps, subject), chosen, output)
    return 0


def _step(word: str) -> Generation:
    from pgdyno.studies.platforms.figures import Generation

    match = _STEP.fullmatch(word)
    if match is None or not float(match["metric"]) or not float(match["clock"]):
        raise UsageError(
            f'generation "{word}" is not STEP=METRIC/CLOCK', hint="Write factors above 0, such as z900->z990=2.2/1.6."
        )
    return Generation(match["step"].strip(), float(match["metric"]), float(match["clock"]))
