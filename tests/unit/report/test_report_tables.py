"""Tables of reports: exported and read back, rounded half up, with explicit units; what closes every report."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import study_example as example
from pgdyno.cli.store import command as store_command
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity, pid_namespace, uptime
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.figure import Table
from pgdyno.model.live import Live
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.verdict import Interval
from pgdyno.report.drawing import html, markdown, pdf, tables
from pgdyno.report.drawing.payload import report_json
from pgdyno.report.drawing.tables import csv_text, report_tables, write_csv
from pgdyno.report.sections import Prose, Report, Section, TableBlock, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import rounded_text, share_text
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.noise.page import cell_text
from pgdyno.studies.reports import build_report, compose
from tables_read_back import read_csv, read_json

BARE_UNIT = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?[GT]\b(?!i?B)")
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
CHANGE = ChangeRecord(1_790_000_000.0, "ann@db1", ChangeAction.APPLY, "sandbox default, PostgreSQL 18.6", "e", "s-1",
                      "jit", "jit", "on", "off", "ab-51d0e7")  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    with Store.open(tmp_path_factory.mktemp("tables") / "store.db") as store:
        return {name: build_report(store, add(store)) for name, add in
                (("tune", example.add_tune), ("bench", example.add_bench), ("ab", example.add_ab))}  # fmt: skip


def about(report: Report) -> str:
    return markdown.render(replace(report, sections=tuple(one for one in report.sections if one.id == "about")))


@pytest.mark.requirement("R-REP-11")
@pytest.mark.parametrize("name", ["tune", "bench", "ab"])
def test_all_tables_come_back_from_csv_and_json(reports: dict[str, Report], name: str, tmp_path: Path) -> None:
    tables = report_tables(reports[name])
    assert len({one.name for one in tables}) == len(tables) > 3
    write_csv(reports[name], tmp_path / "out")
    assert read_csv(tmp_path / "out") == tables
    assert read_json(report_json(reports[name])) == tables


@pytest.mark.requirement("R-REP-11")
@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_any_cell_survives_the_export(rows: list[tuple[str, str]]) -> None:
    table = Table(("a", "b, ü"), tuple(rows), ("a",))
    report = Report("1", "ab", "t", "", Tone.NEUTRAL, "", "", (), (Section("s", "S", "?", (TableBlock(table, "c"),)),))
    assert read_json(report_json(report))[0].table == table
    if not any(character in cell for row in rows for cell in row for character in "\r\n"):
        assert len(csv_text(table).splitlines()) >= 1


def test_a_folder_that_exists_is_not_overwritten(reports: dict[str, Report], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists"):
        write_csv(reports["ab"], tmp_path)


def test_a_folder_that_is_not_whole_is_not_there(
    reports: dict[str, Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full left a part of the tables, and the next try was refused as the folder was there."""
    left = iter(range(2))

    def until_full(path: Path, content: str) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        path.write_text(content)

    with monkeypatch.context() as full:
        full.setattr(tables, "write_output", until_full)
        with pytest.raises(UsageError, match="cannot be written"):
            write_csv(reports["ab"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    write_csv(reports["ab"], tmp_path / "out")


@pytest.mark.requirement("R-REP-09")
@pytest.mark.parametrize(
    ("value", "text"),
    [(2.675, "2.68"), (1.005, "1.01"), (61963.9, "61,963.90"), (0.125, "0.13"), (-0.125, "-0.13"), (None, "")],
)
def test_figures_of_tables_are_rounded_half_up(value: float | None, text: str) -> None:
    assert rounded_text(value) == text


@pytest.mark.requirement("R-REP-09")
@given(st.floats(0, 1e9))
def test_rounding_errs_by_half_a_cent_at_most_and_never_downwards_at_half(value: float) -> None:
    shown = Decimal(rounded_text(value).replace(",", ""))
    assert -Decimal("0.005") < shown - Decimal(repr(value)) <= Decimal("0.005")


@pytest.mark.requirement("R-REP-10")
def test_no_size_is_written_with_a_bare_letter(reports: dict[str, Report]) -> None:
    assert BARE_UNIT.search("64 G of memory")
    assert not BARE_UNIT.search("64 GB, 64 GiB")
    for report in reports.values():
        text = markdown.render(report)
        assert BARE_UNIT.findall(text) == []
        assert "1 GB is 1024 MB, which others call 1 GiB" in text


@pytest.mark.requirement("R-REP-10")
def test_no_word_of_the_product_has_a_size_with_a_bare_letter() -> None:
    folder = Path(html.__file__).parents[2]
    written = ("report/**/*.py", "studies/**/*.py", "advisor/rules/*.toml", "knobs/data/*.toml")
    texts = {path: path.read_text("utf-8") for pattern in written for path in folder.glob(pattern)}
    assert len(texts) > 30
    assert {str(path): found for path, text in texts.items() if (found := BARE_UNIT.findall(text))} == {}


@pytest.mark.requirement("R-REP-04", "R-REP-05", "R-REP-03")
@pytest.mark.parametrize("kind", list(StudyKind))
def test_every_kind_of_study_tells_environment_limits_and_sources(kind: StudyKind) -> None:
    study: Study = replace(example.make_study(kind), plan=replace(example.make_study().plan, host="10.1.2.3"))
    with_trial = StudyRecord(study, (), store="/data/pgdyno.db")
    text = about(compose(with_trial))
    for word in ("processor", "kernel", "PostgreSQL", "data file system", "network", "driver", "environment"):
        assert f"| {word} |" in text
    assert "to 10.1.2.3" in text
    imported = kind is StudyKind.IMPORTED  # who measured it, and how, nobody here knows
    conditions, unclaimed = ("laboratory conditions", "which conditions they were measured is not known")[
        :: -1 if imported else 1
    ]
    assert unclaimed not in text
    for word in (conditions, "Another release", "other database systems", "a load of another kind"):
        assert word.lower() in text.lower()


@pytest.mark.requirement("R-REP-04")
@pytest.mark.parametrize(
    ("target", "host", "told"),
    [
        ("sandbox default, PostgreSQL 18.6", "", "Unix socket"),
        ("ann@local:5432/shop", "", "Unix socket"),
        ("ann@/run/postgresql:5432/shop", "", "Unix socket"),
        ("ann@localhost:5432/shop", "", "loopback"),
        ("ann@db1:5432/shop", "", "to db1:5432/shop"),
        ("ann@db1:5432/shop", "127.0.0.1", "loopback"),
    ],
)
def test_the_way_of_the_load_to_the_server_is_told(target: str, host: str, told: str) -> None:
    study = example.make_study(StudyKind.BENCH)
    text = about(compose(StudyRecord(replace(study, target=target, plan=replace(study.plan, host=host)), ())))
    row = next(line for line in text.splitlines() if line.startswith("| network |"))
    assert told in row
    assert ("over the network" in text) is told.startswith("to ")


@pytest.mark.requirement("R-REP-03")
def test_every_figure_names_its_runs_and_the_report_where_they_lie(reports: dict[str, Report]) -> None:
    for report in reports.values():
        for figure in report.figures():
            assert figure.provenance.get("run") or figure.provenance.get("runs")
    text = about(reports["tune"])
    assert "store.db" in text
    assert "where study_id = 'tune-3fa94c'" in text
    assert 'href="#about">from runs' in html.render(reports["tune"])


@pytest.mark.requirement("R-REP-03")
def test_the_sql_of_a_report_finds_its_figures(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        text = about(build_report(store, example.add_bench(store)))
    statements = re.findall(r"select [^;]+;", text)
    assert len(statements) == 2
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert all(connection.execute(statement).fetchall() for statement in statements)


@pytest.mark.requirement("R-REP-03")
def test_another_row_makes_another_text(tmp_path: Path) -> None:
    def sentence(factor: float, name: str) -> str:
        with Store.open(tmp_path / name) as store:
            study = store.study(example.add_bench(store))
            trials = store.trials(study.id)
        assert trials[0].outcome is not None
        outcome = replace(trials[0].outcome, throughput=1234.565 * factor)
        trial = replace(trials[0], outcome=outcome)
        kind = replace(study, kind=StudyKind.IMPORTED, result=None)
        return markdown.render(compose(StudyRecord(kind, (trial,))))

    assert "1,234.57" in sentence(1, "a.db")
    assert "2,469.13" in sentence(2, "b.db")


@pytest.mark.parametrize(("silent_s", "word"), [(5, "running"), (3600, "interrupted")])
def test_a_study_that_was_killed_does_not_run_in_its_report(tmp_path: Path, silent_s: int, word: str) -> None:
    with Store.open(tmp_path / "store.db") as store:
        study = example.make_study(study_id="killed")
        store.add_study(replace(study, state=StudyState.RUNNING))
        LiveBoard(store).show(Live(study.id, time.time() - silent_s, time.time() - 9000, "db1", 42))
        assert build_report(store, study.id).word == word


@pytest.mark.parametrize(("is_gone", "word"), [(False, "running"), (True, "interrupted")])
def test_a_study_whose_process_is_gone_is_interrupted_at_once(tmp_path: Path, is_gone: bool, word: str) -> None:
    own = ProcessIdentity.own()
    ticks = own.start_ticks - is_gone  # another process has the number now
    live = Live(
        "killed", time.time(), time.time() - 9, "here", own.pid,
        start_ticks=ticks, boot_id=own.boot_id, namespace=pid_namespace(), uptime=uptime(),
    )  # fmt: skip
    with Store.open(tmp_path / "store.db") as store:
        study = example.make_study(study_id=live.study)
        store.add_study(replace(study, state=StudyState.RUNNING))
        LiveBoard(store).show(live)
        assert build_report(store, study.id).word == word


@pytest.mark.requirement("R-REP-12")
def test_the_changes_of_a_target_are_told_with_who_when_and_why(tmp_path: Path) -> None:
    other = replace(CHANGE, target="another", study=None)
    with Store.open(tmp_path / "store.db") as store:
        study = example.add_ab(store)
        store.add_changes([CHANGE, other])
        report = build_report(store, study)
    section = next(one for one in report.sections if one.id == "changes")
    block = section.blocks[0]
    assert isinstance(block, TableBlock)
    assert block.table.rows == (
        ("2026-09-21 14:13:20 UTC", "ann@db1", "apply", "jit", "on", "off", "rule jit, proved by ab-51d0e7", "s-1"),
    )


@pytest.mark.requirement("R-REP-12")
def test_changes_are_listed_from_the_command_line(tmp_path: Path) -> None:
    where = str(tmp_path / "store.db")
    with Store.open(where) as store:
        store.add_changes([CHANGE, replace(CHANGE, session="s-2", action=ChangeAction.ROLLBACK)])
    run = CliRunner()
    text = run.invoke(store_command, ["changes", "--store", where], env={"COLUMNS": "200"}).output
    assert "ann@db1" in text
    assert "rollback" in text
    told = run.invoke(store_command, ["changes", "--store", where, "--session", "s-1", "--json"]).output
    assert [(one["knob"], one["old"], one["new"], one["rule"]) for one in json.loads(told)] == [
        ("jit", "on", "off", "jit")
    ]


def test_without_changes_there_is_no_section_of_them(reports: dict[str, Report]) -> None:
    assert not any(section.id == "changes" for section in reports["ab"].sections)


def test_a_page_without_about_gets_one() -> None:
    study = example.make_study(StudyKind.MATRIX)
    report = compose(StudyRecord(study, ()))
    assert [section.id for section in report.sections].count("about") == 1
    blocks = next(section for section in report.sections if section.id == "about").blocks
    assert any(isinstance(block, Prose) and "laboratory" in block.sentences[0] for block in blocks)


@pytest.mark.requirement("R-REP-01")
def test_without_a_browser_a_pdf_is_refused_with_the_way_out(reports: dict[str, Report], tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="none on the PATH") as caught:
        pdf.write_pdf(reports["ab"], tmp_path / "x.pdf", which=lambda name: None)
    assert caught.value.exit_code == 6
    assert "report.html" in (caught.value.hint or "")
    assert not (tmp_path / "x.pdf").exists()


def test_a_browser_that_prints_nothing_is_told(reports: dict[str, Report], tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="printed no page"):
        pdf.write_pdf(reports["ab"], tmp_path / "x.pdf", which=lambda name: "/bin/true")


def test_a_browser_that_hangs_is_ended(reports: dict[str, Report], tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    with pytest.raises(EnvironmentUnsuitable, match=r"within 0\.3 s"):
        pdf.write_pdf(reports["ab"], tmp_path / "x.pdf", which=lambda name: str(hanging), timeout_s=0.3)


def test_only_root_prints_without_the_browsers_own_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for user, wanted in ((0, True), (1000, False)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        argv = pdf.command("/usr/bin/chromium", tmp_path / "a.html", tmp_path / "a.pdf", tmp_path / "profile")
        assert ("--no-sandbox" in argv) is wanted
        assert argv[-1].startswith("file://")


def test_large_figures_are_written_in_full() -> None:
    assert cell_text(0.08, 123.0) == "8 in 120"
    assert cell_text(None, 7.7) == "- in 7.7"
    assert share_text(Interval(ratio=12.34, lo=9.87, hi=15.4, confidence=0.95)) == "1,230 % [987, 1,540]"
