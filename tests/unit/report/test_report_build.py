"""Reports of whole studies: what is in them, in which order, and as text and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import study_example as example
from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.record import CheckRecord, InstanceRecord, PlanRecord, TextRecord
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import Role, TrialSpec
from pgdyno.report.appendix import limits
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.payload import report_json
from pgdyno.report.sections import Prose, Report, Section, Snippet, Strips, TableBlock
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report, load_bins, recorded_runs
from report_example import built, text_of
from result_example import made
from tune_example import verdict_json


@pytest.fixture(scope="session")
def tune(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return built(tmp_path_factory.mktemp("tune"), example.add_tune)


def section(report: Report, name: str) -> Section:
    return next(one for one in report.sections if one.id == name)


def test_what_runs_left_beside_samples_is_read_by_run(tmp_path: Path) -> None:
    records = (
        InstanceRecord(0, 4, 1.0, 9.0, 800, 0, 100.0, 40.0, 0.5),
        CheckRecord("C1", 0, "sums agree"),
        PlanRecord("read", "abcd", "Index Scan"),
        TextRecord("log", "a line"),
    )
    with Store.open(tmp_path / "store.db") as store:
        study = example.add_bench(store)
        run = store.begin_trial(study, TrialSpec(example.BASELINE, Role.CELL, "cell", 1, 0))
        store.add_records(run, records)
        assert store.study_records(study) == {run: records}


def test_a_tune_answers_in_the_order_in_which_a_reader_asks(tune: Report) -> None:
    assert tune.title == "The winner is better: throughput 3.13x [3.04, 3.22] of the baseline, 8 interleaved pairs"
    assert tune.word == "better"
    assert [(tile.label, tile.word) for tile in tune.tiles] == [
        ("throughput", "better"),
        ("p99 latency", "better"),
        ("server CPU per transaction", "better"),
    ]
    assert [one.id for one in tune.sections] == [
        "change",
        "why",
        "confidence",
        "search",
        "bottleneck",
        "recorder",
        "inside",
        "unsuccessful",
        "about",
    ]


def test_the_change_comes_with_effects_fragment_and_undo(tune: Report) -> None:
    blocks = section(tune, "change").blocks
    table = next(block.table for block in blocks if isinstance(block, TableBlock))
    assert table.rows[0][0] == "shared_buffers"
    assert {row[5] for row in table.rows} == {"restart", "reload"}
    snippets = {block.label: block.text for block in blocks if isinstance(block, Snippet)}
    assert "shared_buffers = '4GB'\n" in snippets["Lines for postgresql.conf"]
    assert "the default of 128MB comes back" in snippets["Undo"]
    assert any("restarted once" in s for block in blocks if isinstance(block, Prose) for s in block.sentences)


def test_durability_stands_next_to_the_numbers(tune: Report) -> None:
    assert "fsync on, full_page_writes on, synchronous_commit on, wal_sync_method open_datasync" in tune.stamp
    assert "changes of class B: memory or availability" in tune.stamp


def test_the_recorder_shows_baseline_and_winner_side_by_side(tune: Report) -> None:
    strips = next(block for block in section(tune, "recorder").blocks if isinstance(block, Strips))
    assert [name.split(",")[0] for name in strips.columns] == ["the baseline", "the winner"]
    assert len(strips.rows) == 7
    assert all(figure is not None for row in strips.rows for figure in row)


def test_what_did_not_help_is_told(tune: Report) -> None:
    text = markdown.render(tune)
    assert "did not start: could not map anonymous shared memory" in text
    assert "wal\\_buffers" in text
    assert "its removal cost nothing measurable" in text
    assert "foreign CPU 31 % of one core is above the bound" in text


def test_every_pair_is_a_dot(tune: Report) -> None:
    figure = next(one for one in tune.figures() if one.id == "pairs")
    assert len(figure.series[0].y) == 8 * 5


def test_missing_tables_leave_their_strips_out(tmp_path: Path) -> None:
    old = built(tmp_path, lambda store: example.add_tune(store, old_server=True))
    strips = next(block for block in section(old, "recorder").blocks if isinstance(block, Strips))
    assert "wal" not in {figure.id.split("-")[0] for row in strips.rows for figure in row if figure}
    assert "unknown (/proc/cpuinfo names none)" in text_of(old)


def test_a_trial_that_a_killed_study_left_is_not_said_to_run(tmp_path: Path) -> None:
    """The page cannot see whether the process is there."""

    def killed(store: Store) -> str:
        name = example.add_bench(store)
        for block in (5, 6):
            store.begin_trial(name, TrialSpec(Configuration(), Role.BASELINE, "run", block, 0))
        store.update_study(name, state=StudyState.INTERRUPTED)
        return name

    text = text_of(built(tmp_path, killed))
    assert "still running" not in text
    assert "begun and not ended: it runs, or was killed" in text


def test_a_bench_has_no_verdict(tmp_path: Path) -> None:
    report = built(tmp_path, example.add_bench)
    assert re.fullmatch(r"[\d,]+ transactions per second, p99 [\d.]+ ms: one run, no comparison", report.title)
    assert report.word == ""
    assert [one.id for one in report.sections] == ["bottleneck", "recorder", "inside", "about"]
    assert all(tile.word == "" for tile in report.tiles)


def test_a_bench_names_the_settings_that_it_measured_with(tmp_path: Path) -> None:
    own = Configuration.of({"enable_indexscan": "off", "work_mem": "8MB"})
    report = built(tmp_path, lambda store: example.add_bench(store, settings=own))
    assert "with 2 settings of its own" in report.lead
    for sections in (report.sections, report.digest):
        (section,) = [one for one in sections if one.title == "What was set"]
        assert "('enable_indexscan', 'off')" in str(section)
        assert "('work_mem', '8MB')" in str(section)
    (tmp_path / "plain").mkdir()
    plain = built(tmp_path / "plain", example.add_bench)
    assert "of its own" not in plain.lead
    assert all(one.title != "What was set" for one in plain.sections)


def test_a_bench_that_never_became_steady_shows_no_number(tmp_path: Path) -> None:
    def unsteady(store: Store) -> str:
        study = example.add_bench(store)
        result = {"study": study, "run": 1, "state": "unsteady", "reason": "throughput fell by 74%", "tps": None}
        store.update_study(study, result=made(StudyKind.BENCH, {**result, "runs": [result]}))
        return study

    report = built(tmp_path, unsteady)
    assert report.title == "No usable measurement: throughput fell by 74%"
    assert (report.word, report.tiles) == ("unsteady", ())
    assert html.render(report)


def test_unsafe_settings_of_the_server_are_told(tmp_path: Path) -> None:
    def unsafe(store: Store) -> str:
        study = replace(example.make_study(), facts={**example.FACTS, "settings": {"fsync": "off"}})
        store.add_study(study)
        return study.id

    assert "fsync off" in built(tmp_path, unsafe).stamp


def test_an_ab_experiment_keeps_its_word(tmp_path: Path) -> None:
    report = built(tmp_path, example.add_ab)
    assert report.title.startswith("Not resolved (about 9 more pairs): B has throughput 1.01x")
    assert [one.id for one in report.sections] == ["change", "confidence", "bottleneck", "inside", "about"]
    assert "A and B differ in 2 settings." in text_of(report)


def test_an_unfinished_study_gives_a_report_without_a_verdict(tmp_path: Path) -> None:
    def interrupted(store: Store) -> str:
        study = replace(example.make_study(), state=StudyState.INTERRUPTED)
        store.add_study(study)
        return study.id

    report = built(tmp_path, interrupted)
    assert report.title == "No verdict: the study is interrupted"
    assert "interrupted" in html.render(report)
    assert markdown.render(report)


def test_an_unknown_study_is_a_usage_error(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store, pytest.raises(UsageError):
        build_report(store, "nothing")


def test_text_and_json_hold_the_verdict(tune: Report) -> None:
    assert "3.13x [3.04, 3.22]" in text_of(tune)
    assert json.loads(report_json(tune))["word"] == "better"
    assert max(map(len, text_of(tune).splitlines())) <= 120


def test_load_bins_leave_out_half_seconds_and_merge_scripts(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        example.add_bench(store)
        rows = store.histograms(1)
    began = float(rows[0].second) + 0.4
    bins = load_bins([*rows, *rows], began, began + 10, 1)
    assert [bin_.second for bin_ in bins] == [rows[0].second + k + 0.5 for k in range(1, 10)]
    assert bins[0].throughput == 2 * rows[1].count
    assert bins[0].p50 is not None
    assert bins[0].p99 is not None
    assert bins[0].p50 < bins[0].p99


def test_a_second_without_a_transaction_has_no_latency(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        example.add_bench(store)
        rows = store.histograms(1)
    began = float(rows[0].second)
    bins = load_bins([rows[0], rows[2]], began, began + 3, 1)
    assert (bins[1].throughput, bins[1].p99) == (0.0, None)


def test_the_last_bin_is_as_wide_as_the_seconds_that_are_left(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        example.add_bench(store)
        rows = store.histograms(1)[:6]
    began = rows[0].second
    bins = load_bins(rows, began, began + 6.5, 4)
    assert [(one.second, one.throughput) for one in bins] == [
        (began + 2, sum(row.count for row in rows[:4]) / 4),
        (began + 5, sum(row.count for row in rows[4:]) / 2),
    ]
    stalled = load_bins(rows[:4], began, began + 9, 4)
    assert [one.throughput for one in stalled[1:]] == [0.0, 0.0], "until its end, where nothing came any more"
    assert load_bins([], began, began + 9, 4) == []


def test_a_level_of_a_sweep_that_is_first_and_taken_is_recorded_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        bench = example.add_bench(store)
        (run,) = (trial.id for trial in store.trials(bench))
        side = {"name": "1MB", "settings": {}, "run": run, "latency_ms": {}}
        sweep = replace(
            store.study(bench), kind=StudyKind.SWEEP, result=made(StudyKind.SWEEP, {"baseline": side, "winner": side})
        )
        assert [(name, trial.id) for name, trial in recorded_runs(sweep, store.trials(bench))] == [("1MB", run)]
        other = made(StudyKind.SWEEP, {"baseline": side, "winner": {**side, "name": "4MB"}})
        names = [name for name, _ in recorded_runs(replace(sweep, result=other), store.trials(bench))]
        assert names == ["1MB", "4MB"]


def test_what_was_imported_claims_no_laboratory(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        study = store.study(example.add_bench(store))
    ours, theirs = (str(limits(replace(study, kind=kind))) for kind in (StudyKind.BENCH, StudyKind.IMPORTED))
    assert "under laboratory conditions" in ours
    assert "under laboratory conditions" not in theirs
    assert "is not known here" in theirs


def with_result(tmp_path: Path, **members: object) -> Report:
    with Store.open(tmp_path / "store.db") as store:
        study = example.add_tune(store)
        store.update_study(
            study, result=made(StudyKind.TUNE, {**cast(Any, plain(store.study(study).result)), **members})
        )
        return build_report(store, study)


def test_a_setting_that_was_not_measured_alone_is_listed_and_its_restart_is_told(tmp_path: Path) -> None:
    winner = {"work_mem": "16MB", "shared_buffers": "3GB"}
    effect = {"knob": "work_mem", "from": "4MB", "to": "16MB", "ratio": 1.1, "ci": [1.05, 1.2], "why": "sorts",
              "durability": "A", "context": "user"}  # fmt: skip
    unmeasured = {"knob": "shared_buffers", "from": "128MB", "to": "3GB", "why": "cache", "durability": "A",
                  "context": "postmaster"}  # fmt: skip
    report = with_result(tmp_path, effects=[effect], unmeasured=[unmeasured], winner={"settings": winner})
    text = " ".join(text_of(report).split())
    assert "2 settings to change. PostgreSQL has to be restarted once. 1 of them was not measured alone" in text
    (table,) = [block for block in section(report, "change").blocks if isinstance(block, TableBlock)]
    assert [row[0] for row in table.table.rows] == ["work_mem", "shared_buffers"]
    assert table.table.rows[1][3:5] == ("not measured alone", "")


def test_a_result_without_what_a_setting_needs_claims_nothing_of_restarts(tmp_path: Path) -> None:
    report = with_result(tmp_path, effects=[], winner={"settings": {"shared_buffers": "3GB"}})
    assert "A reload is enough" not in text_of(report)
    assert "pg_settings.context says it" in " ".join(text_of(report).split())


def test_a_pruning_that_was_taken_back_is_told_with_what_it_would_have_cost(tmp_path: Path) -> None:
    worse = verdict_json("throughput", 0.81, 0.72, 0.91, "worse")
    best = {"jit": "off", "shared_buffers": "3GB"}
    report = with_result(
        tmp_path,
        effects=[],
        winner={"settings": best},
        search={"best": best},
        unpruned=worse,
        taken_back={"jit": "off"},
    )
    text = " ".join(text_of(report).split())
    assert "With jit alone, throughput is 81 % [72, 91] of that with both: so all stay." in text
