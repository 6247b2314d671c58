"""Conditions and values of rule files, such as `setting("max_wal_size") < bytes("4GB") and major <= 13`. Pure.

Python's grammar, a small part of it: `and or not`, comparisons, `in`, `+ - * /`, numbers, text, lists, and calls of the
functions of `vocabulary.FUNCTIONS`. Anything else is refused when the file is read, so that a rule file of a stranger
can compute but not act. A fact that is unknown raises Missing, unless the other side of an `and` or `or` decides.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from pgdyno.advisor import vocabulary
from pgdyno.advisor.case import Case, Missing
from pgdyno.errors import UsageError

_COMPARE: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: lambda a, b: _number(a) < _number(b),
    ast.LtE: lambda a, b: _number(a) <= _number(b),
    ast.Gt: lambda a, b: _number(a) > _number(b),
    ast.GtE: lambda a, b: _number(a) >= _number(b),
    ast.In: lambda a, b: a in _collection(b),
    ast.NotIn: lambda a, b: a not in _collection(b),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed expression; `text` is what the rule file says."""

    FORM: ClassVar = str
    text: str
    root: ast.expr

    @classmethod
    def of_form(cls, form: str) -> Formula:
        """Return what a rule file says. Errors as those of `parse_formula`."""
        return parse_formula(form)

    def value(self, case: Case) -> object:
        """Return its value. Raises Missing on an unknown fact, UsageError where kinds do not fit."""
        try:
            return _evaluate(self.root, case)
        except (TypeError, ZeroDivisionError) as error:
            raise UsageError(f'rule expression "{self.text}": {error}') from error

    def holds(self, case: Case) -> bool:
        """Return its truth. Raises Missing."""
        return bool(self.value(case))


def parse_formula(text: str) -> Formula:
    """Parse an expression. Raises UsageError that names what it may not contain."""
    try:
        root = ast.parse(" ".join(text.split()), mode="eval").body
        problem = next(_problems(root), None)
    except (SyntaxError, ValueError) as error:  # a null byte is a ValueError
        raise UsageError(f'rule expression "{text}": {getattr(error, "msg", error)}') from error
    except (RecursionError, MemoryError) as error:
        raise UsageError(f'rule expression "{text[:40]}...": it is nested too deeply') from error
    if problem is not None:
        raise UsageError(f'rule expression "{text}": {problem}')
    return Formula(text, root)


def _problems(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.BoolOp(values=values):
            children: list[ast.expr] = values
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            children = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            children = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(one) in _COMPARE for one in ops):
            children = [left, *others]
        case ast.List(elts=children) | ast.Tuple(elts=children):
            pass
        case ast.Constant(value=str() | int() | float()):
            children = []
        case ast.Name(id=name):
            children = []
            if name not in vocabulary.FACTS:
                yield f'there is no fact "{name}"'
        case ast.Call(func=ast.Name(id=name), args=children, keywords=[]):
            if name not in vocabulary.FUNCTIONS:
                yield f'there is no function "{name}"'
        case _:
            children = []
            yield f'"{ast.unparse(node)}" is not part of the language'
    for child in children:
        yield from _problems(child)


def _evaluate(node: ast.expr, case: Case) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return vocabulary.FACTS[name](case)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return vocabulary.FUNCTIONS[name](case, *(_evaluate(argument, case) for argument in arguments))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return tuple(_evaluate(element, case) for element in elements)
        case ast.BoolOp(op=op, values=values):
            return _decide(values, case, decisive=isinstance(op, ast.Or))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, case)
        case ast.UnaryOp(operand=operand):
            return -_number(_evaluate(operand, case))
        case ast.BinOp(left=left, op=arithmetic, right=right):
            return _ARITHMETIC[type(arithmetic)](_number(_evaluate(left, case)), _number(_evaluate(right, case)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_evaluate(side, case) for side in (left, *others)]
            return all(_COMPARE[type(one)](a, b) for one, a, b in zip(ops, sides, sides[1:], strict=False))
        case _:  # refused when it was parsed
            raise UsageError(f'"{ast.unparse(node)}" is not part of the language')


def _decide(values: list[ast.expr], case: Case, *, decisive: bool) -> bool:
    """Kleene's logic: one decisive side decides, whatever is unknown beside it."""
    missing: Missing | None = None
    for value in values:
        try:
            if bool(_evaluate(value, case)) is decisive:
                return decisive
        except Missing as error:
            missing = missing or error
    if missing is not None:
        raise missing
    return not decisive


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def _collection(value: object) -> tuple[object, ...] | frozenset[object]:
    if not isinstance(value, tuple | frozenset):
        raise TypeError(f"{value!r} is not a list")
    return value
