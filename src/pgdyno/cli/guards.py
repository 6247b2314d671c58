"""`pgdyno guards`: what is watched during a trial, where it trips, and its reading now."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import print_told, told_lines
from pgdyno.errors import ExitCode
from pgdyno.outside.words import printable, styled

if TYPE_CHECKING:
    from pgdyno.model.guard import GuardPlan
    from pgdyno.trial.guards import GuardStatus

_ENDS = {"configuration": "trial", "environment": "study"}
_NAME = 18
"""Columns of a guard's name."""
_COLOURS = {"green": "green", "amber": "yellow", "red": "red"}


class _Flags(TargetFlags, JsonFlag):
    guards: tuple[str, ...] = flag("Show it with this limit.", "--guard", metavar="NAME=VALUE")


@verb("guards")
def command(flags: _Flags) -> int:
    """List every guard with its limit, its reading now, and what it reads.

    A trial ends at once when a guard turns red, and the baseline is restored. Reads only; without --target it looks
    at the sandbox, which is started for it. Exit code 1 when a guard is red now.
    """
    from pgdyno.model.live import Colour
    from pgdyno.probes.guards.reader import GuardReader
    from pgdyno.studies.session.opening import opened
    from pgdyno.trial.guard_settings import guard_plan
    from pgdyno.trial.sentry import status_now

    plan = guard_plan(flags.guards)
    with opened(target_request(flags)) as target:
        statuses = status_now(GuardReader(target), plan, clock=time.time, sleep=time.sleep)
    facts = [_facts(status, plan) for status in statuses.values()]
    if flags.as_json:
        click.echo(json.dumps({"guards": facts}))
    else:
        for fact in facts:
            _print(fact)
    is_red = any(status.indicator.colour is Colour.RED for status in statuses.values())
    return int(ExitCode.FINDINGS if is_red else ExitCode.OK)


def _facts(status: GuardStatus, plan: GuardPlan) -> dict[str, object]:
    from pgdyno.model.guard_table import GUARDS
    from pgdyno.trial.guard_settings import limit_text

    guard, value = GUARDS[status.indicator.name], status.reading.value
    return {
        "name": guard.name,
        "state": status.indicator.colour.value,
        "reading": value if isinstance(value, int | float) else None,
        "text": status.indicator.text,
        "unit": guard.unit,
        "default": limit_text(guard),
        "limit": limit_text(guard, plan.limits.get(guard.name)),
        "kind": guard.kind.value,
        "can_be_off": guard.can_be_off,
        "reads": guard.reads,
        "reason": guard.reason,
    }


def _coloured(state: str) -> str:
    """Return a state in its colour, without it under NO_COLOR (no-color.org), which click does not honour."""
    return state if os.environ.get("NO_COLOR") else click.style(state, fg=_COLOURS.get(state))


def _print(fact: dict[str, object]) -> None:
    state, text = str(fact["state"]), printable(str(fact["text"]))
    first, *more = told_lines(f"{fact['name']:<{_NAME}}", f"{state:<6} {text}")
    shown = first[:_NAME] + first[_NAME:].replace(state, _coloured(state), 1)
    click.echo("\n".join([shown, *more]), file=styled(sys.stdout))
    changed = "" if fact["limit"] == fact["default"] else f", default {fact['default']}"
    print_told(" " * _NAME, f"limit {fact['limit']}{changed}; a breach ends the {_ENDS[str(fact['kind'])]}")
    print_told(" " * _NAME, f"reads {fact['reads']}")
