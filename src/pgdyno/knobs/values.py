"""Values of settings: check one against the running server and write it in the canonical spelling.

Context, unit, bounds and words come from `pg_settings` of the server, never from a table.
"""

from __future__ import annotations

from pgdyno.errors import UsageError
from pgdyno.model.facts import SettingFact
from pgdyno.units import format_quantity, parse_quantity

_TRUE, _FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def canonical_text(fact: SettingFact, value: str) -> str:
    """Return a value in the one spelling that pgdyno uses; raises UsageError when the server would not take it."""
    if fact.context == "internal":
        raise UsageError(
            f'knob "{fact.name}" cannot be changed: it is fixed when the server is built or initialised',
            hint="Leave it out; pgdyno knobs list has those that can be tuned.",
        )
    value = value.strip()
    if fact.vartype == "bool":
        return _boolean(fact, value)
    if fact.vartype == "enum":
        return _word(fact, value)
    if fact.vartype in ("integer", "real"):
        return setting_text(fact, _number(fact, value))
    return value


def setting_text(fact: SettingFact, number: float) -> str:
    """Write a number of base units as PostgreSQL's SHOW does; the kernel knows no units and gets the bare number."""
    return format_quantity(number, None if fact.context == "kernel" else fact.unit)


def number_of(fact: SettingFact) -> float:
    """Return a numeric setting's current value in base units."""
    return parse_quantity(fact.setting, None)


def bounds(fact: SettingFact) -> tuple[float, float]:
    """Return the server's own minimum and maximum, in base units; infinite where it names none."""
    low = float(fact.min_val) if fact.min_val is not None else float("-inf")
    high = float(fact.max_val) if fact.max_val is not None else float("inf")
    return low, high


def _boolean(fact: SettingFact, value: str) -> str:
    # PostgreSQL takes any unique prefix of these words: "o" alone could be on or off.
    text = value.casefold()
    spellings = [(word, "on") for word in _TRUE] + [(word, "off") for word in _FALSE]
    matches = {answer for word, answer in spellings if text and word.startswith(text)}
    if len(matches) != 1:
        raise UsageError(f'knob "{fact.name}": "{value}" is not a boolean', hint="Write on or off.")
    return matches.pop()


def _word(fact: SettingFact, value: str) -> str:
    text = value.casefold()
    for word in fact.enumvals:
        if word.casefold() == text:
            return word
    for answer, spellings in (("on", _TRUE), ("off", _FALSE)):
        if text in spellings and answer in fact.enumvals:
            return answer
    allowed = ", ".join(fact.enumvals)
    raise UsageError(f'knob "{fact.name}": "{value}" is not one of {allowed}', hint="Write one of the words listed.")


def _number(fact: SettingFact, value: str) -> float:
    try:
        number = parse_quantity(value, fact.unit)
    except UsageError as error:
        raise UsageError(f'knob "{fact.name}": {error.message}', hint=error.hint) from error
    if fact.vartype == "integer":
        number = round(number)  # half to even, as the server rounds a value finer than the unit
    low, high = bounds(fact)
    if not low <= number <= high:
        raise UsageError(
            f'knob "{fact.name}": {_text(number, fact)} is outside of this server\'s range '
            f"{_text(low, fact)} to {_text(high, fact)}",
            hint="Choose a value inside of the range.",
        )
    return number


def _text(number: float, fact: SettingFact) -> str:
    return f"{number:g}" if abs(number) > 2**53 else format_quantity(number, fact.unit)
