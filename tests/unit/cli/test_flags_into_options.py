"""What flags give to the options of a study by name has the type that the options declare."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import pgdyno.cli
from pgdyno.cli.arguments.flags import Flags, flag

CLI = Path(pgdyno.cli.__path__[0])
MODULES = sorted(
    "pgdyno.cli." + ".".join(path.relative_to(CLI).with_suffix("").parts)
    for path in CLI.rglob("*.py")
    if path.stem != "__init__"
)


class StepFlags(Flags):
    steps: int = flag("Steps.", default=3)
    words: tuple[str, ...] = flag("Words.", "--word")
    rest: bool = flag("Not of the options.")


@dataclass(frozen=True)
class StepOptions:
    steps: int
    words: tuple[str, ...]
    seed: int = 1


def test_options_take_the_flags_of_their_names_and_what_else_is_said() -> None:
    flags = StepFlags(steps=4, words=("a",), rest=True)
    assert flags.into(StepOptions) == StepOptions(4, ("a",), 1)
    assert flags.into(StepOptions, steps=5, seed=7) == StepOptions(5, ("a",), 7)


def given() -> Iterator[tuple[type[Flags], Any, set[str]]]:
    """Yield each class of flags, the options made of it, and the fields that its verb says itself."""
    for module in map(import_module, MODULES):
        text = Path(str(module.__file__)).read_text("utf-8")
        tree = ast.parse(text if ".into(" in text else "")  # as each worker does before the first test
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "into":
                    names = {one.arg: one.annotation for one in function.args.args}
                    declared = names[ast.unparse(call.func.value)]
                    assert declared is not None
                    kind = getattr(module, ast.unparse(declared))
                    said = {str(one.arg) for one in call.keywords}
                    for flags in (kind, *heirs(kind)):
                        yield flags, imported(tree, ast.unparse(call.args[0]), module), said


def heirs(kind: type[Flags]) -> Iterator[type[Flags]]:
    for one in kind.__subclasses__():
        yield one
        yield from heirs(one)


def imported(tree: ast.Module, name: str, module: ModuleType) -> Any:
    """Return what a module knows by a name; options are often imported in the function that needs them."""
    sources = (
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names)
    )
    return getattr(module, name, None) or getattr(import_module(str(next(sources))), name)


@pytest.mark.parametrize(
    ("flags", "options", "said"),
    [pytest.param(*one, id=f"{one[0].__module__}-{one[0].__name__}-{one[1].__name__}") for one in given()],
)
def test_a_flag_has_the_type_of_the_field_that_takes_it(flags: type[Flags], options: Any, said: set[str]) -> None:
    types, wanted = get_type_hints(flags), get_type_hints(options)
    taken = {one.name for one in fields(options)} & types.keys() - said
    assert taken, f"{options.__name__} takes no flag by name: make it without `into`"
    assert {name: types[name] for name in taken} == {name: wanted[name] for name in taken}
