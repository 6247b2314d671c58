"""The short form that a study prints at its end, and the verdict that nothing is to be changed."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

import study_example as example
from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.tune import SearchFigures, TuneResult
from pgdyno.model.study import StudyState
from pgdyno.model.trial import TUNE_PROOF_BLOCKS, Outcome, Role, TrialSpec, TrialState
from pgdyno.model.verdict import Interval, Metric
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.console import pipe_width
from pgdyno.report.drawing.text import print_report, print_summary
from pgdyno.report.figures import TrialPoint
from pgdyno.report.neighbours import phases
from pgdyno.report.sections import Report, Section, TableBlock, Tone
from pgdyno.report.wording import difference_text
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report
from pgdyno.studies.tune.doubts import noise_facts, rival_sentences, warnings_of
from result_example import part

GOLDEN = Path(__file__).parent / "golden"
MOST_LINES = 48
STUDIES: dict[str, Callable[[Store], str]] = {
    "tune": example.add_tune,
    "keep": example.add_keep,
    "bench": example.add_bench,
    "ab": example.add_ab,
}


def make(folder: Path, add: Callable[[Store], str]) -> Report:
    with Store.open(folder / "store.db") as store:
        return build_report(store, add(store))


def summary(report: Report) -> str:
    stream = StringIO()
    print_summary(report, stream)
    return stream.getvalue()


@pytest.mark.parametrize("name", STUDIES)
def test_the_short_form_is_as_it_was_read(tmp_path: Path, name: str) -> None:
    text = summary(make(tmp_path, STUDIES[name]))
    path = GOLDEN / f"summary-{name}.txt"
    if os.environ.get("PGDYNO_BLESS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_the_short_form_is_short_and_plain(tmp_path: Path, name: str) -> None:
    lines = summary(make(tmp_path, STUDIES[name])).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 120
    assert all(line == line.rstrip() for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_terminal_gets_its_own_width_and_no_colour_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    report, shown = make(tmp_path, example.add_tune), {}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for colour in (True, False):
        if not colour:
            monkeypatch.setenv("NO_COLOR", "1")
        stream = Terminal()
        print_summary(report, stream)
        shown[colour] = stream.getvalue()
    assert "\x1b[1;32m" in shown[True]
    assert "\x1b[1;32m" not in shown[False]
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown[False])
    assert max(map(len, plain.splitlines())) == 80


@pytest.mark.parametrize(
    ("asked", "width"), [(None, 120), ("80", 80), ("1", 40), ("", 120), ("wide", 120), ("-5", 120), ("99999", 120)]
)
def test_a_pipe_is_as_wide_as_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if asked is not None:
        monkeypatch.setenv("COLUMNS", asked)
    assert pipe_width() == width
    stream = StringIO()
    print_summary(make(tmp_path, example.add_tune), stream)
    assert 0.9 * width < max(map(len, stream.getvalue().splitlines())) <= width


def test_a_table_of_the_short_form_has_its_numbers_whole_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    columns = ("Test", "TPS", "LAT", "CPU %", "Row Exclusive", "Access Share", "Exclusive Lock", "what it is of")
    wide = Table(columns, (("default", "13156.80", "0.15", "99.88", "0 (max 0)", "12 (max 17)", "0 (max 0)", "x"),))
    report = make(tmp_path, example.add_tune)
    section = Section("matrix", "Matrix", "", (TableBlock(wide, ""),))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    print_summary(replace(report, digest=(section,)), stream)
    plain = re.sub(r"\x1b\[[\d;]*m", " ", stream.getvalue())
    assert {"13156.80", "99.88", "LAT", "Exclusive"} <= set(plain.split())


def test_an_unfinished_study_says_where_its_report_is(tmp_path: Path) -> None:
    def interrupted(store: Store) -> str:
        study = replace(example.make_study(), state=StudyState.INTERRUPTED)
        store.add_study(study)
        return study.id

    text = summary(make(tmp_path, interrupted))
    assert "No verdict: the study is interrupted" in text
    assert "pgdyno report tune-3fa94c" in text


@pytest.mark.parametrize(
    ("word", "ratio", "tone"),
    [("equivalent", 1.004, Tone.NEUTRAL), ("worse", 0.93, Tone.NEUTRAL), ("not resolved", 1.01, Tone.UNSURE)],
)
def test_keep_cannot_be_misread_in_any_format(tmp_path: Path, word: str, ratio: float, tone: Tone) -> None:
    report = make(tmp_path, lambda store: example.add_keep(store, word=word, ratio=ratio))
    stream = StringIO()
    print_report(report, stream)
    assert (report.word, report.tone) == ("keep", tone)
    for drawn in (summary(report), stream.getvalue(), markdown.render(report), html.render(report)):
        assert "Keep your configuration" in drawn
        assert "Nothing: keep your configuration." in drawn
        assert f"{word.capitalize()} within" in drawn if word == "equivalent" else word in drawn.lower()
        assert "The winner" not in drawn
        assert "Lines for postgresql.conf" not in drawn
        assert "Why it works" not in drawn
    assert "shared_buffers =" not in summary(report)


def test_a_study_that_failed_says_what_ended_it(tmp_path: Path) -> None:
    reason = 'script "bad", line 1: relation "nowhere" does not exist'

    def failing(store: Store) -> str:
        study = replace(example.make_study(), state=StudyState.FAILED)
        store.add_study(study)
        run = store.begin_trial(study.id, TrialSpec(Configuration(), Role.ARM, "bench", 0, 0))
        store.finish_trial(run, Outcome(TrialState.FAILED, reason=reason))
        return study.id

    report = make(tmp_path, failing)
    assert report.title == "No verdict: the study failed"
    for drawn in (summary(report), html.render(report)):
        assert "relation" in drawn
        assert "does not exist" in drawn


@pytest.mark.parametrize("state", [StudyState.FAILED, StudyState.INTERRUPTED])
def test_a_study_that_an_error_ended_says_which_and_its_last_run_only_what_that_does_not(
    tmp_path: Path, state: StudyState
) -> None:
    def failing(store: Store) -> str:
        study = replace(example.make_study(), state=StudyState.RUNNING)
        store.add_study(study)
        run = store.begin_trial(study.id, TrialSpec(Configuration(), Role.ARM, "bench", 0, 0))
        store.finish_trial(run, Outcome(TrialState.FAILED, reason="the server hung"))
        store.update_study(study.id, state=state, ended="the load failed: the server hung")
        return study.id

    drawn = summary(make(tmp_path, failing))
    assert "The load failed: the server hung." in drawn
    assert drawn.count("the server hung") == 1


def test_where_nothing_but_the_baseline_was_measured_nothing_is_claimed(tmp_path: Path) -> None:
    def nothing_found(store: Store) -> str:
        study = example.add_keep(store)
        result = store.study(study).told(TuneResult)
        assert result is not None
        search = part(SearchFigures, {})
        store.update_study(study, result=replace(result, verdict=None, winner=result.baseline, search=search))
        return study

    report = make(tmp_path, nothing_found)
    assert report.title == "Not resolved: no configuration but the baseline was tried"
    assert (report.word, report.tone) == ("not resolved", Tone.UNSURE)
    assert [tile.label for tile in report.tiles][:1] == ["throughput"]
    assert not any("→" in tile.value or "verdict" in tile.word for tile in report.tiles), "one side, no comparison"
    drawn = markdown.render(report)
    assert "best candidate:" not in drawn
    assert "best candidate changed" not in drawn
    assert "None that was tried" not in drawn


def test_an_interval_without_an_end_is_a_verdict_all_the_same(tmp_path: Path) -> None:
    """After two pairs nothing bounds the interval above: candidates were measured, and the page must say so."""

    def open_ended(store: Store) -> str:
        study = example.add_keep(store, word="not resolved", ratio=1.01)
        result = store.study(study).told(TuneResult)
        assert result is not None
        assert result.verdict is not None
        open_end = replace(result.verdict, interval=replace(result.verdict.interval, lo=0.9, hi=math.inf), pairs=2)
        store.update_study(study, result=replace(result, verdict=open_end))
        return study

    report = make(tmp_path, open_ended)
    assert report.title == "Keep your configuration: nothing that was tried proved better"
    for drawn in (summary(report), markdown.render(report), html.render(report)):
        is_claimed, is_told = "no configuration but the baseline" in drawn, "not resolved" in drawn.lower()
        assert (is_claimed, is_told) == (False, True)


def test_the_size_of_the_data_stands_next_to_the_numbers(tmp_path: Path) -> None:
    report = make(tmp_path, example.add_tune)
    assert "data 1.5 GB, 6.4 % of memory" in report.stamp
    assert "shared_buffers of 4 GB against 1.5 GB of data: all of it fits" in markdown.render(report).replace("\\", "")


def test_an_old_study_does_not_know_the_size_of_its_data(tmp_path: Path) -> None:
    def interrupted(store: Store) -> str:
        store.add_study(example.make_study())
        return example.make_study().id

    assert "data of unknown size" in make(tmp_path, interrupted).stamp


def test_a_rival_is_told_in_words() -> None:
    def said(lo: float, hi: float) -> str:
        over = {"ratio": (lo + hi) / 2, "ci": [lo, hi]}
        rival = {"name": "by-hand", "settings": {"jit": "off"}, "winner_over_rival": over}
        return rival_sentences(part(TuneResult, {"rivals": [rival]}))[0]

    assert said(0.8, 1.2).startswith("The winner reaches 100 % [80, 120] of the throughput of by-hand (jit = off)")
    assert said(0.8, 1.2).endswith("no difference is shown.")
    assert said(1.1, 1.2).endswith("that is better.")
    assert said(0.8, 0.9).endswith("that is worse.")
    assert difference_text(Interval(0.8, 0.7, 0.9, 0.95), Metric.LATENCY_P99) == "that is better"


def test_warnings_that_differ_in_a_number_are_told_once() -> None:
    texts = ["77 transactions in 6 s are few", "93 transactions in 6 s are few", "the load only reads"]
    assert warnings_of(part(TuneResult, {"warnings": texts})) == (
        "77 transactions in 6 s are few (and 1 more like it)",
        "the load only reads",
    )


def test_phases_follow_the_roles_of_a_block() -> None:
    plan = [
        (Role.BASELINE, 0),
        (Role.SEARCH, 1),
        (Role.BASELINE, 1),
        (Role.BASELINE, 10),
        (Role.CONFIRM, 10),
        (Role.PRUNE, 11),
        (Role.BASELINE, 20),
        (Role.CONFIRM, 20),
        (Role.EFFECT, 20),
    ]
    points = [TrialPoint(n, role, TrialState.COMPLETE, 1.0, "", "", block) for n, (role, block) in enumerate(plan, 1)]
    assert phases(points) == [(1, "noise"), (2, "search"), (4, "screening"), (6, "pruning"), (7, "proof")]
    assert phases([]) == []
    now = list(points[:3])
    now += [TrialPoint(9, Role.CONFIRM, TrialState.COMPLETE, 1.0, "", "", TUNE_PROOF_BLOCKS)]
    assert phases(now) == [(1, "noise"), (2, "search"), (9, "proof")]


def test_settings_dropped_for_one_reason_share_a_row(tmp_path: Path) -> None:
    text = markdown.render(make(tmp_path, example.add_tune)).replace("\\", "")
    assert "| wal_buffers 4MB → 64MB, max_parallel_workers_per_gather 2 → 0, bgwriter_lru_maxpages 100 → 740 |" in text
    assert "<details><summary>Left alone: 1 knob of the catalogue.</summary>" in text


@pytest.mark.parametrize(
    ("noise", "single", "effect"),
    [
        ({"cv": 0.021, "pairs": 6, "detectable": 0.034, "runs": [1, 2, 3, 4]}, "2.1 %", "3.4 % with 6 pairs"),
        ({"cv": 0.022, "pairs": 6, "detectable": 0.005, "runs": [1, 2, 3]}, "2.2 %", "unknown: 3 runs are too few"),
        ({"cv": 0.022, "pairs": 6, "detectable": None, "runs": [1, 2, 3]}, "2.2 %", "unknown: 3 runs are too few"),
        (
            {"cv": 0.02, "pairs": 6, "detectable": 0.03, "runs": [2, 3, 4, 5], "odd": {"run": 1, "ratio": 0.065}},
            "one more (trial 1) was 0.065 times the others and is left out",
            "3 % with 6 pairs",
        ),
        ({"cv": 0.61, "pairs": 6, "detectable": None, "runs": [1, 2, 3, 4]}, "61 %", "unknown: 4 runs differ too much"),
        ({"cv": 0.61, "pairs": 6, "detectable": 15.1, "runs": [1, 2, 3, 4]}, "61 %", "unknown: 4 runs differ too much"),
    ],
)
def test_the_noise_is_told_in_words_and_never_as_a_nonsense_figure(noise, single, effect) -> None:
    rows = dict(noise_facts(part(TuneResult, {"noise_floor": noise})))
    assert single in rows["noise of a single run"]
    assert effect in rows["smallest effect that shows"]
    assert "e+" not in rows["smallest effect that shows"]
