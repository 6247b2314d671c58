"""What a setting stands at on the running server, where a search starts from, and under a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pgdyno.knobs.dimension import Value
from pgdyno.knobs.expressions import Quantity
from pgdyno.knobs.values import number_of
from pgdyno.model.facts import Facts, SettingFact
from pgdyno.units import format_quantity, parse_quantity

OVERRIDING_SOURCES = {
    "command line": "on the server's command line",
    "global": "by ALTER ROLE ALL",
    "database": "by ALTER DATABASE",
    "user": "by ALTER ROLE",
    "database user": "by ALTER ROLE ... IN DATABASE",
    "client": "by the client",
    "session": "in the session",
}
"""Sources in `pg_settings` that a configuration file cannot override, in words. The server's environment is none of
them: it ranks below the files (`GucSource` in guc.h), and so does `max_stack_depth` as 13 and 14 derive it."""
_REMEMBERED = 4096
"""What is asked of two dozen settings for each of thousands of candidates is computed once."""


def overridden(fact: SettingFact) -> str | None:
    """Return where a setting is fixed above the configuration files, in words; None when a file decides it."""
    return OVERRIDING_SOURCES.get(fact.source)


def current_value(fact: SettingFact, special: Sequence[float] = ()) -> Value:
    """Return the value in base units, a word for enums and booleans.

    A setting that the server computed from an automatic default (`wal_buffers = -1` shows its computed size) stands
    at that default: keeping the computed number would freeze what follows other settings.
    """
    if fact.vartype not in ("integer", "real"):
        return fact.setting
    automatic = automatic_value(fact)
    if automatic is not None and automatic in special:
        return _typed(automatic, fact)
    return _typed(number_of(fact), fact)


def automatic_value(fact: SettingFact) -> float | None:
    """Return the special default (-1 or 0) that the server replaced by a computed value; None when it did not.

    PostgreSQL 13 and 14 give such a setting the source `override`, newer ones `default`.
    """
    return _automatic(fact.setting, fact.boot_val, fact.context, fact.source)


@lru_cache(_REMEMBERED)
def _automatic(setting: str, boot_val: str | None, context: str, source: str) -> float | None:
    if boot_val is None or context == "internal" or source not in ("default", "override"):
        return None
    boot = float(boot_val)
    return boot if boot in (-1.0, 0.0) and boot != parse_quantity(setting, None) else None


def _typed(number: float, fact: SettingFact) -> Value:
    return int(number) if fact.vartype == "integer" else number


def effective_number(name: str, configuration: Mapping[str, str], facts: Facts) -> float | None:
    """Return a numeric setting in base units; None when the server does not have it.

    An automatic setting that the configuration leaves alone comes back as its special value (-1 or 0), because its
    computed size would change with the configuration.
    """
    fact = facts.row(name)
    return None if fact is None else _number(fact, configuration.get(name))


def _number(fact: SettingFact, text: str | None) -> float:
    if text is not None:
        return parse_quantity(text, fact.unit)
    automatic = automatic_value(fact)
    return number_of(fact) if automatic is None else automatic


def effective_bytes(name: str, configuration: Mapping[str, str], facts: Facts) -> float | None:
    """Return a setting in bytes; negative values (-1) come back as they are."""
    fact = facts.row(name)
    if fact is None:
        return None
    number = _number(fact, configuration.get(name))
    return number if number < 0 else _scaled(number, fact.unit)


@lru_cache(_REMEMBERED)
def _scaled(number: float, unit: str | None) -> float:
    return Quantity.of_setting(number, unit).value


def effective_text(name: str, configuration: Mapping[str, str], facts: Facts) -> str:
    """Return a numeric setting as people write it, for messages."""
    fact = facts.row(name)
    return "unset" if fact is None else format_quantity(_number(fact, configuration.get(name)), fact.unit)
