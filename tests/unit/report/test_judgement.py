"""What a bench came to is said alike by headline, short form, exit code, JSON and dashboard."""

from __future__ import annotations

import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

import study_example as example
from pgdyno.errors import ExitCode
from pgdyno.model.matrix import Cell
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.report.drawing.text import print_summary
from pgdyno.store.catalogue import Store
from pgdyno.studies.kinds import judged
from pgdyno.studies.reports import build_report
from pgdyno.trace.schema import AnswerClass
from pgdyno.web.overview import OverviewReader
from result_example import made

FOREIGN = "foreign CPU was 182 % of a core, above the bound of 15 %"


CELL = Cell(1, 4, 4, "tpcb-like", 1, "default").factors()


def run(number: int, state: str = "complete", tps: float = 551.0) -> dict[str, object]:
    reason = None if state == "complete" else FOREIGN
    return {"run": number, "state": state, "reason": reason, "tps": tps, "latency_ms": {"p50": 1.0, "p99": 9.0}}


def bench(store: Store, *runs: dict[str, object], top: int = -1) -> Study:
    """Keep a bench of these runs, with one of them at the top, as earlier versions had the last one."""
    study = example.add_bench(store)
    store.update_study(study, result=made(StudyKind.BENCH, {"study": study, **runs[top], "runs": list(runs)}))
    return store.study(study)


def told(store: Store, study: Study) -> str:
    stream = StringIO()
    print_summary(build_report(store, study.id), stream)
    return stream.getvalue()


def test_runs_that_were_not_used_give_no_figure_to_any_reader(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        study = bench(store, run(1, "disturbed"), run(2, "disturbed"))
        found, text = judged(study), told(store, study)
        reader = OverviewReader(store, clock=lambda: study.created_at + 60)
        row, alerts = reader.latest().rows[0], reader.latest().alerts
    assert found.title == f"No usable measurement: {FOREIGN}"
    assert text.splitlines()[0] == f"disturbed  {found.title}"
    assert "551" not in text, "no figure stands alone that nobody may use"
    assert "which was not used" in text
    assert f"run 1: {FOREIGN} (and 1 more like it)" in " ".join(text.split())
    assert (row.word, row.tone, row.said) == ("disturbed", "unsure", "no run was used")
    assert [alert.text for alert in alerts] == [f"bench {study.id} has no usable measurement: {FOREIGN}"]
    assert found.code is ExitCode.UNSUITABLE
    assert found.to_json()["exit_code"] == 6


def test_new_orders_a_minute_come_first_where_a_load_has_them(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        study = bench(store, {**run(1, tps=800.0), "counters": {"nopm": 21345.0}})
        found, report = judged(study), build_report(store, study.id)
    assert found.title.startswith("21,345 NOPM (not TPC-C), 800 transactions per second")
    assert found.said.startswith("21,345 NOPM (not TPC-C), 800 tps")
    assert next((one.label, one.value) for one in report.tiles) == ("new orders", "21,345 NOPM")


def test_the_figure_of_the_headline_is_of_a_run_that_was_used(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        study = bench(store, run(1, tps=700.0), run(2, tps=800.0), run(3, "disturbed", tps=100.0))
        found, text = judged(study), told(store, study)
        row = OverviewReader(store).latest().rows[0]
    assert found.title.startswith("800 transactions per second, p99 9 ms: the last of 2 runs, no comparison")
    assert found.title.endswith("; 1 run was not used (disturbed)")
    assert "800 tps" in text
    assert "100 tps" not in text
    assert f"run 3: {FOREIGN}" in " ".join(text.split())
    assert row.said == "800 tps; 1 run was not used (disturbed)"
    assert found.code is ExitCode.OK


@pytest.mark.parametrize("kind", list(StudyKind))
def test_the_judgement_of_every_kind_has_the_exit_code_of_its_verb(kind: StudyKind) -> None:
    result = made(kind, {"answers": dict.fromkeys(AnswerClass, 0)} if kind is StudyKind.REPLAY else {})
    study = replace(example.make_study(kind), state=StudyState.COMPLETE, result=result)
    assert judged(study).code is result.exit_code


@pytest.mark.parametrize(
    ("kind", "result", "word", "said", "code", "is_alert"),
    [
        (StudyKind.SELFTEST, {"word": "fail", "title": "no case holds"}, "fail", "0 of 0 cases as expected", 1, True),
        (StudyKind.NOISE, {"word": "too noisy", "title": "nothing shows"}, "too noisy", "nothing shows", 3, False),
        (StudyKind.SWEEP, {"word": "not resolved", "title": "flat"}, "not resolved", "flat", 3, False),
        (StudyKind.STAIRCASE, {"stopped": "time ran out"}, "keep", "time ran out", 3, False),
        (StudyKind.STAIRCASE, {"kept_steps": ["a", "b"]}, "complete", "2 steps kept, unproved together", 0, False),
        (StudyKind.IMPORTED, {"title": "3 runs of HammerDB"}, "imported", "3 runs of HammerDB", 0, False),
        (
            StudyKind.MATRIX,
            {"rows": [{"cell": CELL, "state": "failed"}]},
            "complete",
            "0 of 1 cell measured whole",
            3,
            True,
        ),
    ],
)
def test_the_dashboard_says_of_every_kind_what_its_exit_code_does(
    tmp_path: Path, kind: StudyKind, result: dict[str, object], word: str, said: str, code: int, is_alert: bool
) -> None:
    """It said complete of a self-test that failed, of too much noise, and of a sweep without an answer."""
    with Store.open(tmp_path / "s.db") as store:
        study = replace(example.make_study(kind), created_at=time.time())
        store.add_study(study)
        store.update_study(study.id, state=StudyState.COMPLETE, result=made(kind, {"study": study.id, **result}))
        first = OverviewReader(store).latest()
        row, found = first.rows[0], judged(store.study(study.id))
    assert (row.word, row.said, int(found.code)) == (word, said, code)
    assert bool(first.alerts) is is_alert


def test_a_study_of_another_kind_says_how_it_stands(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        study = store.study(example.add_bench(store))
    assert judged(replace(study, result=None)).title == "No verdict: the study is complete"
