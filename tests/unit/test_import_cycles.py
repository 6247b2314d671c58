"""No module of the package needs itself, by whatever way: imports in functions and for types alone count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

OF_A_FIELD = ("pgdyno.targets.target", "pgdyno.remote.host")
"""The host of a target is an agent's, which opens targets: the type of one field, and nothing that is run."""
PACKAGE = Path(__file__).parents[2] / "src" / "pgdyno"


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(within: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands below a node but for expressions, which are most of a tree and import nothing."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(within, name, ())
        for node in below if isinstance(below, list) else ():  # a lambda and a conditional have an expression there
            yield node
            yield from statements(node)


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports: `from a import b` is of a.b where that is a module, else of a."""
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = (f"{node.module}.{one.name}" for one in node.names)
            yield from (name if name in known else node.module for name in names)


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    graph = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    graph[OF_A_FIELD[0]].remove(OF_A_FIELD[1])
    assert len(graph) > 1000
    assert sum(map(len, graph.values())) > 5000
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
