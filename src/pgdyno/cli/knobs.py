"""`pgdyno knobs`: the knobs that pgdyno may touch, their ranges, classes and reasons. Needs no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.terminal.columns import print_columns, print_told
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.knobs.catalogue import Knob
    from pgdyno.knobs.policy import Ruling


@click.group(name="knobs")
def command() -> None:
    """List the knobs of PostgreSQL and Linux that pgdyno may touch, and say what the policy thinks of any parameter."""


@command.command(name="list")
@click.option("--group", metavar="GROUP", help="Only this group, such as memory, wal, io or cpu.")
@click.option("--class", "durability", metavar="CLASS", help="Only this durability class: A, B or C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_knobs(group: str | None, durability: str | None, as_json: bool) -> None:
    """List the catalogue: ranges are expressions over the facts of a server, clipped to its own bounds."""
    from pgdyno.knobs.catalogue import Group
    from pgdyno.knobs.linux import load_all_knobs
    from pgdyno.knobs.policy import Durability

    groups = [member.value for member in Group]
    classes = [member.value for member in Durability if member is not Durability.X]
    _check_word("--group", group, groups)
    _check_word("--class", durability, classes)
    knobs = [
        knob
        for knob in load_all_knobs().values()
        if group in (None, knob.group.value) and durability in (None, knob.durability.value)
    ]
    if as_json:
        click.echo(json.dumps([_knob_json(knob) for knob in knobs], indent=2))
    else:
        _print_table(knobs)


@command.command(name="show")
@click.argument("name", metavar="KNOB")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_knob(name: str, as_json: bool) -> None:
    """Explain one parameter: what it does, its range, what a trial needs to judge it, and its durability class."""
    from pgdyno.knobs.linux import load_all_knobs
    from pgdyno.knobs.policy import load_policy, nearest_hint, ruling_of

    ruling = ruling_of(name)
    if ruling is None:
        known = load_policy().rulings.keys()
        raise UsageError(f'unknown knob "{name}"', hint=nearest_hint(name, known))
    knob = load_all_knobs().get(ruling.name)
    if as_json:
        click.echo(json.dumps(_knob_json(knob) if knob else _ruling_json(ruling), indent=2))
        return
    for label, text in _lines(ruling, knob):
        print_told(f"{label + ':':<14}", text)


@command.command(name="host")
@click.option(
    "--data-directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The server's data directory, for the block devices below it and its log.  [default: this folder]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def host_knobs(data_directory: Path | None, as_json: bool) -> None:
    """Show the Linux knobs of this machine, and why one cannot be changed or has no effect. Changes nothing."""
    from pgdyno.kernel.kernel_facts import read_kernel
    from pgdyno.knobs.linux import idle_on_host
    from pgdyno.linux.block_devices import find_places
    from pgdyno.linux.host import read_host
    from pgdyno.model.facts import Unknown

    place = data_directory or Path.cwd()
    facts, swap = read_kernel(find_places(place)), read_host(place).swap_total_bytes
    rows = [
        {
            "name": fact.name,
            "value": None if isinstance(fact.value, Unknown) else fact.value,
            "choices": list(fact.choices),
            "obstacle": fact.obstacle or (fact.value.reason if isinstance(fact.value, Unknown) else None),
            "idle": idle_on_host(fact.name, facts, swap),
        }
        for fact in facts.values()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    lines = []
    for row in rows:
        value = "unknown" if row["value"] is None else str(row["value"])
        idle = f"without effect here: {row['idle']}" if row["idle"] else ""
        lines.append((str(row["name"]), value, str(row["obstacle"] or idle)))
    print_columns(("knob", "value", "obstacle"), lines)


def _check_word(flag: str, word: str | None, allowed: list[str]) -> None:
    if word is not None and word not in allowed:
        raise UsageError(f'{flag} "{word}" is not one of {", ".join(allowed)}', hint="Run `pgdyno knobs list`.")


def _lines(ruling: Ruling, knob: Knob | None) -> list[tuple[str, str]]:
    durability = (
        f"{ruling.durability}: {ruling.durability.meaning}" if ruling.durability else "not a performance setting"
    )
    lines = [("knob", ruling.name), ("class", durability), ("policy", ruling.why), ("searched", _searched(ruling))]
    if knob is None:
        return lines
    needs = "; ".join(knob.needs.sentences()) or "nothing special"
    lines += [("group", knob.group.value), ("scale", knob.scale.value), ("range", knob.range_text()), ("needs", needs)]
    if knob.takes_effect is not None:
        lines.append(("in force", knob.takes_effect.meaning))
    lines += [("why", knob.why), ("source", knob.source)]
    return lines + ([("see also", ", ".join(knob.interactions))] if knob.interactions else [])


def _searched(ruling: Ruling) -> str:
    from pgdyno.knobs.policy import SearchPolicy
    from pgdyno.model.linux import is_linux_knob

    return {
        SearchPolicy.DEFAULT: f"{'with --linux' if is_linux_knob(ruling.name) else 'yes'}, where its needs are met",
        SearchPolicy.OPT_IN: f"only with --include {ruling.name}",
        SearchPolicy.MANUAL: "never; it may be set by hand in an experiment",
        SearchPolicy.NEVER: "never, whatever the flags",
    }[ruling.search]


def _ruling_json(ruling: Ruling) -> dict[str, object]:
    return {
        "name": ruling.name,
        "class": ruling.durability.value if ruling.durability else None,
        "search": ruling.search.value,
        "policy": ruling.why,
    }


def _knob_json(knob: Knob) -> dict[str, object]:
    return {
        "name": knob.name,
        "class": knob.durability.value,
        "search": knob.search.value,
        "group": knob.group.value,
        "scale": knob.scale.value,
        "low": knob.low.text if knob.low else None,
        "high": knob.high.text if knob.high else None,
        "special": list(knob.special),
        "choices": list(knob.choices),
        "needs": list(knob.needs.sentences()),
        "why": knob.why,
        "source": knob.source,
        "interactions": list(knob.interactions),
        "takes_effect": knob.takes_effect.value if knob.takes_effect else None,
    }


def _print_table(knobs: list[Knob]) -> None:
    rows = [(knob.name, str(knob.durability), knob.range_text(), str(knob.search)) for knob in knobs]
    print_columns(("knob", "class", "range", "searched"), rows)
