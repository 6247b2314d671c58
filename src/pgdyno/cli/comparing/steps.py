"""`pgdyno compare --step` and `--generation`: what steps that were printed elsewhere come to together."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.reporting import emit
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.studies.platforms.figures import Generation
    from pgdyno.studies.staircase.figure import StairRow

_STEP = re.compile(r"(?P<name>[^=]{1,60})=(?P<percent>[+-]?\d{1,6}(?:\.\d+)?)\s*%?")
_GENERATION = re.compile(r"(?P<step>[^=]{1,60})=(?P<metric>\d+(?:\.\d+)?)/(?P<clock>\d+(?:\.\d+)?)")


def steps_command(flags: CompareFlags) -> int:
    """Draw the staircase of the steps that were given."""
    from pgdyno.studies.staircase.steps_page import compounded, steps_page

    rows = [_step(word) for word in flags.steps]
    subject, output, stated = flags.subject, flags.output, flags.stated
    if flags.as_json and output is None:
        steps = [{"step": row.name, "ratio": row.ratio, "outcome": row.outcome} for row in rows]
        product, total = compounded(rows)
        click.echo(json.dumps({"of": subject, "steps": steps, "product": product, "sum": total, "stated": stated}))
        return 0
    emit(steps_page(rows, subject, stated_pct=stated), flags.wanted, output)
    return 0


def _step(word: str) -> StairRow:
    from pgdyno.studies.staircase.figure import StairRow

    match = _STEP.fullmatch(word)
    ratio = 1 + float(match["percent"]) / 100 if match else 0.0
    if match is None or ratio <= 0:
        raise UsageError(
            f'step "{word}" is not NAME=PERCENT',
            hint="Write what each step gained over the one before, such as WAL=12.",
        )
    outcome = "keep" if ratio > 1 else "null" if ratio == 1 else "drop"
    return StairRow(match["name"].strip(), ratio, None, outcome)


def generations_command(flags: CompareFlags) -> int:
    """Draw the steps that were given."""
    from pgdyno.studies.platforms.page import generations_page, step_sentences

    steps = [_generation(word) for word in flags.generations]
    subject, output = flags.subject, flags.output
    if flags.as_json and output is None:
        rows = [
            {"step": one.step, "metric": one.metric, "clock": one.clock, "beyond_clock": one.per_clock} for one in steps
        ]
        click.echo(json.dumps({"of": subject, "steps": rows, "sentences": step_sentences(steps, subject)}))
        return 0
    emit(generations_page(steps, subject), flags.wanted, output)
    return 0


def _generation(word: str) -> Generation:
    from pgdyno.studies.platforms.figures import Generation

    match = _GENERATION.fullmatch(word)
    if match is None or not float(match["metric"]) or not float(match["clock"]):
        raise UsageError(
            f'generation "{word}" is not STEP=METRIC/CLOCK', hint="Write factors above 0, such as z900->z990=2.2/1.6."
        )
    return Generation(match["step"].strip(), float(match["metric"]), float(match["clock"]))
