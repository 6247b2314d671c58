"""One meaning a name: no two public classes of the package are called the same."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pgdyno


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    root = Path(pgdyno.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(root)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
