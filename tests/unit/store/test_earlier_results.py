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
    connection = sqlite3.connect(path)
    for name, result in connection.execute("select id, result from study order by id"):
        yield name, json.loads(result)
    connection.close()


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


READS = {"get", "number", "text", "children", "child", "flag", "texts", "whole", "count", "settings", "bounds"}


def test_no_result_is_read_by_a_string_above_the_store() -> None:
    root = Path(__file__).parents[3] / "src" / "pgdyno"
    found = []
    for file in sorted(root.rglob("*.py")):
        if file.relative_to(root).parts[0] not in ("cli", "web", "studies", "report", "trial"):
            continue
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "result" in text else ():
            if (place := _read_of_result(node)) is not None:
                found.append(f"{file.relative_to(root)}:{place}")
    assert found == []


def _read_of_result(node: ast.AST) -> int | None:
    """Return the line where a name `result`, an attribute `.result`, or either `or {}`, is read by a string."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.lineno if _is_result(node.value) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS:
        is_literal = bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        return node.lineno if is_literal and _is_result(node.func.value) else None
    return None


def _is_result(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return any(_is_result(one) for one in node.values)
    return getattr(node, "id", "") == "result" or getattr(node, "attr", "") == "result"


def test_the_reads_that_are_looked_for_are_found() -> None:
    for text in (
        'result["a"]',
        '(study.result or {}).get("verdict")',
        'result.text("note")',
        'study.result.get("keep")',
    ):
        (statement,) = ast.parse(text).body
        assert any(_read_of_result(node) for node in ast.walk(statement)), text
