"""Range expressions of the catalogue, such as `min(25% of ram, 8GB)`: a small language over facts, safe by design.

Pure. Grammar: numbers, quantities as PostgreSQL writes them (`128MB`, `5min`), names, `N% of` a value, `+ - * /`,
`min(...)`, `max(...)`, parentheses. Values carry their kind (number, bytes or time), so that `ram + 5min` is an error
and not a range. A name whose fact is unknown makes the whole expression unknown, with that reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pgdyno.errors import UsageError
from pgdyno.model.facts import Unknown
from pgdyno.units import BYTES, MICROSECONDS, split_unit

QuantityKind = Literal["number", "bytes", "time"]
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)?|(?P<name>[A-Za-z_]\w*)|(?P<mark>[-+*/%(),]))")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with its kind: a bare number, bytes, or microseconds."""

    value: float
    kind: QuantityKind = "number"

    def in_units(self, unit: str | None) -> float:
        """Return the number of base units (`pg_settings.unit`); a bare number counts base units already."""
        if self.kind == "number":
            return self.value
        if unit is None:
            raise UsageError(f"a value in {self.kind} was given to a setting without a unit")
        multiplier, name = split_unit(unit)
        table = BYTES if self.kind == "bytes" else MICROSECONDS
        if name not in table:
            raise UsageError(f'a value in {self.kind} was given to a setting in "{unit}"')
        return self.value / (multiplier * table[name])

    @classmethod
    def of_setting(cls, value: float, unit: str | None) -> Quantity:
        """Make one from a setting's number of base units."""
        if unit is None:
            return cls(value)
        multiplier, name = split_unit(unit)
        if name in BYTES:
            return cls(value * multiplier * BYTES[name], "bytes")
        return cls(value * multiplier * MICROSECONDS[name], "time")


Answer = Quantity | Unknown
Lookup = Callable[[str], Answer]
_Node = Callable[[Lookup], Answer]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed range expression; `text` is what the catalogue says, `names` the facts that it needs."""

    text: str
    root: _Node
    names: frozenset[str]

    def evaluate(self, lookup: Lookup) -> Answer:
        """Return the value, or why it is unknown; raises UsageError where kinds do not fit or a divisor is 0."""
        try:
            return self.root(lookup)
        except UsageError as error:
            raise UsageError(f'range expression "{self.text}": {error.message}') from error


def parse(text: str) -> Expression:
    """Parse an expression; raises UsageError that names the place where it stops making sense."""
    parser = _Parser(text)
    root = parser.sum()
    if parser.peek() is not None:
        raise parser.error(f'unexpected "{parser.peek()}"')
    return Expression(text, root, frozenset(parser.names))


class _Parser:
    """A recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text, self.names = text, set[str]()
        self._tokens = list(_tokens(text))
        self._at = 0

    def error(self, problem: str) -> UsageError:
        return UsageError(f'range expression "{self._text}": {problem}')

    def peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        token = self.peek()
        if token is None or (wanted and token not in wanted):
            return None
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise self.error(f'expected "{wanted}", found "{self.peek() or "the end"}"')

    def sum(self) -> _Node:
        node = self._product()
        while operator := self._take("+", "-"):
            node = _called(operator, node, self._product())
        return node

    def _product(self) -> _Node:
        node = self._value()
        while operator := self._take("*", "/"):
            node = _called(operator, node, self._value())
        return node

    def _value(self) -> _Node:
        word = self._take()
        if word is None:
            raise self.error("ends where a value is missing")
        if word == "(":
            node = self.sum()
            self._expect(")")
            return node
        if word in ("min", "max"):
            return _called(word, *self._arguments())
        if word[0].isdigit():
            return self._literal(word)
        if not word.isidentifier():
            raise self.error(f'unexpected "{word}"')
        self.names.add(word)
        return lambda lookup: lookup(word)

    def _arguments(self) -> list[_Node]:
        self._expect("(")
        arguments = [self.sum()]
        while self._take(","):
            arguments.append(self.sum())
        self._expect(")")
        return arguments

    def _literal(self, token: str) -> _Node:
        digits = token.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        unit = token[len(digits) :]
        if unit and unit not in BYTES and unit not in MICROSECONDS:
            raise self.error(f'unit "{unit}" is not one of PostgreSQL')
        quantity = Quantity.of_setting(float(digits), unit or None)
        if self._take("%") is None:
            return lambda _: quantity
        self._expect("of")
        return _called("*", lambda _: Quantity(float(digits) / 100), self._value())


def _tokens(text: str) -> Iterator[str]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f'range expression "{text}": unexpected "{text[at:].strip()[:1]}"')
        at = match.end()
        yield match.group(0).strip()


def _called(function: str, *arguments: _Node) -> _Node:
    """Return an operator or function (`+`, `min` ...) of its arguments; it asks for no more after an unknown one."""

    def evaluate(lookup: Lookup) -> Answer:
        values: list[Quantity] = []
        for argument in arguments:
            value = argument(lookup)
            if isinstance(value, Unknown):
                return value
            values.append(value)
        return _apply(function, values)

    return evaluate


def _apply(function: str, values: list[Quantity]) -> Quantity:
    first, kinds = values[0], {value.kind for value in values}
    if function in ("*", "/"):
        return _scale(function, first, values[1])
    if len(kinds) > 1:
        raise UsageError(f'"{function}" of {" and ".join(sorted(kinds))}')
    numbers = [value.value for value in values]
    if function in ("min", "max"):
        return Quantity(min(numbers) if function == "min" else max(numbers), first.kind)
    return Quantity(numbers[0] + numbers[1] if function == "+" else numbers[0] - numbers[1], first.kind)


def _scale(function: str, a: Quantity, b: Quantity) -> Quantity:
    if function == "*":
        if "number" not in (a.kind, b.kind):
            raise UsageError(f"{a.kind} times {b.kind}")
        return Quantity(a.value * b.value, b.kind if a.kind == "number" else a.kind)
    if b.value == 0:
        raise UsageError("division by 0")
    if b.kind == "number":
        return Quantity(a.value / b.value, a.kind)
    if a.kind != b.kind:
        raise UsageError(f"{a.kind} divided by {b.kind}")
    return Quantity(a.value / b.value)
