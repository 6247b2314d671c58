"""Which rows a statement touches, as far as its text says: tables, and equalities with a value. Pure.

A function may touch what it likes, and a view is a table of its own here: both are blind spots of an order by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pgdyno.trace.fingerprints import CACHED, Message, of_tree

_WRITES = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "LockingClause"})
"""Within a SELECT."""


@dataclass(frozen=True, slots=True)
class Equality:
    """A column that equals a value: that of a parameter by its number from 1, or of a constant."""

    column: str
    parameter: int | None = None
    constant: str = ""

    def value(self, params: list[str | None] | None) -> str | None:
        """Return the value as text; None for NULL, or where it is not known."""
        if self.parameter is None:
            return self.constant
        return params[self.parameter - 1] if params is not None and self.parameter <= len(params) else None


@dataclass(frozen=True, slots=True)
class Touch:
    """A table that a statement reads or writes; with `equal` only rows of which all of these hold."""

    table: str
    writes: bool
    inserts: bool = False
    equal: tuple[Equality, ...] = ()


@lru_cache(maxsize=CACHED)
def touches(sql: str) -> tuple[Touch, ...]:
    """Return what a text touches; nothing where it does not parse. Cached by text."""
    return of_tree(sql, _touches) or ()


def _touches(found: Message, walk: Callable[[Message], Message]) -> tuple[Touch, ...]:
    return tuple(touch for one in found.stmts for touch in _of_statement(one.stmt, walk))


def _of_statement(node: Message, walk: Callable[[Message], Message]) -> Iterator[Touch]:
    kind = node.WhichOneof("node")
    if kind in ("copy_stmt", "explain_stmt", "prepare_stmt", "execute_stmt"):  # refused, or without effect of its own
        return
    inner = [one for _, one in walk(node)]
    tables = [_name(one) for one in inner if type(one).__name__ == "RangeVar"]
    writes = kind != "select_stmt" or any(type(one).__name__ in _WRITES for one in inner)
    subject = getattr(node, kind) if kind else None
    if len(tables) == 1 and subject is not None:
        if kind in ("update_stmt", "delete_stmt"):
            yield Touch(tables[0], writes=True, equal=_equalities(subject.where_clause))
            return
        if kind == "select_stmt":
            yield Touch(tables[0], writes=writes, equal=_equalities(subject.where_clause))
            return
        if kind == "insert_stmt":
            yield Touch(tables[0], writes=True, inserts=True, equal=_inserted(subject))
            return
    for table in dict.fromkeys(tables):
        yield Touch(table, writes=writes)


def _name(table: Message) -> str:
    return str(table.relname)  # the schema is that of a search path as often as not


def _equalities(clause: Message) -> tuple[Equality, ...]:
    """Return the equalities that all hold: of a condition, or of those that AND joins."""
    kind = clause.WhichOneof("node")
    if kind == "bool_expr" and clause.bool_expr.boolop == 1:
        return tuple(one for part in clause.bool_expr.args for one in _equalities(part))
    if kind != "a_expr" or [part.string.sval for part in clause.a_expr.name] != ["="]:
        return ()
    left, right = clause.a_expr.lexpr, clause.a_expr.rexpr
    for column, value in ((left, right), (right, left)):
        if column.WhichOneof("node") == "column_ref":
            found = _equal(str(column.column_ref.fields[-1].string.sval), value)
            return () if found is None else (found,)
    return ()


def _inserted(insert: Message) -> tuple[Equality, ...]:
    """Return the values of the one row that is inserted, where its columns are named."""
    rows = insert.select_stmt.select_stmt.values_lists
    if len(rows) != 1:
        return ()
    pairs = zip((one.res_target.name for one in insert.cols), rows[0].list.items, strict=False)
    return tuple(found for column, value in pairs if (found := _equal(str(column), value)) is not None)


def _equal(column: str, value: Message) -> Equality | None:
    kind = value.WhichOneof("node")
    if kind == "type_cast":
        return _equal(column, value.type_cast.arg)
    if kind == "param_ref":
        return Equality(column, parameter=int(value.param_ref.number))
    if kind != "a_const":
        return None
    which = value.a_const.WhichOneof("val")
    if which == "ival":
        return Equality(column, constant=str(value.a_const.ival.ival))
    if which == "sval":
        return Equality(column, constant=str(value.a_const.sval.sval))
    if which == "fval":
        return Equality(column, constant=str(value.a_const.fval.fval))
    return None
