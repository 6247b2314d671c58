"""The reports of a project's run are drawn where they say something new, and not again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from certification_example import certification
from pgdyno.cli.requests.project_run import Known, write_reports
from pgdyno.cli.terminal.progress import Progress
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.report.drawing import pdf
from pgdyno.studies import reports as pages
from pgdyno.studies.project.build import read_project
from pgdyno.studies.project.file import parse_project
from pgdyno.studies.project.page import project_page
from pgdyno.studies.project.run_record import ProjectRunRecord, RunStepRecord


def test_reports_of_a_finished_run_are_drawn_again_only_where_they_change(tmp_path: Path, monkeypatch) -> None:
    """The same command once more drew every page, and started a browser for two seconds."""
    project = parse_project(certification(tmp_path / "bank", programs=tmp_path).read_text())
    known: Known = (project, read_project(project, None), None, ())
    record = ProjectRunRecord({}, {}, steps={"scale a": RunStepRecord("a", 1.0, ended_at=2.0, code=0, study="s1")})
    folder, drawn = tmp_path / "report", []

    def printed(report: object, path: Path) -> int:
        drawn.append(path.exists())
        path.write_bytes(b"%PDF")
        return 1

    def draw(what: Known) -> None:
        write_reports(what, cast(Any, None), record, folder, Progress())

    monkeypatch.setattr(pdf, "write_pdf", printed)
    monkeypatch.setattr(pages, "build_report", lambda store, study: project_page(*known))
    draw(known)
    draw(known)
    assert drawn == [False]
    assert sorted(one.name for one in folder.rglob("*.*")) == ["project.html", "project.md", "project.pdf", "s1.html"]
    (folder / "studies/s1.html").unlink()
    draw(known)
    assert drawn == [False, False], "something was missing"
    other = (replace(project, name="another"), *known[1:])
    draw(other)
    assert drawn == [False, False, False], "and no old one is left beside a new page"
    assert "another" in (folder / "project.md").read_text()

    def no_browser(report: object, path: Path) -> int:
        raise EnvironmentUnsuitable("there is no browser")

    monkeypatch.setattr(pdf, "write_pdf", no_browser)
    draw(known)
    assert not (folder / "project.pdf").exists(), "it said what no page says any more"


@pytest.mark.parametrize("there", [b"", b"\0", None])
def test_what_stands_at_the_place_of_a_report_is_replaced(there: bytes | None, tmp_path: Path, monkeypatch) -> None:
    project = parse_project(certification(tmp_path / "bank", programs=tmp_path).read_text())
    if there is not None:
        (tmp_path / "project.html").write_bytes(there)
    monkeypatch.setattr(pdf, "write_pdf", lambda report, path: path.write_bytes(b"%PDF"))
    known: Known = (project, read_project(project, None), None, ())
    write_reports(known, cast(Any, None), ProjectRunRecord({}, {}), tmp_path, Progress())
    assert "</html>" in (tmp_path / "project.html").read_text()
