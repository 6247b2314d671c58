"""A public function of four parameters or more names each of them in its docstring."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pgdyno

ROOT = Path(pgdyno.__file__).parent
MANY = 4


class Public(NamedTuple):
    """A function or method that other modules may call: where it is, what it takes, and what its docstring says."""

    where: str
    method: bool
    takes: tuple[str, ...]
    doc: str

    @property
    def unnamed(self) -> list[str]:
        return [name for name in self.takes if not re.search(rf"\b{name}\b", self.doc)]

    @property
    def contract(self) -> tuple[str, tuple[str, ...]]:
        """Return what methods of one protocol share: it is documented once, in the protocol or in one of them."""
        return self.where.rpartition(".")[2] if self.method else self.where, self.takes


def public(body: list[ast.stmt], where: str, *, method: bool = False) -> Iterator[Public]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{where} {node.name}", method=True)
            continue
        args = node.args
        takes = tuple(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))
        if method and takes[:1] in {("self",), ("cls",)}:
            takes = takes[1:]
        yield Public(f"{where}.{node.name}", method, takes, ast.get_docstring(node) or "")


def unnamed(root: Path) -> dict[str, list[str]]:
    """Return the parameters that no docstring names, by function."""
    found = [
        function
        for path in sorted(root.rglob("*.py"))
        for function in public(ast.parse(path.read_text()).body, str(path.relative_to(root)))
        if len(function.takes) >= MANY
    ]
    contracts = defaultdict(list)
    for function in found:
        contracts[function.contract].append(function)
    assert len(contracts) > 200 or root != ROOT
    return {
        sharing[0].where: min((function.unnamed for function in sharing), key=len)
        for sharing in contracts.values()
        if all(function.unnamed for function in sharing)
    }


def test_every_parameter_of_a_function_that_takes_many_is_named() -> None:
    assert unnamed(ROOT) == {}


def test_what_no_docstring_names_is_found(tmp_path: Path) -> None:
    (tmp_path / "taking.py").write_text(
        "def three(a, b, c): pass\n"
        "def four(one, two, three, *, four):\n    '''Add `one`, `two` and `three`.'''\n"
        "def _own(one, two, three, four): pass\n"
        "class Reader:\n    def read(self, path, start, end, limit):\n        '''Read.'''\n"
        "class Protocol:\n    def write(self, path, start, end, limit):\n        '''path, start, end and limit.'''\n"
        "class Writer:\n    def write(self, path, start, end, limit):\n        '''Write.'''\n"
    )
    assert unnamed(tmp_path) == {
        "taking.py.four": ["four"],
        "taking.py Reader.read": ["path", "start", "end", "limit"],
    }
