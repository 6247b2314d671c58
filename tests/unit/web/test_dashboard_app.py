"""The dashboard as an application: what is answered, and that every figure is the store's."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import study_example as example
from dashboard_asking import OPEN, ask
from pgdyno.model.configuration import Configuration
from pgdyno.model.job import JobState
from pgdyno.model.live import Live, LiveIndicator, LivePoint, LiveReplay
from pgdyno.model.replay_comparison import Lateness
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import Outcome, Role, TrialSpec, TrialState
from pgdyno.model.verdict import Word
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.queue import Queue
from pgdyno.studies.live.kind import WATCH_ONLY
from pgdyno.web import overview as overview_module
from pgdyno.web.app import make_app
from pgdyno.web.overview import PAGE

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def live(study: str, **more: Any) -> Live:
    state = Live(study, time.time(), time.time() - 60, "db1", 42, run=1, number=1, role="baseline", phase="load",
                 points=(LivePoint(time.time(), tps=812.5, cpu_pct=40.0),))  # fmt: skip
    return replace(state, **more)


def event(app: Any) -> Mapping[str, Any]:
    answer = ask(app, "/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.startswith("event: overview\ndata: ")
    found: Mapping[str, Any] = json.loads(answer.body.split("data: ", 1)[1].split("\n\n")[0])
    return found


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/..%2fapp.py", "/static/live.js.map", "/studies/none", "/?page=x"]
)
def test_what_is_not_there_is_said_without_a_traceback(store: Store, path: str) -> None:
    answer = ask(make_app(store, OPEN), path)
    assert answer.status == 404
    assert "Traceback" not in answer.body


@pytest.mark.requirement("R-REP-06")
def test_a_study_by_another_metric_shows_that_metric(store: Store) -> None:
    study = example.add_tune(store)
    cpu = "server_cpu_ms_per_tx"
    store.add_study(replace(store.study(study), id="by-cpu", options={"tune": {"metric": cpu}}))
    for trial in store.trials(study)[:4]:
        assert trial.outcome is not None
        store.finish_trial(store.begin_trial("by-cpu", trial.spec), trial.outcome)
    state = live("by-cpu", metric=cpu, best=0.2512, place="12 of at most 48", left_s=750.0, role="search", arm="local")
    LiveBoard(store).show(state)
    (card,) = [card for card in event(make_app(store, OPEN))["cards"] if card["study"] == "by-cpu"]
    head = " ".join(card["head"].split())
    for words in ("trial 12 of at most 48", "at most 12:30 min left", "best so far server CPU/tx 0.251 ms"):
        assert words in head
    assert "search, near the best so far" in head
    assert "server CPU/tx, ms</th>" in card["trials"]
    assert "server CPU per transaction, ms, by number (lower is better)" in card["html"]
    drawn = [value for name in ("baseline", "others") for value in card["history"][name] if value is not None]
    kept = [t.outcome.server_cpu_ms_per_tx for t in store.trials("by-cpu") if t.outcome and t.state == "complete"]
    assert sorted(drawn) == sorted(kept)


@pytest.mark.requirement("R-REP-06")
def test_a_running_study_is_shown_with_its_figures_guards_and_trials(store: Store) -> None:
    study = example.add_tune(store)
    indicators = (LiveIndicator("disk", "amber", "1.2 GB free of 1 GB"), LiveIndicator("memory", "green", "fine"))
    LiveBoard(store).show(live(study, indicators=indicators, elapsed_s=3.0, duration_s=6.0))
    app = make_app(store, OPEN)
    page, front = ask(app, "/"), event(app)
    (card,) = front["cards"]
    for text in (page.body, card["head"]):
        assert "812 tps" in text
        assert "40 %" in text
        assert "50 %" in text
        assert "disk amber: 1.2 GB free" in text
        assert "unknown" in text  # the memory of a point without one
    assert card["points"][0][1] == 812.5
    complete = [
        trial
        for trial in store.trials(study)
        if trial.outcome and trial.outcome.throughput and trial.state == "complete"
    ]
    shown = [value for one in ("baseline", "others") for value in card["history"][one] if value is not None]
    assert sorted(shown) == sorted(trial.outcome.throughput for trial in complete if trial.outcome)
    assert "guard disk is amber" in front["alerts"]
    assert front["title"] == "pgdyno: 1 running"


@pytest.mark.requirement("R-REP-06")
def test_a_replay_has_no_trials_and_says_how_far_it_is(store: Store) -> None:
    store.add_study(replace(example.make_study(StudyKind.REPLAY), id="sent"))
    place = "70 of 100 statements sent, 72 due; 2 answered differently; the injector at most 1.5 ms late"
    state = live("sent", run=None, place=place, phase="sending", points=(LivePoint(time.time(), tps=70.0),))
    LiveBoard(store).show(state)
    app = make_app(store, OPEN)
    page, (card,) = ask(app, "/").body, event(app)["cards"]
    assert place in page
    assert place in card["head"]
    assert "70 statements/s" in page
    assert 'class="below" hidden' in page
    for word in ("unknown", "trials done", "best so far"):
        assert word not in card["head"]
    assert 'data-rate="statements/s"' in page
    LiveBoard(store).show(replace(state, place="", points=()))
    begun = ask(make_app(store, OPEN), "/").body
    assert 'class="below" hidden' in begun, "what has not told how far it is has no trials either"
    assert "unknown" not in event(make_app(store, OPEN))["cards"][0]["head"]


@pytest.mark.requirement("R-REP-06")
def test_the_page_of_a_running_replay_has_its_card_with_lateness_and_answers_by_class(store: Store) -> None:
    store.add_study(replace(example.make_study(StudyKind.REPLAY), id="sent", name="<b>monday</b>"))
    replay = LiveReplay(100, 72, 70, 66, 2, 1.5, {"success": 63, "expected": 1, "new": 2},
                        (Lateness("injector", 0.01, 0.2, 1.5),), 3.0, 5.0, 4.0, 1)  # fmt: skip
    state = live("sent", run=None, number=0, place="the injector at most 1.5 ms late", phase="sending", replay=replay,
                 left_s=12.0)  # fmt: skip
    LiveBoard(store).show(state)
    app = make_app(store, OPEN)
    page, (card,) = ask(app, "/studies/sent"), event(app)["cards"]
    for words in (
        "72 of 100 statements", "66; 2 answers are not the captured ones", "lateness by</th>", "<td>injector</td>",
        "1.500</td>", "the captured error</td>", "an error where the capture has none</td>",
        "3.0 ms from the due moment, captured 5.0 ms", "paused for 4.0 s, 1 session is still",
    ):  # fmt: skip
        assert words in page.body, words
        assert words in card["detail"], words
        assert words not in ask(app, "/").body, words
    assert "12 s left" in " ".join(card["head"].split())
    assert "at most 12 s left" not in " ".join(card["head"].split()), "that is said of trials"
    assert "<b>monday" not in page.body
    assert "EventSource" in page.body
    assert "No verdict: the study is running" in page.body
    policy = page.body.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "connect-src &#39;self&#39;" in policy
    assert "unsafe" not in policy


def test_the_page_of_a_study_moves_while_it_runs_and_only_then(store: Store) -> None:
    study, now = example.make_study(StudyKind.REPLAY).id, time.time()
    store.add_study(replace(example.make_study(StudyKind.REPLAY), state=StudyState.RUNNING))
    assert "EventSource" not in ask(make_app(store, OPEN), f"/studies/{study}").body
    LiveBoard(store).show(live(study))
    app = make_app(store, OPEN, is_over=lambda _study, _live: True)
    running = ask(app, f"/studies/{study}").body
    assert 'class="running"' in running
    assert "the study is running" in running
    LiveBoard(store).show(live(study, at=now - 60))
    time.sleep(overview_module.FRESH_S)
    killed = ask(app, f"/studies/{study}").body
    assert "EventSource" not in killed
    assert "the study is interrupted" in killed, "what was drawn before is not kept"


@pytest.mark.requirement("R-REP-06")
def test_a_study_that_fell_silent_is_an_alert_with_what_to_do(store: Store) -> None:
    study = example.add_tune(store)
    now = time.time()
    LiveBoard(store).show(live(study, at=now - 60, began_at=now - 90))
    store.update_study(study, state=StudyState.RUNNING)
    alerts = event(make_app(store, OPEN))["alerts"]
    assert "process 42 on db1 was killed, or hangs" in alerts
    assert "pgdyno rollback --list" in alerts
    assert f"pgdyno tune --resume {study}" in alerts
    store.update_study(study, state=StudyState.COMPLETE)  # its row could not be taken away when it ended
    assert event(make_app(store, OPEN))["cards"] == []


@pytest.mark.parametrize("is_over", [False, True])
def test_a_live_study_that_only_watched_is_told_neither_to_be_rolled_back_nor_to_be_continued(
    store: Store, is_over: bool
) -> None:
    study = replace(example.make_study(StudyKind.LIVE, "live-1"), options={"live": {WATCH_ONLY: True}})
    store.add_study(study)
    LiveBoard(store).show(live(study.id, at=time.time() - 60, began_at=time.time() - 90))
    alerts = event(make_app(store, OPEN, is_over=lambda _study, _live: is_over))["alerts"]
    assert "was killed" in alerts
    assert "its server is as it was found" in alerts
    assert "rollback" not in alerts
    assert "--resume" not in alerts


def test_a_killed_study_whose_server_was_put_back_is_told_for_an_hour_and_has_no_card(store: Store) -> None:
    study, now = example.add_tune(store), time.time()
    store.update_study(study, state=StudyState.RUNNING)

    def shown(age_s: float, *, is_over: bool) -> tuple[list[object], str]:
        LiveBoard(store).show(live(study, at=now - age_s, began_at=now - age_s - 9))
        front = event(make_app(store, OPEN, is_over=lambda _study, _live: is_over))
        return front["cards"], front["alerts"]

    cards, alerts = shown(600, is_over=True)
    assert cards == []
    assert "its server is as it was found" in alerts
    assert "pgdyno rollback" not in alerts
    assert f"pgdyno tune --resume {study}" in alerts
    assert shown(2 * 3600, is_over=True) == ([], shown(2 * 3600, is_over=True)[1])
    assert study not in shown(2 * 3600, is_over=True)[1]
    assert "pgdyno rollback --list" in shown(2 * 3600, is_over=False)[1]


@pytest.mark.parametrize(("age_s", "is_over", "word"), [
    (1, False, "running"), (600, False, "silent"), (600, True, "killed"), (2 * 3600, True, "killed"),
    (9 * 86400, True, "killed"),
])  # fmt: skip
def test_the_list_says_of_a_study_that_nobody_writes_what_store_list_says(
    store: Store, age_s: float, is_over: bool, word: str
) -> None:
    study, at = example.add_tune(store), time.time() - age_s
    store.update_study(study, state=StudyState.RUNNING)
    LiveBoard(store).show(live(study, at=at, began_at=at - 9))
    app = make_app(store, OPEN, is_over=lambda _study, _live: is_over)
    assert f">{word}<" in event(app)["studies"]
    listed, running = (json.loads(ask(app, f"/api/v1/{name}.json").body) for name in ("studies", "live"))
    assert [one["word"] for one in listed["studies"]] == [word]
    assert [one["study"] for one in running["running"]] == ([] if is_over else [study]), "as the page has cards"


def test_a_study_that_fell_silent_long_ago_is_shown_no_more(store: Store) -> None:
    study = example.add_tune(store)
    LiveBoard(store).show(live(study, at=100.0, began_at=50.0))
    store.update_study(study, state=StudyState.RUNNING)
    assert event(make_app(store, OPEN))["cards"] == []


@pytest.mark.requirement("R-REP-06")
def test_the_queue_and_what_failed_are_shown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(store)
    queue.add(["tune", "-w", "ybio", "-D", f"note={HOSTILE}"], host="db1", folder="/", at=1.0)
    taken = queue.claim(host="db1", runner="db1:1", at=2.0)
    assert taken is not None
    queue.end(taken.id, JobState.FAILED, at=time.time(), exit_code=1, reason="the server hung")
    queue.add(["noise"], host="db1", folder="/", at=3.0)
    failed = replace(example.make_study(study_id="bad"), created_at=time.time(), state=StudyState.FAILED, name=HOSTILE)
    store.add_study(failed)
    store.add_study(replace(example.make_study(study_id="night-3fa94c"), name="the winter tune"))
    queue.keep_study(taken.id, "night-3fa94c")
    front = event(make_app(store, OPEN))
    assert '<a href="/studies/night-3fa94c" title="night-3fa94c">the winter tune</a>' in front["queue"]
    assert "pgdyno noise" in front["queue"]
    assert "failed, on db1, the server hung" in front["queue"]
    assert "job 1 failed: the server hung" in front["alerts"]
    assert '</span> a study failed <a href="/studies/bad"' in front["alerts"]
    whole = json.dumps(front) + ask(make_app(store, OPEN), "/").body
    assert HOSTILE not in whole
    assert "&lt;script&gt;alert(1)" in whole


def test_an_alert_of_a_failed_study_says_what_ended_it(store: Store) -> None:
    study = replace(example.make_study(study_id="bad"), created_at=time.time(), state=StudyState.RUNNING)
    store.add_study(study)
    reason = f'script "close", line 4: relation "{HOSTILE}" does not exist'
    trial = store.begin_trial("bad", TrialSpec(Configuration({}), Role.ARM, "bench", 1, 0))
    store.finish_trial(trial, Outcome(TrialState.FAILED, reason))
    store.update_study("bad", state=StudyState.FAILED)
    told = event(make_app(store, OPEN))["alerts"]
    assert "a study failed: script &#34;close&#34;, line 4: relation" in told
    assert HOSTILE not in told


def test_an_alert_of_a_study_that_failed_before_any_run_could_tell_why_says_what_ended_it(store: Store) -> None:
    """A tune whose time ran out in its first run had no reason: no run of it had ended."""
    study = replace(example.make_study(study_id="bad"), created_at=time.time(), state=StudyState.RUNNING)
    store.add_study(study)
    store.begin_trial("bad", TrialSpec(Configuration({}), Role.BASELINE, "baseline", 0, 0))
    reason = f'the budget of 40 s ran out before the first trial: <b>"{HOSTILE}"</b>'
    store.update_study("bad", state=StudyState.FAILED, ended=reason)
    told = event(make_app(store, OPEN))["alerts"]
    assert "a study failed: the budget of 40 s ran out before the first trial" in told
    assert HOSTILE not in told


def test_alerts_stand_before_warnings_and_a_telephone_names_those_that_it_folds(store: Store) -> None:
    """Seven of them pushed what runs two screens down."""
    now = time.time()
    for number, state in enumerate(("complete", "failed", "complete", "failed", "complete")):
        study = replace(example.make_study(StudyKind.BENCH, f"s{number}"), created_at=now, state=StudyState(state))
        store.add_study(study)
        for end in (TrialState.DISTURBED, TrialState.COMPLETE):
            trial = store.begin_trial(study.id, TrialSpec(Configuration({}), Role.ARM, "bench", 1, 0))
            store.finish_trial(trial, Outcome(end, f"why {number}"))
    app = make_app(store, OPEN)
    told = event(app)["alerts"]
    assert re.findall(r'<li class="(\w+)"', told) == ["bad", "bad", "unsure", "unsure", "unsure"]
    assert '<label class="rest" for="all-alerts"><span>Show 3 more: 3 warnings</span>' in told
    page = ask(app, "/").body
    assert page.index('id="all-alerts"') < page.index('id="alerts"'), "the style sheet needs that order"
    assert "nth-child(n+3)" in ask(app, "/static/live.css").body


def test_few_alerts_are_not_folded(store: Store) -> None:
    assert 'class="rest"' not in event(make_app(store, OPEN))["alerts"]


@pytest.mark.parametrize(("hours_ago", "is_told"), [(1.0, True), (25.0, False)])
def test_a_study_of_days_is_an_alert_for_a_day_after_its_end(store: Store, hours_ago: float, is_told: bool) -> None:
    began, ended = time.time() - 80 * 3600, time.time() - hours_ago * 3600
    store.add_study(replace(example.make_study(study_id="long"), created_at=began, state=StudyState.FAILED))
    trial = store.begin_trial("long", TrialSpec(Configuration({}), Role.ARM, "bench", 1, 0))
    store.finish_trial(trial, Outcome(TrialState.FAILED, "the disk is full", began_at=began, ended_at=ended))
    told = event(make_app(store, OPEN))["alerts"]
    assert ("the disk is full" in told) is is_told
    assert ("nothing failed in the last 24 hours" in told) is not is_told


def test_a_tune_that_proved_nothing_is_no_advice_to_keep_the_configuration(store: Store) -> None:
    study = example.add_keep(store)
    assert "your configuration" in ask(make_app(store, OPEN), "/").body
    kept = store.study(study).told(TuneResult)
    open_end = replace(
        kept.verdict, word=Word.NOT_RESOLVED, interval=replace(kept.verdict.interval, lo=0.9, hi=math.inf)
    )
    store.update_study(study, result=replace(kept, verdict=open_end))
    assert "your configuration" in ask(make_app(store, OPEN), "/").body, "others were measured: the end is open"
    store.update_study(study, result=replace(kept, verdict=None))
    drawn = ask(make_app(store, OPEN), "/").body
    assert "not resolved" in drawn
    assert f"none of the {kept.search.trials} configurations that were tried was proved" in drawn
    assert "your configuration" not in drawn


def test_a_study_is_its_report_with_the_way_back_and_as_data(store: Store) -> None:
    study = example.add_tune(store)
    app = make_app(store, OPEN)
    page = ask(app, f"/studies/{study}")
    assert page.status == 200
    assert '<a href="/">pgdyno</a>' in page.body
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in page.body
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    data = json.loads(ask(app, f"/studies/{study}.json").body)
    assert data["study"] == study


def test_a_report_is_made_anew_when_its_study_changed_and_not_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgdyno.web import app as app_module

    made: list[str] = []
    build = app_module._report
    monkeypatch.setattr(app_module, "_report", lambda *words: made.append(words[1]) or build(*words))
    study = example.add_bench(store)
    app = make_app(store, OPEN)
    for _ in range(3):
        ask(app, f"/studies/{study}")
    assert made == [study]
    store.update_study(study, state=StudyState.FAILED)
    ask(app, f"/studies/{study}")
    assert made == [study, study]


def test_a_long_list_of_studies_has_pages_and_loses_none(store: Store) -> None:
    for number in range(PAGE + 3):
        store.add_study(replace(example.make_study(study_id=f"s{number:03}"), created_at=float(number)))
    app = make_app(store, OPEN)
    first, second = (json.loads(ask(app, f"/api/v1/studies.json?page={page}").body)["studies"] for page in (0, 1))
    assert [one["study"] for one in first + second] == [f"s{n:03}" for n in reversed(range(PAGE + 3))]
    assert "/?page=1" in ask(app, "/").body
    assert "/?page=1" not in ask(app, "/?page=1").body
