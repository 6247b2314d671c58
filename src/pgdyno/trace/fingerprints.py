"""Statements by libpg_query, which this module alone imports: fingerprints, and what a parse tree holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from pgdyno.errors import EnvironmentUnsuitable

T = TypeVar("T")
Message: TypeAlias = Any
"""One of protobuf, which have no types: a part of a parse tree."""
LONGEST = 1 << 20
"""Characters: a longer text has no fingerprint, and is judged by its words."""
DEEPEST = 4000
"""Operators and brackets: libpg_query walks its trees by recursion."""
CACHED = 20_000
_OWN_PARAMETERS = ("PrepareStmt", "CreateFunctionStmt")
"""Statements whose `$1` is not bound when they run."""


@dataclass(frozen=True, slots=True)
class ParseTree:
    """What matters of a parse tree."""

    nodes: frozenset[str] = frozenset()
    """Names of its nodes, such as `AlterSystemStmt`."""
    functions: frozenset[str] = frozenset()
    """Names of the functions that it calls, without their schemas."""
    objects: frozenset[str] = frozenset()
    """Kinds of objects that are renamed, dropped or given away, such as `OBJECT_ROLE`."""
    copies: tuple[tuple[bool, bool, str], ...] = ()
    """Of each COPY: whether from, whether a program, the file."""
    bodies: tuple[str, ...] = ()
    """Texts of DO blocks and functions."""


def check_parser() -> None:
    """Raise EnvironmentUnsuitable where libpg_query is not installed."""
    _library()


@lru_cache(maxsize=CACHED)
def fingerprint(text: str) -> str | None:
    """Return the fingerprint of a text as 16 hexadecimal digits; None where it does not parse. Cached by text."""
    return _asked(text, lambda library: str(library.fingerprint(text).hex))


def normalized(text: str) -> str | None:
    """Return a text with $1, $2 ... for its constants, so that it shows no values; None where it does not parse."""
    return _asked(text, lambda library: str(library.normalize(text)))


def _asked(text: str, ask: Callable[[Any], str]) -> str | None:
    if not _may_parse(text):
        return None
    library = _library()
    try:
        return ask(library)
    except (library.PgQueryError, UnicodeError, ValueError):
        return None


def takes_values(text: str) -> bool:
    """Tell whether a text has parameters that were bound when it ran; of one that does not parse in doubt it had."""
    nodes = of_tree(text, lambda found, walk: {type(node).__name__ for _, node in walk(found)})
    return nodes is None or ("ParamRef" in nodes and nodes.isdisjoint(_OWN_PARAMETERS))


def tree(text: str) -> ParseTree | None:
    """Return what matters of the parse tree of a text of any number of statements; None where it does not parse."""
    return of_tree(text, _tree)


def of_tree(text: str, look: Callable[[Message, Callable[[Message], Message]], T]) -> T | None:
    """Return what `look` finds in the parse tree, given with a walker of its nodes; None where the text has none."""
    if not _may_parse(text):
        return None
    library = _library()
    try:
        return look(library.parse(text), library.walk)
    except (library.PgQueryError, UnicodeError, ValueError, RecursionError):
        return None
    except Exception as error:
        if type(error).__name__ == "DecodeError":  # of protobuf, for a tree deeper than it reads
            return None
        raise


def _tree(found: Message, walk: Callable[[Message], Message]) -> ParseTree:
    nodes, functions, objects = set[str](), set[str](), set[str]()
    copies, bodies = list[tuple[bool, bool, str]](), list[str]()
    for _, node in walk(found):
        name = type(node).__name__
        nodes.add(name)
        if name == "FuncCall" and node.funcname:
            functions.add(node.funcname[-1].string.sval.lower())
        elif name == "CopyStmt":
            copies.append((bool(node.is_from), bool(node.is_program), str(node.filename)))
        elif name in ("RenameStmt", "AlterOwnerStmt", "DropStmt"):
            asked = {"RenameStmt": "rename_type", "AlterOwnerStmt": "object_type", "DropStmt": "remove_type"}[name]
            field = node.DESCRIPTOR.fields_by_name[asked]
            objects.add(field.enum_type.values_by_number[getattr(node, asked)].name)
        elif name in ("DoStmt", "CreateFunctionStmt"):
            bodies.extend(str(inner.sval) for _, inner in walk(node) if type(inner).__name__ == "String")
    return ParseTree(frozenset(nodes), frozenset(functions), frozenset(objects), tuple(copies), tuple(bodies))


def _may_parse(text: str) -> bool:
    if len(text) > LONGEST or "\0" in text:
        return False
    return len(text) < DEEPEST or sum(map(text.count, "+-*/|(")) + text.lower().count(" and ") < DEEPEST


@lru_cache(maxsize=1)
def _library() -> Any:  # noqa: ANN401 - a module
    try:
        import postgast
    except ImportError as error:
        hint = "Install it: pip install 'pgdyno[replay]'."
        raise EnvironmentUnsuitable("replay needs postgast", hint=hint) from error
    return postgast


def without_values(text: str) -> str:
    """Return a text whose constants are $1, $2 ..., without comments; of one that keeps some, its first words alone."""
    if (found := normalized(text)) is None:
        return f"<{len(text)} characters that do not parse>"
    found = _COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else " ", found)
    return f"{' '.join(found.split()[:2])} <removed>" if _CONSTANT.search(found) else found


_COMMENT = re.compile(r'"(?:[^"]|"")*"|/\*.*?\*/|--[^\n]*', re.DOTALL)
_CONSTANT = re.compile(r"'|\$[A-Za-z_]*\$")
