"""A store of an earlier version, with one study of each kind: each is listed, rendered and exported."""

from __future__ import annotations

import ast
import gzip
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from json_schema import errors
from pgdyno.cli.store import command
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, result_type
from pgdyno.report.drawing import html
from pgdyno.report.drawing.text import print_report
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report

DUMP = Path(__file__).parents[2] / "data" / "stores" / "before-typed-results.sql.gz"
"""Measured with the code of 48a1800; of most runs the samples were left out."""

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "results.schema.json"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("earlier") / "store.db"
    with closing(sqlite3.connect(found)) as connection, connection:
        connection.executescript(gzip.decompress(DUMP.read_bytes()).decode())
    return found


def members(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    with closing(sqlite3.connect(path)) as connection:
        for name, result in connection.execute("select id, result from study order by id"):
            yield name, json.loads(result)


THEN = {
    StudyKind.BENCH, StudyKind.AB, StudyKind.TUNE, StudyKind.MATRIX, StudyKind.STAIRCASE, StudyKind.SWEEP,
    StudyKind.NOISE, StudyKind.SELFTEST, StudyKind.IMPORTED,
}  # fmt: skip
"""Every kind that there was."""


def test_it_has_a_study_of_every_kind_that_there_was(path: Path) -> None:
    with Store.open(path) as store:
        studies = store.studies()
        assert {study.kind for study in studies} == THEN
        assert all(isinstance(study.result, result_type(study.kind)) for study in studies)


def test_every_study_is_listed_rendered_and_exported(path: Path, tmp_path: Path) -> None:
    listed = CliRunner().invoke(command, ["list", "--json", "--store", str(path)])
    assert listed.exit_code == 0, listed.output
    rows = json.loads(listed.stdout)
    assert not [row for row in rows if row["state"] == "unreadable"]
    with Store.open(path) as store:
        for study in store.studies():
            report, text = build_report(store, study.id), io.StringIO()
            print_report(report, text)
            assert text.getvalue()
            assert html.render(report)
            out = tmp_path / f"{study.id}.json"
            done = CliRunner().invoke(command, ["export", study.id, "-o", str(out), "--store", str(path)])
            assert done.exit_code == 0, done.output
            assert json.loads(out.read_text())


def test_what_was_stored_is_written_again_as_it_was_but_for_keys_that_came_later(path: Path) -> None:
    stored = dict(members(path))
    with Store.open(path) as store:
        for name, before in stored.items():
            now = plain(store.study(name).result)
            assert _lost(before, now, name) == [], "no member may be lost, and none may change"


def test_every_result_is_as_the_published_schema_says(path: Path) -> None:
    published = json.loads(SCHEMA.read_text())
    with Store.open(path) as store:
        for study in store.studies():
            found = errors({study.kind.value: plain(study.result)}, published)
            assert list(found) == [], study.id


def _lost(before: object, now: object, where: str) -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            said
            for key, value in before.items()
            for said in (_lost(value, now[key], f"{where}.{key}") if key in now else [f"{where}.{key} is gone"])
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            said
            for at, (one, other) in enumerate(zip(before, now, strict=True))
            for said in _lost(one, other, f"{where}[{at}]")
        ]
    return [] if before == now else [f"{where} was {before!r}, is {now!r}"]


ABOVE = ("cli", "export", "report", "studies", "trial", "web")
SAME = {"plain", "asdict", "vars", "cast", "dict", "told_json", "astuple", "replace", "copy"}
"""What a result is still in when it was called with it: as JSON, or as another type."""


def test_no_result_is_read_by_a_string_above_the_store() -> None:
    root = Path(__file__).parents[3] / "src" / "pgdyno"
    found = []
    for file in sorted(path for room in ABOVE for path in (root / room).rglob("*.py")):
        text = file.read_text()
        if "result" in text or "told(" in text:
            found += [f"{file.relative_to(root)}:{line}" for line in reads_of_results(ast.parse(text))]
    assert found == []


def reads_of_results(tree: ast.Module) -> Iterator[int]:
    """Yield the lines where a result is read by a string: itself, as JSON, or by any name that it was given."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (tree, *functions):
        parts = [*ast.walk(scope)]
        names, known = {"result"}, 0
        while scope is not tree and known < len(names):  # a name for a name for a result
            known = len(names)
            names |= {name for node in parts for name in _names_given(node, names)}
        yield from (node.lineno for node in parts if isinstance(node, ast.expr) and _is_read(node, names))
        for match in (node for node in parts if isinstance(node, ast.Match)):
            if _is_result(match.subject, names) and any(isinstance(one, ast.MatchMapping) for one in ast.walk(match)):
                yield match.lineno


def _names_given(node: ast.AST, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            yield from (one.id for one, value in pairs if isinstance(one, ast.Name) and _is_result(value, names))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None and _is_result(node.value, names):
        yield ast.unparse(node.target)


def _is_read(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_text(node.slice) and _is_result(node.value, names)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):  # .get(), .number(), .text(), .__getitem__() and whatever else
        return any(map(_is_text, node.args)) and _is_result(node.func.value, names)
    if isinstance(node.func, ast.Name) and node.func.id == "getattr":
        return _is_text(node.args[1]) and _is_result(node.args[0], names)
    is_getter = isinstance(node.func, ast.Call) and ast.unparse(node.func.func).endswith(("itemgetter", "attrgetter"))
    return is_getter and any(_is_result(one, names) for one in node.args)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_result(node: ast.expr, names: set[str]) -> bool:
    """Tell whether it is one of these names, an attribute `.result`, what `.told(...)` returns, or made of one."""
    if isinstance(node, ast.BoolOp | ast.IfExp):
        parts = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
        return any(_is_result(one, names) for one in parts)
    if isinstance(node, ast.NamedExpr | ast.Await):
        return _is_result(node.value, names)
    if isinstance(node, ast.Dict):
        return any(_is_result(one, names) for key, one in zip(node.keys, node.values, strict=True) if key is None)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called == "told" or (called in SAME and any(_is_result(one, names) for one in node.args))
    if isinstance(node, ast.Attribute):
        return node.attr in ("result", "__dict__") and (node.attr == "result" or _is_result(node.value, names))
    return isinstance(node, ast.Name) and node.id in names


@pytest.mark.parametrize("text", [
    'result["a"]',
    '(study.result or {}).get("verdict")',
    'result.text("note")',
    'study.result.get("keep")',
    'study.result.anything("keep", None)',
    'study.told(BenchResult)["runs"]',
    '(study.result if study else None)["a"]',
    'plain(study.result)["a"]',
    'shapes.plain(study.told(BenchResult)).get("a")',
    'dataclasses.asdict(result)["a"]',
    'vars(result)["a"]',
    'result.__dict__["a"]',
    'cast(dict[str, str], study.result)["a"]',
    '{**plain(result)}["a"]',
    'getattr(study.result, "a")',
    'operator.itemgetter("a")(plain(result))',
    '(found := study.result)["a"]',
    'def f(study):\n    found = study.result\n    return found["a"]',
    'def f(study):\n    found: dict = plain(study.result)\n    again = found or {}\n    return again.get("a")',
    'def f(study):\n    one, two = 1, study.result\n    return two.number("a")',
    'def f(study):\n    if (found := study.told(BenchResult)) is not None:\n        return found["a"]',
    'match plain(result):\n    case {"a": found}:\n        print(found)',
])  # fmt: skip
def test_the_reads_that_are_looked_for_are_found(text: str) -> None:
    assert list(reads_of_results(ast.parse(text))) != []


def test_what_is_no_result_may_be_read_by_a_string() -> None:
    for text in (
        'found["a"]',
        "result.runs[0]",
        "result[0]",
        'def f():\n    found = result\ndef g(found):\n    found["a"]',
    ):
        assert list(reads_of_results(ast.parse(text))) == [], text
