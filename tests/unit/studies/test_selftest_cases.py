"""The self-test's cases: what each word means for the test, and the page that says so."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from facts_from_params import make_facts
from pgdyno.knobs.policy import check_settings
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report
from pgdyno.studies.selftest import run as selftest
from pgdyno.studies.selftest.run import (
    CASES,
    CaseWord,
    changed_settings,
    chosen,
    obstacle,
    record_of,
    run_selftest,
    selftest_result,
    with_restored,
)
from pgdyno.workloads.registry import make_workload
from simulated_laboratory import SimulatedLaboratory, simulated_study

pytestmark = pytest.mark.requirement("R-EXP-11")
BY_NAME = {case.name: case for case in CASES}
DESIGN = Design(smallest_effect=0.05, confidence=0.99, min_pairs=4, max_pairs=8)
SURFACES = {
    "equal": lambda _: 1.0,
    "harmed": lambda settings: 0.1 if settings else 1.0,
    "helped": lambda settings: 10.0 if settings else 1.0,
}


@pytest.mark.parametrize("name", ["cache", "planner", "wal"])
@pytest.mark.parametrize(
    ("word", "result"),
    [
        (Word.WORSE, CaseWord.AS_EXPECTED),
        (Word.NOT_RESOLVED, CaseWord.NOT_RESOLVED),
        (Word.EQUIVALENT, CaseWord.MISSED),
        (Word.BETTER, CaseWord.MISSED),
    ],
)
def test_a_sabotage_must_come_out_worse(name, word, result):
    assert BY_NAME[name].judge(word) is result


@pytest.mark.parametrize("word", list(Word))
def test_equal_must_make_no_claim(word):
    expected = word in (Word.EQUIVALENT, Word.NOT_RESOLVED)
    assert BY_NAME["equal"].judge(word) is (CaseWord.AS_EXPECTED if expected else CaseWord.MISSED)


@pytest.mark.parametrize("major", [13, 18])
def test_every_sabotage_is_allowed_by_the_policy_and_known_to_every_version(major):
    for case in CASES:
        assert len(check_settings(case.settings, make_facts(major))) == len(case.settings)
        make_workload(case.workload, case.parameters)
        assert obstacle(case, make_facts(major)) is None


def test_a_server_on_which_a_sabotage_does_no_harm_says_so():
    facts = make_facts(18)

    def having(**settings):
        rows = {name: replace(facts.settings[name], setting=value) for name, value in settings.items()}
        return replace(facts, settings={**facts.settings, **rows})

    assert "synchronous_commit" in obstacle(BY_NAME["wal"], having(synchronous_commit="off"))
    assert "smaller" in obstacle(BY_NAME["cache"], having(shared_buffers="1024"))


@pytest.fixture
def cases(monkeypatch):
    """Run cases on the simulated laboratory: its server is a response surface."""

    class Data:
        def make_ready(self, *_, **__):
            pass

    monkeypatch.setattr(selftest, "_With", lambda laboratory, _: laboratory)

    def run(surface, names=("cache",), **more):
        laboratory = SimulatedLaboratory(SURFACES[surface], cv=0.02, **more)
        found = run_selftest(laboratory, Data(), chosen(names), design=DESIGN, seed=1, announce=lambda _: None)
        return laboratory, found

    return run


@pytest.mark.parametrize(
    ("surface", "result"),
    [("harmed", CaseWord.AS_EXPECTED), ("equal", CaseWord.MISSED), ("helped", CaseWord.MISSED)],
)
def test_the_verdict_decides(cases, surface, result):
    _, (outcome,) = cases(surface)
    if surface == "equal" and outcome.verdict.word is Word.NOT_RESOLVED:
        result = CaseWord.NOT_RESOLVED
    assert outcome.result is result


def test_a_case_that_cannot_be_measured_does_not_keep_the_others_from_theirs(cases):
    _, outcomes = cases("harmed", ("cache", "planner"), fails=lambda settings: "shared_buffers" in settings)
    assert [outcome.result for outcome in outcomes] == [CaseWord.NOT_RESOLVED, CaseWord.AS_EXPECTED]
    assert "cannot be measured" in outcomes[0].reason


def test_the_trials_name_their_case(cases):
    laboratory, _ = cases("harmed", ("cache", "planner"))
    assert {trial.spec.factors["case"] for trial in laboratory.store.kept} == {"cache", "planner"}


def test_settings_that_are_left_changed_are_found():
    assert changed_settings({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]
    assert changed_settings({"a": "1"}, {"a": "1"}) == []


def outcome(name, word, ratio):
    verdict = Verdict(word, Interval(ratio, ratio / 1.2, ratio * 1.2, 0.99), 4, Metric.THROUGHPUT, 0.05)
    return record_of(BY_NAME[name], BY_NAME[name].judge(word), verdict)


def result_of(*outcomes):
    study = replace(simulated_study(), kind=StudyKind.SELFTEST, state=StudyState.COMPLETE)
    store = SimpleNamespace(trials=lambda _: [])
    return selftest_result(SimpleNamespace(study=study, store=store, spent_s=5.0), outcomes)


@pytest.mark.parametrize(
    ("words", "left", "word"),
    [
        (("equivalent", "worse"), [], "pass"),
        (("equivalent", "not resolved"), [], "not resolved here"),
        (("equivalent", "better"), [], "fail"),
        (("better", "worse"), [], "fail"),
        (("equivalent", "worse"), ["work_mem"], "fail"),
        (("equivalent", "worse"), None, "not resolved here"),
    ],
)
def test_the_whole_is_as_good_as_its_worst_case(words, left, word):
    first, second = words
    result = result_of(outcome("equal", Word(first), 1.0), outcome("cache", Word(second), 0.2))
    assert with_restored(result, left, "gone").word == word


def test_the_page_has_a_row_a_case_in_every_format(tmp_path):
    result = with_restored(result_of(outcome("equal", Word.EQUIVALENT, 1.0), outcome("wal", Word.WORSE, 0.01)), ["x"])
    json.dumps(plain(result))
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(replace(simulated_study(), kind=StudyKind.SELFTEST, state=StudyState.COMPLETE))
        store.update_study("s1", result=result)
        report = build_report(store, "s1")
    text = io.StringIO()
    print_report(report, text)
    for page in (text.getvalue(), markdown.render(report), html.render(report)):
        assert "2 of 3 cases pass, 1 fails" in page
        assert "still changed: x" in page
        assert "before each" in " ".join(page.split())
