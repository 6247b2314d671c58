"""Break the code in small ways, one at a time, and see that its unit tests find out: which mutants survive?

    python tools/mutants.py [--sample] [--count 60] [--seed 1] [FILE ...]

A mutant is one comparison, one arithmetic or Boolean operation, one `min` or `max`, one number, or one `not` changed in
one file. Drawn by the seed from the rooms that judge, put back and merge, or from the files named. Each is run in a
copy of the sources against the unit tests of its room until the first that fails, beginning with those that import the
file, which find out most of them in seconds; who survives is listed with its line. A run that has no end is found out
only where the same tests pass on the code as it was in a third of that time: else the machine was busy, and nothing is
known of the mutant, which is listed too and counts for neither side.
Hours of one core: part of `make nightly`. Exits with 1 when more than a tenth survived.

A push takes a few with `--sample`, beside the unit tests themselves, and only against the tests that import the file:
the rest of a room takes up to 40 s of CPU for each that they do not find out. Who survives them is listed in its
summary, and fails nothing, because the draw seldom meets what the push has changed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from stages import FAILURES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pgdyno"
ROOMS = ("stats", "trial", "undo", "fleet")
_SURVIVORS = 0.1
_LIMIT_S = 900
_PROOF = 1 / 3
"""Of that limit: what the code as it was may take for a mutant to have run into the limit by itself."""
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: where, the line before and after, and the whole text with it."""

    file: Path
    line: int
    before: str
    after: str
    text: str


def changes(text: str) -> int:
    """Return in how many ways the text of a file can be broken."""
    return sum(1 for _ in _changes(ast.parse(text)))


def mutant(file: Path, text: str, number: int) -> Mutant | None:
    """Return one mutant of a file, None where the change makes no difference.

    Its comments are gone, and its line numbers those of the original.
    """
    tree = ast.parse(text)
    plain = ast.unparse(tree)
    node, change = next(islice(_changes(tree), number, None))
    line, was = getattr(node, "lineno", 0), _first_line(node)
    change()
    mutated = ast.unparse(tree)
    return None if mutated == plain else Mutant(file, line, was, _first_line(node), mutated)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[], None]]]:
    """Yield the node that changes, and what changes it."""
    for node in list(_code(tree)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield node, partial(setattr, node, "ops", [_SWAPS[type(node.ops[0])]()])
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
            yield node, partial(setattr, node, "op", _SWAPS[type(node.op)]())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            yield node, partial(setattr, node.func, "id", _CALLS[node.func.id])
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and type(node.value) is not bool:
            yield node, partial(setattr, node, "value", node.value + 1)
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.UnaryOp):
            yield node, partial(setattr, node, "test", node.test.operand)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs: no annotations, which tests cannot see."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from _code(node)


def drawn(files: list[Path], count: int, seed: int) -> list[Mutant]:
    """Return so many mutants of these files, each file with the chance of its size. No others are made."""
    texts = {file: file.read_text("utf-8") for file in files}
    pool = [(file, number) for file, text in texts.items() for number in range(changes(text))]
    order = random.Random(seed).sample(pool, len(pool))  # noqa: S311 - no secret
    made = (mutant(file, texts[file], number) for file, number in order)
    return list(islice((one for one in made if one is not None), count))


def is_killed(broken: Mutant, sources: Path, *, nearest_only: bool = False) -> bool | None:
    """Tell whether a unit test of the mutant's room fails with it; None where time ran out on a busy machine.

    Where only the nearest are asked, those that import its file.
    """
    place, room = sources / broken.file.relative_to(ROOT / "src"), _room(broken.file)
    original = place.read_bytes()
    place.write_text(broken.text, "utf-8")
    try:
        return not passes(room, sources, broken.file.stem, nearest_only=nearest_only)
    except subprocess.TimeoutExpired:
        place.write_bytes(original)
        in_time = _pass_within(_PROOF * _LIMIT_S, room, sources, broken.file.stem, nearest_only=nearest_only)
        return True if in_time else None
    finally:
        place.write_bytes(original)


def _pass_within(limit_s: float, room: str, sources: Path, module: str = "", *, nearest_only: bool = False) -> bool:
    try:
        return passes(room, sources, module, nearest_only=nearest_only, limit_s=limit_s)
    except subprocess.TimeoutExpired:
        return False


def passes(
    room: str, sources: Path, module: str = "", *, nearest_only: bool = False, limit_s: float = _LIMIT_S
) -> bool:
    """Tell whether the unit tests of a room pass with these sources; what imports the module runs first.

    In a run of its own: most mutants end there, and the rest of the room is then not even collected; nor is it where
    only the nearest are asked, unless no test imports the module. Raises TimeoutExpired where either run is not over
    after so many seconds.
    """
    near, far = nearest(sorted((ROOT / "tests" / "unit" / room).rglob("test_*.py")), module)
    asked = (near,) if near and nearest_only else (near, far)
    return all(_pass(tests, sources, limit_s) for tests in asked if tests)


def _pass(tests: list[Path], sources: Path, limit_s: float) -> bool:
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    words += map(str, tests)
    environment = {name: value for name, value in os.environ.items() if name != FAILURES}  # a mutant is to fail
    environment["PYTHONPATH"] = str(sources)
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, timeout=limit_s, check=False)
    return done.returncode == 0


def nearest(tests: list[Path], module: str) -> tuple[list[Path], list[Path]]:
    """Return the files of tests that import a module, and the rest."""
    named = re.compile(rf"^(from|import) .*\b{re.escape(module)}\b" if module else "(?!)", re.MULTILINE)
    near = [file for file in tests if named.search(file.read_text("utf-8"))]
    return near, [file for file in tests if file not in near]


def _room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0]


def main(words: list[str]) -> int:
    """Draw, run, and list who survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", action="store_true", help="list who survives; the unit tests run beside this")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*", type=Path)
    asked = parser.parse_args(words)
    files = [file.resolve() for file in asked.files] or [
        file for room in ROOMS for file in sorted((SOURCE / room).glob("*.py"))
    ]
    chosen = drawn(files, asked.count, asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        # With its bytecode, which is good for copies that keep their times; but not what is just being written of it.
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("*.pyc.*"))
        for room in sorted({_room(one.file) for one in chosen} if not asked.sample else ()):
            if not _pass_within(_LIMIT_S, room, sources):
                raise SystemExit(f"the unit tests of {room} fail or have no end without a mutant")
        survivors, told = [], 0
        for one in chosen:
            killed = is_killed(one, sources, nearest_only=asked.sample)
            text = f"{one.file.relative_to(ROOT)}:{one.line}: {one.before} -> {one.after}"
            print(f"{ {True: 'killed  ', False: 'SURVIVED', None: 'no time '}[killed] } {text}", flush=True)
            survivors += [text] if killed is False else []
            told += killed is not None
    print(f"{told - len(survivors)} of {told} mutants were found out; of {len(chosen) - told} nothing is known")
    if asked.sample:
        _tell(survivors)
        return 0
    return int(not told or len(survivors) > _SURVIVORS * told)


def _tell(survivors: list[str]) -> None:
    """Have the summary of a push list who survived."""
    if FAILURES in os.environ:
        said = "a mutant survives the tests that import its file"
        Path(os.environ[FAILURES]).write_text("".join(f"{said}: {text}\n" for text in survivors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
