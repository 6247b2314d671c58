"""What a text says of keys: values that a column is compared with or given, rows it inserts and what it returns. Pure.

A value within an array, an expression or a function's call is seen to be counted; what a function does is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from pgdyno.trace.fingerprints import CACHED, Message, of_tree

LONGEST = 16_384
"""Characters: of a list of 200,000 values each would be a place of its own, in each execution."""
_OPERATOR, _ANY, _ALL, _IN = 1, 2, 3, 7
_COMPOSED = frozenset({"a_array_expr", "a_expr", "func_call", "coalesce_expr", "case_expr", "min_max_expr"})
"""What has values within, none of which is the column's by itself; of a query within, its own comparisons tell."""
_COMPARED = frozenset({"=", "<>", "<", ">", "<=", ">="})
ALL = "*"
"""Instead of a column that is returned: all of the table."""


class Within(StrEnum):
    """Where a value stands that is not one by itself."""

    ARRAY = "in arrays"
    EXPRESSION = "in expressions"


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a column of one of `tables` is compared with or given: a parameter, by its number, or a constant."""

    tables: tuple[str, ...]
    column: str
    parameter: int | None = None
    constant: str = ""
    at: int = 0
    """Of the constant's first byte in the text, after its quote."""
    is_number: bool = False
    within: Within | None = None
    """It cannot be replaced there, and stays as captured; an array may be one parameter or constant of several."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """An INSERT: its table, how many rows it makes (None: the text does not say), and the names that it returns."""

    table: str
    rows: int | None
    returned: tuple[str | None, ...]
    """Columns, `ALL` for all of the table, None for anything else."""


@dataclass(frozen=True, slots=True)
class KeyText:
    """What a text says of keys."""

    mentions: tuple[Mention, ...] = ()
    inserts: tuple[Insertion, ...] = ()
    is_single: bool = True
    """It is one statement, and an INSERT is the whole of it."""
    is_unread: bool = False
    """It is longer than `LONGEST`, or does not parse: what it says of keys is not known."""


_UNREAD = KeyText(is_unread=True)


@lru_cache(maxsize=CACHED)
def key_text(sql: str, columns: frozenset[tuple[str, tuple[str, ...]]] = frozenset()) -> KeyText:
    """Return what a text says; `columns` are those of tables in their order. Cached by text."""
    if len(sql) > LONGEST:
        return _UNREAD
    known = dict(columns)
    return of_tree(sql, lambda found, walk: _read(found, walk, sql.encode(), known)) or _UNREAD


def _read(
    found: Message, walk: Callable[[Message], Message], text: bytes, columns: Mapping[str, tuple[str, ...]]
) -> KeyText:
    mentions, inserts = list[Mention](), list[Insertion]()
    is_single = len(found.stmts) == 1 and found.stmts[0].stmt.WhichOneof("node") == "insert_stmt"
    for one in found.stmts:
        nodes = [node for _, node in walk(one.stmt)]
        scope = _Scope(nodes, text, walk)
        for node in nodes:
            kind = type(node).__name__
            if kind == "A_Expr":
                mentions.extend(scope.compared(node))
            elif kind == "InsertStmt":
                inserts.append(_insertion(node))
                mentions.extend(scope.inserted(node, columns))
            elif kind == "UpdateStmt":
                table = (str(node.relation.relname),)
                for target in node.target_list:
                    mentions.extend(scope.valued(table, str(target.res_target.name), target.res_target.val))
    return KeyText(tuple(mentions), tuple(inserts), is_single and len(inserts) == 1)


def _insertion(node: Message) -> Insertion:
    lists = node.select_stmt.select_stmt.values_lists
    is_plain = not node.HasField("on_conflict_clause")
    rows = len(lists) if lists else None if node.HasField("select_stmt") else 1
    returned = tuple(_returned(one.res_target.val) for one in node.returning_clause.exprs)
    return Insertion(str(node.relation.relname), rows if is_plain else None, returned)


def _returned(value: Message) -> str | None:
    if value.WhichOneof("node") != "column_ref":
        return None
    last = value.column_ref.fields[-1]
    return ALL if last.WhichOneof("node") == "a_star" else str(last.string.sval)


class _Scope:
    """The tables of a statement, by the names that its columns are written with."""

    def __init__(self, nodes: list[Message], text: bytes, walk: Callable[[Message], Message]) -> None:
        self._text, self._walk = text, walk
        self._named = dict[str, set[str]]()
        for node in nodes:
            if type(node).__name__ == "RangeVar":
                name = str(node.alias.aliasname) or str(node.relname)
                self._named.setdefault(name, set()).add(str(node.relname))
        self._all = tuple(sorted(set().union(*self._named.values())))

    def compared(self, node: Message) -> Iterator[Mention]:
        """Give the values of a comparison."""
        is_compared = len(node.name) == 1 and node.name[0].string.sval in _COMPARED
        if not is_compared or node.kind not in (_OPERATOR, _ANY, _ALL, _IN):
            return
        for column, value in ((node.lexpr, node.rexpr), (node.rexpr, node.lexpr)):
            if column.WhichOneof("node") == "column_ref":
                tables, name = self._column(column.column_ref)
                values = value.list.items if value.WhichOneof("node") == "list" else [value]
                for one in values if tables else ():
                    found = self.valued(tables, name, one)
                    is_array = node.kind in (_ANY, _ALL)
                    yield from (replace(it, within=Within.ARRAY) if is_array else it for it in found)

    def inserted(self, node: Message, columns: Mapping[str, tuple[str, ...]]) -> Iterator[Mention]:
        """Give the values of the rows that are inserted."""
        table = str(node.relation.relname)
        names = [str(one.res_target.name) for one in node.cols] or columns.get(table, ())
        for row in node.select_stmt.select_stmt.values_lists:
            for name, value in zip(names, row.list.items, strict=False):
                yield from self.valued((table,), name, value)

    def valued(self, tables: tuple[str, ...], column: str, value: Message) -> Iterator[Mention]:
        """Give a value, where it is a parameter or a constant as it stands in the text."""
        kind = value.WhichOneof("node")
        if kind == "type_cast":
            yield from self.valued(tables, column, value.type_cast.arg)
        elif kind == "param_ref":
            yield Mention(tables, column, parameter=int(value.param_ref.number))
        elif kind == "a_const":
            constant = value.a_const
            which, at = constant.WhichOneof("val"), int(constant.location)
            is_number = which in ("ival", "fval")
            if which == "sval":
                found, at = str(constant.sval.sval), at + 1
            else:
                found = str(constant.ival.ival if which == "ival" else constant.fval.fval)
            end = at + len(found.encode())
            is_there = self._text[at:end] == found.encode()
            if found and is_there and (is_number or self._text[at - 1 : at] == self._text[end : end + 1] == b"'"):
                yield Mention(tables, column, constant=found, at=at, is_number=is_number)
        elif kind in _COMPOSED:
            within = Within.ARRAY if kind == "a_array_expr" else Within.EXPRESSION
            for _, node in self._walk(getattr(value, kind)):
                yield from self._within(tables, column, node, within)

    def _within(self, tables: tuple[str, ...], column: str, node: Message, within: Within) -> Iterator[Mention]:
        name = type(node).__name__
        if name == "ParamRef":
            yield Mention(tables, column, parameter=int(node.number), within=within)
        elif name == "A_Const" and (which := node.WhichOneof("val")) in ("ival", "fval", "sval"):
            constant = {"ival": node.ival.ival, "fval": node.fval.fval, "sval": node.sval.sval}[which]
            yield Mention(tables, column, constant=str(constant), within=within)

    def _column(self, column: Message) -> tuple[tuple[str, ...], str]:
        last = column.fields[-1]
        name = str(last.string.sval)
        if last.WhichOneof("node") != "string" or len(column.fields) == 1:
            return self._all, name
        return tuple(sorted(self._named.get(str(column.fields[-2].string.sval), ()))), name
