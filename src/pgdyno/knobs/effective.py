"""The value that a setting would have under a configuration: its own text, or what the server has now."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.knobs.current import automatic_value
from pgdyno.knobs.expressions import Quantity
from pgdyno.knobs.values import number_of
from pgdyno.model.facts import Facts
from pgdyno.units import format_quantity, parse_quantity


def effective_number(name: str, configuration: Mapping[str, str], facts: Facts) -> float | None:
    """Return a numeric setting in base units; None when the server does not have it.

    An automatic setting that the configuration leaves alone comes back as its special value (-1 or 0), because its
    computed size would change with the configuration.
    """
    fact = facts.row(name)
    if fact is None:
        return None
    if name in configuration:
        return parse_quantity(configuration[name], fact.unit)
    automatic = automatic_value(fact)
    return number_of(fact) if automatic is None else automatic


def effective_bytes(name: str, configuration: Mapping[str, str], facts: Facts) -> float | None:
    """Return a setting in bytes; negative values (-1) come back as they are."""
    number = effective_number(name, configuration, facts)
    if number is None or number < 0:
        return number
    fact = facts.row(name)
    return Quantity.of_setting(number, fact.unit if fact else None).value


def effective_text(name: str, configuration: Mapping[str, str], facts: Facts) -> str:
    """Return a numeric setting as people write it, for messages."""
    number = effective_number(name, configuration, facts)
    fact = facts.row(name)
    return "unset" if number is None or fact is None else format_quantity(number, fact.unit)
