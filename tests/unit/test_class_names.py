"""One meaning a name: no two public classes of the package are called the same."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pgdyno

CLASS = re.compile(r"^[ \t]*class ([^\W_]\w*)[(:\[]", re.MULTILINE)
"""In an example of a docstring, too: the tree tells, of the few files with a name that another one has."""


def classes(path: Path) -> list[str]:
    """Return the names of the classes of a module, each as often as it is defined."""
    return [node.name for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.ClassDef)]


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[Path]] = defaultdict(list)
    for path in Path(pgdyno.__file__).parent.rglob("*.py"):
        for name in CLASS.findall(path.read_text("utf-8")):
            places[name].append(path)
    assert len(places) > 1000
    twice = {
        name: [path for path in set(found) for one in classes(path) if one == name]
        for name, found in places.items()
        if len(found) > 1
    }
    assert {name: found for name, found in twice.items() if len(found) > 1} == {}
