"""What is done with what a search found: begun again at times, or its conservative neighbour kept. By their flags."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from facts_from_params import make_facts
from live_search_example import BETTER, search
from pgdyno.cli import apply, live
from pgdyno.cli.requests import study_request
from pgdyno.errors import UsageError
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.studies import winner
from pgdyno.studies.advice import accept
from pgdyno.studies.live import run, search_run
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.session import opening, study_session
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets import inspect
from simulated_live_world import WATCHED
from study_example import make_study

LEAN = replace(BETTER, b={"work_mem": "8MB"}, memory_bytes=1 << 20)
FOUND = search(finals=(replace(BETTER, memory_bytes=1 << 30), LEAN), chosen=0)
BEGUN = LiveOptions(reference_s=600.0, budget_s=7200.0, seed=3, not_during=("18:00-20:00",))
KEPT = {
    "reference_s": 600.0, "budget_s": 7200.0, "seed": 3, "not_during": ["18:00-20:00"], "wash_s": None,
    "guards": BEGUN.guards.to_json(), "design": {"smallest_effect": 0.05}, "candidates": 12, "only": ["work_mem"],
    "include": [], "exclude": [], "connections": 8,
}  # fmt: skip


class Reached(Exception):
    """What a verb hands on was seen."""


class _Store(AbstractContextManager):
    def __init__(self, study: Study) -> None:
        self._study = study

    def __exit__(self, *_error: object) -> None:
        pass

    def studies(self) -> list[Study]:
        return [self._study]

    def study(self, _name: str) -> Study:
        return self._study


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Study:
    """A search that is over, in a store; every server that is opened is none."""
    found = replace(
        make_study(StudyKind.LIVE), id="x", state=StudyState.COMPLETE, result=replace(WATCHED, search=FOUND),
        options={"live": KEPT, "target": TargetRequest(dsn="host=/nowhere").to_json()},
    )  # fmt: skip
    store = _Store(found)
    for verb in (live, apply):
        monkeypatch.setattr(verb, "open_store", lambda _url: store)
    for module in (opening, study_session):
        monkeypatch.setattr(module, "opened", lambda _request: nullcontext(SimpleNamespace(name="db1")))
    return found


@pytest.mark.requirement("R-TUN-13")
def test_again_begins_the_same_search_as_a_new_study_with_another_seed(study: Study, monkeypatch) -> None:
    asked = []

    def begun(_store, _target, request, options, search_asked, *_more, resumed, **_how):
        asked.append((request, options, search_asked, resumed))
        raise Reached

    monkeypatch.setattr(search_run, "search_study", begun)
    for words in (("--again", "last"), ("--again", "x", "--target", "host=/elsewhere")):
        done = CliRunner().invoke(live.command, [*words, "--approve", "auto"])
        assert isinstance(done.exception, Reached), done.output
    (request, options, again, resumed), (elsewhere, *_) = asked
    assert (request.dsn, elsewhere.dsn) == ("host=/nowhere", "host=/elsewhere")
    assert resumed is None
    assert (again.candidates, again.only) == (12, ("work_mem",))
    assert options == replace(
        BEGUN, seed=options.seed, design=replace(BEGUN.design, smallest_effect=0.05), watch=options.watch
    )
    assert options.seed != KEPT["seed"]


@pytest.mark.parametrize("verb", ["--again", "--resume"])
def test_last_is_never_of_another_server_than_the_one_that_was_named(study: Study, monkeypatch, verb: str) -> None:
    facts = make_facts(18)
    there = replace(facts, server=replace(facts.server, system_identifier="8"))
    here = replace(facts, server=replace(facts.server, system_identifier="7"))
    monkeypatch.setattr(live, "open_store", lambda _url: _Store(replace(study, facts=facts_image(there))))
    monkeypatch.setattr(opening, "opened", lambda _request, **_how: nullcontext(SimpleNamespace(name="db1")))
    monkeypatch.setattr(inspect, "read_facts", lambda _target: here)
    done = CliRunner().invoke(live.command, [verb, "last", "--target", "host=/elsewhere", "--approve", "auto"])
    assert isinstance(done.exception, UsageError), done.output
    assert done.exception.message in (
        "the store has no live study of this server that compared or searched",
        "the store has no live study of this server that could be resumed",
    )


@pytest.mark.requirement("R-TUN-13")
@pytest.mark.parametrize(("words", "settings"), [((), dict(BETTER.b)), (("--conservative",), {"work_mem": "8MB"})])
def test_apply_takes_the_winner_or_of_what_held_the_one_with_the_least_memory(study, monkeypatch, words, settings):
    taken = []

    def prepared(_target, findings, **_how):
        taken.extend(findings)
        raise Reached

    monkeypatch.setattr(accept, "prepare", prepared)
    monkeypatch.setattr(inspect, "read_facts", lambda _target: make_facts(18))
    monkeypatch.setattr(winner, "check_server", lambda *_: None)
    done = CliRunner().invoke(apply.command, ["--study", "x", *words])
    assert isinstance(done.exception, Reached), done.output
    (finding,) = taken
    assert {one.knob: one.value for one in finding.changes} == settings


def test_a_study_of_restarts_is_not_resumed_where_nobody_could_approve_them(study: Study, monkeypatch) -> None:
    """By its windows, which no flag gives again: it would watch the server, and then find nobody to ask."""
    times = {name: KEPT[name] for name in ("reference_s", "budget_s", "seed", "guards")}
    begun = {**times, "a": {}, "b": {"wal_buffers": "64MB"}, "windows": ["01:00-05:00"], "period_s": 1800.0}
    kept = replace(study, state=StudyState.INTERRUPTED, result=WATCHED, options={**study.options, "live": begun})
    monkeypatch.setattr(study_request, "resumable", lambda *_, **_server: kept)
    monkeypatch.setattr(run, "switch_study", lambda *_words, **_more: pytest.fail("the server would be watched"))
    found = CliRunner().invoke(live.command, ["--resume", "x", "--approve", "class-A"])
    assert isinstance(found.exception, UsageError), found.output
    assert found.exception.message.startswith("there is no terminal to ask in")
