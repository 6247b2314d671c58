"""What only the night runs is listed in tests/README.md, each with the test of every push that stands in for it."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def marks() -> list[tuple[Path, str, str]]:
    """Return file, test and stand-in of each `pytest.mark.night("file::test")`, on a test or on one of its cases."""
    found = []
    for path in TESTS.rglob("test_*.py"):
        if "mark.night" not in (text := path.read_text()):
            continue
        for test in ast.walk(ast.parse(text)):
            if isinstance(test, ast.FunctionDef):
                for node in (node for one in test.decorator_list for node in ast.walk(one)):
                    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.night":
                        found.append((path, test.name, _text(node.args[0], text)))
    return found


def _text(node: ast.expr, text: str) -> str:
    """Return a literal, or what the file's constant of this name is."""
    if isinstance(node, ast.Name):
        (node,) = [one.value for one in ast.parse(text).body if isinstance(one, ast.Assign)
                   and ast.unparse(one.targets[0]) == node.id]  # fmt: skip
    return str(ast.literal_eval(node))


def test_each_has_a_stand_in_that_is_there() -> None:
    found = marks()
    assert found
    for path, test, stand_in in found:
        file, _, name = stand_in.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text(), (path, test, stand_in)


def test_the_list_names_every_one_of_them() -> None:
    rows = [line for line in (TESTS / "README.md").read_text().splitlines() if line.startswith("| `test_")]
    for path, test, stand_in in marks():
        mine = [row for row in rows if f"`{path.name}`" in row.split("|")[1] and f"`{test}`" in row.split("|")[1]]
        assert mine, f"tests/README.md does not list {path.name} {test}"
        assert any(f"`{stand_in.partition('::')[2]}`" in row.split("|")[2] for row in mine), (test, stand_in)
