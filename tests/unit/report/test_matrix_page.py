"""The page of a matrix: exactly the published columns, everything computed from the rows."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from matrix_example import made_row, seed_rows
from pgdyno.model.configuration import BASELINE
from pgdyno.model.matrix import Cell, MatrixRow, SkippedCell
from pgdyno.model.record import PlanRecord
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.report.appendix import limits
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report
from pgdyno.report.provenance import environment, workload
from pgdyno.report.scales import ticks
from pgdyno.report.sections import Charts, Report, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.curves import MANY, curves_sections, knee_sentences
from pgdyno.studies.matrix.words import COLUMNS, best_sentences, little_table, matrix_table
from pgdyno.studies.reports import build_report, compose
from result_example import made
from study_example import make_study
from study_recording import record_filling

CONFIGURATIONS = {"Default": "default", "No Tune": "default", "Tune": "tuned"}
SMT8 = seed_rows("power_smt8", configuration=CONFIGURATIONS)


def page(rows: list[MatrixRow], skipped: tuple[SkippedCell, ...] = ()) -> Report:
    result = {
        "rows": [plain(row) for row in rows],
        "skipped": [plain(one) for one in skipped],
        "data": "Every cell keeps its data.",
        "driver": "The load generators ran on the server's host.",
        "method": {"each run": "30 s"},
        "network": {"admin": "VLAN 10"},
    }
    return compose(StudyRecord(replace(make_study(StudyKind.MATRIX), result=made(StudyKind.MATRIX, result)), ()))


def text(report: Report) -> str:
    return " ".join(markdown.render(report).replace("\\", "").split())


def test_the_caption_says_with_which_data_a_cell_begins_where_that_was_kept() -> None:
    assert "our own session excluded. Every cell keeps its data. The load generators ran" in text(page(SMT8))
    older = replace(make_study(StudyKind.MATRIX), result=made(StudyKind.MATRIX, {"rows": [plain(row) for row in SMT8]}))
    assert "keeps its data" not in text(compose(StudyRecord(older, ())))


def test_sentences_have_figures_as_every_page_writes_them() -> None:
    """The best cell was told with "10590.15 transactions per second"; the published columns keep their decimals."""
    row = replace(made_row(8, 10590.1523), latency_ms=0.75512)
    (best,) = best_sentences([row])
    assert "10,590 transactions per second at 0.755 ms" in best
    assert matrix_table([row]).rows[0][3:5] == ("10590.15", "0.76")


def test_a_matrix_without_a_complete_cell_speaks_of_no_best_one() -> None:
    """Every run was disturbed, and a warning said that the best cell and the knee may be noise."""
    lost = replace(made_row(8, 100.0), state="disturbed", reason="foreign CPU was 187 % of a core", tps=None, runs={})
    said = text(page([lost]))
    assert "No cell was measured completely" in said
    assert "Best cell" not in said
    assert "One run each" not in said


@pytest.mark.requirement("R-BEN-11")
def test_the_table_has_exactly_the_published_columns() -> None:
    published = "Test, PODs, C/J, TPS, LAT, CPU %, SMT, Row Exclusive, Access Share, Exclusive Lock"
    table = matrix_table(SMT8)
    assert ", ".join(table.columns) == published == ", ".join(COLUMNS)
    assert table.rows[4] == ("tuned", "32", "7", "61963.90", "3.61", "79.49", "8", "915", "254", "361")
    x86 = matrix_table(seed_rows("x86_ht", configuration=CONFIGURATIONS), systems=True)
    assert x86.columns == ("System", "Core", "vCPU", *COLUMNS)
    assert x86.rows[0][1:6] == ("16", "32", "default", "16", "7")


@pytest.mark.requirement("R-BEN-14", "R-BEN-18", "R-BEN-21")
def test_the_page_names_best_cell_knee_locks_and_changes_from_the_rows() -> None:
    said = text(page(SMT8))
    assert "Best cell: tuned, SMT 8, 32 load generators with 7 clients each, 61,964 transactions" in said
    for words in ("+7.39", "+12.17", "+10.55", "no claim", "RowExclusiveLock 4.81 times", "112 connections already"):
        assert words in said, words
    assert "One run each: no difference between cells is claimed." in said
    assert "The load generators ran on the server's host." in said
    changed = text(page([replace(SMT8[0], tps=60000.0), *SMT8[1:]]))
    assert "+1.07" in changed
    assert "+7.39" not in changed


@pytest.mark.requirement("R-BEN-11", "R-REP-09")
def test_figures_have_two_decimals_and_are_rounded_half_up() -> None:
    (row,) = matrix_table([replace(made_row(4, 46978.665), latency_ms=2.385, cpu_pct=91.725)]).rows
    assert row[3:6] == ("46978.67", "2.39", "91.73")


@pytest.mark.requirement("R-BEN-14")
@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({1: 100.0, 2: 190.0, 4: 300.0}, "not within the loads that were run; the most, 4 connections, has"),
        (
            {1: 100.0, 2: 190.0, 4: 150.0},
            "the greatest throughput is that of 2 connections, and more load does not raise it.",
        ),
        ({1: 100.0, 2: 90.0, 4: 80.0}, "that of 1 connection, and more load does not raise it."),
        ({1: 50.0, 2: 96.0, 4: 100.0}, "2 connections already give 96.0 % of the greatest throughput, which 4 reach."),
        ({1: 96.0, 2: 98.0, 4: 100.0}, "1 connection already gives 96.0 % of the greatest throughput, which 4 reach"),
    ],
)
def test_the_knee_is_told_by_where_it_lies(rates: dict[int, float], words: str) -> None:
    (said,) = knee_sentences([made_row(clients, tps) for clients, tps in rates.items()])
    assert words in said


def test_the_end_of_each_axis_is_labelled() -> None:
    figures = page(SMT8).figures()
    assert figures
    for figure in figures:
        lo, hi = figure.y.lo, figure.y.hi
        assert lo is not None
        assert hi is not None
        assert hi == ticks(lo, hi, "linear")[-1], figure.id


def test_lines_go_by_load_generators_where_cells_meet_at_equal_connections() -> None:
    rows = [
        replace(row, cell=replace(row.cell, instances=instances))
        for instances in (1, 2)
        for row in (made_row(2, 200.0), made_row(4, 400.0))
    ]
    (by_load,) = curves_sections(rows)
    (charts,) = [block for block in by_load.blocks if isinstance(block, Charts)]
    lines = {one.name: one.x for one in charts.figures[0].series}
    assert lines == {"default, 1 load generator": (2.0, 4.0), "default, 2 load generators": (4.0, 8.0)}
    assert charts.figures[0].table is not None
    assert charts.figures[0].table.columns == ("curve", "2", "4", "8")
    (apart,) = curves_sections(rows[:2])[0].blocks[-1:]
    assert isinstance(apart, Charts)
    assert [one.name for one in apart.figures[0].series] == ["default"]


def test_cells_are_named_by_all_that_tells_them_apart_and_names_stay_as_they_are() -> None:
    rows = [
        made_row(clients, 100.0 * clients, configuration=name, server_cpus=cpus, mode="simple-update")
        for name in ("fsync-off", "default")
        for cpus in ("", "0-3")
        for clients in (1, 2, 4)
    ]
    rows += [replace(row, cell=replace(row.cell, scale=100)) for row in rows]
    report = page(rows)
    (lines,) = [figure for figure in report.figures() if figure.id == "matrix-throughput"]
    assert len({one.name for one in lines.series}) == len(lines.series) == 8
    assert {one.name for one in lines.series} >= {
        "fsync-off, -N, scale 10, CPUs 0-3",
        "default, -N, scale 100, CPUs all",
    }
    said = text(report)
    assert "| fsync-off, -N, scale 10, CPUs all | 1 to 4, x 4 |" in said
    assert len({line[0] for line in matrix_table(rows).rows}) == 8
    section = next(one for one in report.sections if one.id == "comparisons")
    (table,) = [block for block in section.blocks if isinstance(block, TableBlock)]
    assert len({line[:4] for line in table.table.rows}) == len(table.table.rows), "no line reads like another"
    assert {"settings", "server's CPUs", "scale"} == {line[0] for line in table.table.rows}


@pytest.mark.requirement("R-BEN-14")
def test_many_curves_come_as_a_table_and_few_as_sentences() -> None:
    rates = {1: 100.0, 2: 190.0, 4: 192.0}
    rows = [
        made_row(clients, tps, configuration=f"c{number}") for number in range(MANY) for clients, tps in rates.items()
    ]
    said = text(page(rows))
    assert f"Of {MANY} curves {MANY} with a knee within the loads that were run." in said
    assert "| c1 | 1 to 4, x 4 | 2 | 99.0 | 192.00 | 4 | x 1.92 | x 4.00 | x 4.00 | x 1.00 |" in said
    assert "Knee of c1" not in said
    few = text(page(rows[: 3 * (MANY - 1)]))
    assert "Knee of c1: 2 connections already give 99.0 %" in few
    assert "1 to 4 |" not in few
    beyond = [*rows[:-1], replace(rows[-1], tps=400.0)]
    assert f"Of {MANY} curves {MANY - 1} with a knee" in text(page(beyond))


def test_threads_are_a_factor_where_equal_clients_ran_with_several() -> None:
    few = [made_row(clients, 90.0 * clients) for clients in (1, 2, 4)]
    many = [replace(row, cell=replace(row.cell, jobs=2), tps=1.1 * (row.tps or 0)) for row in few[1:]]
    said = text(page([*few, *many]))
    assert "default, 1 thread: from 1 to 4 connections" in said
    assert "default, 2 threads: from 2 to 4 connections" in said
    assert "| threads | 1 | 2 | 1 x 4, default | 360.00 | 396.00 | +10.00 |" in said
    alone = text(page(few))
    assert "default: from 1 to 4 connections" in alone


def rivals_said(rows: list[MatrixRow]) -> str | None:
    return next((said for said in best_sentences(rows) if not said.startswith("Best cell")), None)


@pytest.mark.requirement("R-BEN-14")
def test_each_script_has_its_own_best_cell() -> None:
    rows = [made_row(4, 100.0), made_row(8, 120.0), made_row(4, 9000.0, mode="select-only")]
    said = best_sentences(rows)
    assert [words.split(", ")[1] for words in said] == ["1 load generator with 8 clients", "-S"]
    assert page(rows).title.startswith("Best cell: default, 1 load generator with 8 clients, 120 transactions")


@pytest.mark.requirement("R-BEN-14")
def test_the_best_cell_has_its_rivals_named() -> None:
    runs = {block: 100.0 + block % 3 for block in range(1, 9)}
    rows = [made_row(4, 101.0, runs=runs), made_row(8, 50.0, runs={block: one / 2 for block, one in runs.items()})]
    near = made_row(16, 100.9, runs={block: runs[1 + block % 8] for block in runs})
    assert rivals_said([*rows, near]) == "Not proved worse than it: default, 1 load generator with 16 clients."
    assert rivals_said(rows) == "It is better than every other cell of its script, by its repetitions."
    assert rivals_said(SMT8) is None, "one run each tells none from another"
    unlike = made_row(16, 100.9, runs=runs, mode="select-only")
    assert rivals_said([*rows, unlike]) == rivals_said(rows), "another script does other work"
    bought = replace(made_row(32, 500.0, runs={block: 5 * one for block, one in runs.items()}), durability="X")
    assert rivals_said([*rows, bought]) == rivals_said(rows), "class X is no rival"


@pytest.mark.requirement("R-BEN-16")
def test_figures_of_class_x_are_labelled_and_never_the_best() -> None:
    rows = seed_rows("fsync", configuration={"fsync Off": "fsync-off", "fsync On": "default"})
    report = page([replace(row, durability="X" if row.cell.configuration != "default" else "") for row in rows])
    said = text(report)
    assert "Best cell: default" in said
    assert "fsync-off [X]" in said
    assert "+15.05" in said
    assert "can lose committed data" in said


def test_rows_that_are_not_whole_say_so_and_skipped_cells_have_their_reason() -> None:
    partial = replace(made_row(8, 90.0), state="partial", reason="1 of 2 load generators ended early: killed")
    skipped = SkippedCell(replace(partial.cell, smt="4"), "SMT is not switchable here: one thread a core")
    report = page([made_row(4, 80.0), replace(partial, latency_ms=40.0)], (skipped,))
    said = text(report)
    assert "| not judged |" in said, "the clients of the lost generator are no contradiction"
    assert "Little's law is off" not in said
    assert "default (partial)" in said
    assert "1 of 2 load generators ended early: killed" in said
    assert "SMT is not switchable here: one thread a core" in said
    assert "1 of 2 rows did not complete" in said
    out = StringIO()
    print_report(report, out)
    terminal = " ".join(out.getvalue().split())
    assert "8 clients: partial, 1 of 2 load generators ended early: killed" in terminal
    assert "its figures are those of the run that was whole" in terminal
    assert "1 cell skipped: SMT is not switchable here: one thread a core." in terminal
    assert "VLAN 10" in said


@pytest.mark.requirement("R-BEN-12")
def test_a_row_that_contradicts_itself_is_flagged() -> None:
    wrong = replace(made_row(4, 80.0), latency_ms=60.0)
    assert "contradiction" in text(page([wrong]))
    assert "contradiction" not in text(page([made_row(4, 80.0)]))


@pytest.mark.requirement("R-MON-14", "R-MON-15")
def test_what_held_each_cell_back_is_told_of_its_last_complete_run(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(make_study(StudyKind.MATRIX, "m1"))
        runs = [record_filling(store, store.study("m1")).id for _ in range(2)]
        begun = store.begin_trial("m1", TrialSpec(BASELINE, Role.CELL, "cell", 1, 0))
        rows = [replace(made_row(4, 80.0), trials=(*runs, begun)), made_row(8, 90.0)]
        store.update_study("m1", result=made(StudyKind.MATRIX, {"rows": [plain(row) for row in rows]}))
        report = build_report(store, "m1")
    (section,) = [one for one in report.sections if one.id == "bottleneck"]
    table, failures, evidence = section.blocks
    assert isinstance(table, TableBlock)
    assert isinstance(evidence, TableBlock)
    assert [row[:4] for row in table.table.rows] == [("default", "1 x 4/1", str(runs[1]), "the load generator")]
    assert f"Run {runs[1]}: 0 failed transactions; no crash" in str(failures)
    assert {row[0] for row in evidence.table.rows} == {str(runs[1])}
    assert "bottleneck" not in {one.id for one in page(SMT8).sections}, "rows of which nothing was kept"


def test_plans_of_a_configuration_stand_beside_those_of_the_baseline_under_the_same_script() -> None:
    rows = [
        replace(made_row(4, 80.0, mode=mode, configuration=name), trials=trials)
        for name, mode, trials in (("default", "tpcb-like", (1, 2)), ("tuned", "tpcb-like", (3,)),
                                   ("default", "select-only", (4,)), ("tuned", "select-only", (5,)))
    ]  # fmt: skip
    shapes = {1: "Seq Scan", 2: "Seq Scan", 3: "Index Scan", 4: "Index Scan", 5: "Index Scan"}
    records = {run: (PlanRecord("q", shape, shape),) for run, shape in shapes.items()}
    study = replace(make_study(StudyKind.MATRIX), result=made(StudyKind.MATRIX, {"rows": [plain(row) for row in rows]}))
    (section,) = [one for one in compose(StudyRecord(study, (), records=records)).sections if one.id == "plans"]
    block = section.blocks[-1]
    assert isinstance(block, TableBlock)
    assert block.table.columns == ("configuration", "plan", "statement", "default", "the configuration")
    assert block.table.rows == (("tuned, default script, scale 10", "changed", "q", "Seq Scan", "Index Scan"),)
    assert "tuned, -S, scale 10: 1 statement kept the shape of the plan" in str(section.blocks[1])
    assert "plans" not in {one.id for one in compose(StudyRecord(study, ())).sections}, "where no plan was recorded"


def test_a_script_that_writes_no_history_has_none_to_be_wrong() -> None:
    rows = [replace(made_row(4, 80.0, mode=mode), transactions=9, history_rows=count)
            for mode, count in (("tpcb-like", 9), ("tpcb-like", 0), ("select-only", 0), ("custom", 5))]  # fmt: skip
    table = little_table(rows)
    assert [row[table.columns.index("history rows")] for row in table.rows] == ["9", "0 of 9", "", "5 of 9"]


def test_relations_stand_in_the_order_of_their_names_behind_the_database() -> None:
    names = [f"pgbench_{letter}" for letter in "hgfedcba"]
    sizes = dict.fromkeys([*names, "database"], 8192.0)
    (section,) = [one for one in page([replace(made_row(4, 80.0), bytes_before=sizes, bytes_after=sizes)]).sections
                  if one.id == "sizes"]  # fmt: skip
    (block,) = section.blocks
    assert isinstance(block, TableBlock)
    assert [row[1] for row in block.table.rows] == ["database", *reversed(names)]


def test_every_renderer_draws_it_and_a_study_without_rows() -> None:
    report = page(SMT8)
    assert html.render(report).count("<table") >= 4
    out = StringIO()
    print_report(report, out)
    assert "61963.9" in out.getvalue()
    assert [figure.id for figure in report.figures()][:2] == ["matrix-throughput", "matrix-latency"]
    table = next(iter(report.figures())).table
    assert table is not None
    assert table.columns == ("curve", "112", "224", "448")
    assert table.rows[1] == ("tuned, SMT 8", "60642.30", "61963.90", "57459.90")
    assert "No rows: the matrix is running" in text(page([]))


@pytest.mark.requirement("R-BEN-03", "R-BEN-12")
def test_what_is_doubtful_about_a_load_stands_under_the_answer() -> None:
    stopped = "the CPU limit of the load generators stopped them in up to 98 % of its periods"
    rows = [replace(made_row(clients, 80.0), warnings=(stopped,)) for clients in (1, 2, 3, 4, 5)]
    rows.append(replace(made_row(8, 80.0), latency_ms=60.0))
    said = text(page(rows))
    assert said.count(f"with 3 clients; 2 more rows: {stopped}.") == 1
    assert "off by more than 1 % in 1 row: default, 1 load generator with 8 clients (−40.0 %)." in said
    assert said.count(stopped) == 6, "and each row's own in the checks"
    many = [replace(made_row(number, 80.0), warnings=(f"warning {number}",)) for number in (1, 2, 3, 4, 5)]
    assert "2 more warnings: see the tables of the report." in text(page(many))


def test_the_facts_of_a_matrix_name_every_level_and_no_single_one() -> None:
    def facts(*modes: str) -> str:
        trials = [
            Trial(number, "m1", TrialSpec(BASELINE, Role.CELL, "cell", 1, number, factors=cell.factors()),
                  TrialState.COMPLETE, None)
            for number, cell in enumerate(
                (Cell(instances, clients, 1, mode, 10, "default", placement=placement)
                 for instances, clients, placement, mode in zip(
                     (1, 16, 2), (10, 4, 4), ("socket", "loopback", "socket"), modes, strict=True)), start=1)
        ]  # fmt: skip
        study = make_study(StudyKind.MATRIX)
        return str((*environment(study, trials).rows, *workload(study, trials).rows, limits(study, trials)))

    several = facts("tpcb-like", "select-only", "tpcb-like")
    for words in ("1, 2 or 16 load generators", "'clients', '4 or 10 in ", "by socket or loopback",
                  "'workloads', 'tpcb-like and select-only", "for this load: tpcb-like and select-only"):  # fmt: skip
        assert words in several
    assert "fingerprint of its scripts" not in several
    assert "fingerprint of its scripts" in facts(*("tpcb-like",) * 3)
