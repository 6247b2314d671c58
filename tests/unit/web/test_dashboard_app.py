"""The dashboard as an application: who is let in, what is answered, and that every figure is the store's.

A little past 400 lines: the tests share one application with its store, and that is most of the set-up.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import study_example as example
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.job import JobState
from pgdyno.model.live import Live, LiveIndicator, LivePoint
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import StudyState
from pgdyno.model.verdict import Word
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.queue import Queue
from pgdyno.web import overview as overview_module
from pgdyno.web.access import POLICY, Access, access_of, is_loopback, read_token
from pgdyno.web.app import make_app
from pgdyno.web.overview import PAGE, OverviewReader

TOKEN = "a-token-of-the-tests-0123456789"
HOSTILE = "<script>alert(1)</script>"
OPEN = Access(frozenset({"localhost"}))
CLOSED = Access(frozenset({"localhost"}), TOKEN)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: str


def ask(app: Any, path: str, *, method: str = "GET", body: bytes = b"", events: int = 1, **headers: str) -> Answer:
    """Send one request and read the answer; of a stream that never ends the first `events` pieces."""
    given = {"host": "localhost:8432", "accept": "text/html", **{k.replace("_", "-"): v for k, v in headers.items()}}
    location, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": location, "raw_path": location.encode(),
        "query_string": query.encode(), "scheme": "http", "server": ("localhost", 8432), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()], "root_path": "",
    }  # fmt: skip
    start: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def run() -> None:
        sent, done = False, asyncio.Event()

        async def receive() -> dict[str, object]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message.get("body"):
                pieces.append(message["body"])
                if message.get("more_body") and len(pieces) >= events:
                    done.set()

        await asyncio.wait_for(app(scope, receive, send), 30)

    asyncio.run(run())
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(pieces).decode())


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


@pytest.mark.requirement("R-REP-07")
def test_without_the_token_nothing_is_told_and_with_it_everything(store: Store) -> None:
    app = make_app(store, CLOSED)
    for path in ("/", "/events", "/studies/x", "/api/v1/live.json", "/api/v1/studies.json", "/nothing"):
        refused = ask(app, path)
        assert refused.status == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
        assert store.name not in refused.body
        assert ask(app, path, authorization=f"Bearer {TOKEN}x").status == 401
    assert ask(app, "/", authorization=f"Bearer {TOKEN}").status == 200
    assert ask(app, "/static/live.css").status == 200
    assert "Authorization: Bearer" in ask(app, "/", accept="*/*").body


@pytest.mark.requirement("R-REP-07")
def test_the_form_gives_a_cookie_that_holds_no_token_and_another_site_gets_none(store: Store) -> None:
    app = make_app(store, CLOSED)
    form = {"method": "POST", "body": f"token={TOKEN}".encode(), "content_type": "application/x-www-form-urlencoded"}
    taken = ask(app, "/token", **form)
    assert (taken.status, taken.headers["location"]) == (303, "/")
    cookie = taken.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert ask(app, "/", cookie=cookie.split(";")[0]).status == 200
    assert (
        ask(make_app(store, Access(frozenset(), TOKEN)), "/", cookie=cookie.split(";")[0], host="127.0.0.1").status
        == 401
    )
    assert ask(app, "/token", **form, sec_fetch_site="cross-site").status == 403
    assert ask(app, "/token", **form, origin="https://evil.example").status == 403
    wrong = ask(app, "/token", method="POST", body=b"token=wrong-but-long-enough")
    assert wrong.status == 401
    assert "set-cookie" not in wrong.headers
    assert ask(app, "/token", method="POST", body=b"token=" + b"a" * 10_000).status == 401


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:8432", 200),
        ("LOCALHOST", 200),
        ("evil.example", 400),
        ("", 400),
    ],
)
def test_only_names_that_were_listed_and_addresses_are_answered(store: Store, host: str, status: int) -> None:
    assert ask(make_app(store, OPEN), "/", host=host).status == status


def test_nothing_but_reading_is_possible(store: Store) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(make_app(store, OPEN), "/", method=method).status == 405


def test_every_answer_has_the_headers_of_safety(store: Store) -> None:
    app = make_app(store, OPEN)
    for path in ("/", "/nothing", "/static/live.js", "/api/v1/queue.json", "/studies/none"):
        headers = ask(app, path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


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
    lamps = (LiveIndicator("disk", "amber", "1.2 GB free of 1 GB"), LiveIndicator("memory", "green", "fine"))
    LiveBoard(store).show(live(study, lamps=lamps, elapsed_s=3.0, duration_s=6.0))
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
    front = event(make_app(store, OPEN))
    assert "pgdyno noise" in front["queue"]
    assert "failed, on db1, the server hung" in front["queue"]
    assert "job 1 failed: the server hung" in front["alerts"]
    assert '</span> a study failed: <a href="/studies/bad"' in front["alerts"]
    whole = json.dumps(front) + ask(make_app(store, OPEN), "/").body
    assert HOSTILE not in whole
    assert "&lt;script&gt;alert(1)" in whole


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


def test_many_readers_share_one_reading_of_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    example.add_bench(store)
    read: list[int] = []
    counts = Store.trial_counts
    monkeypatch.setattr(Store, "trial_counts", lambda self: read.append(1) or counts(self))
    now = [1000.0]
    reader = OverviewReader(store, clock=lambda: now[0])
    for _ in range(5):
        reader.latest()
    assert reader.latest() is reader.latest()
    assert len(read) == 1
    now[0] += overview_module.FRESH_S + 0.01
    reader.latest()
    assert len(read) == 2


@pytest.mark.requirement("R-REP-07")
def test_an_address_that_others_reach_asks_for_a_token() -> None:
    for bind in ("0.0.0.0", "::", "192.0.2.1", "db1.example"):
        with pytest.raises(UsageError, match="no token"):
            access_of(bind, (), None, secure=False)
        assert access_of(bind, (), TOKEN, secure=True).secure
    assert access_of("127.0.0.1", ("DB1.example",), None, secure=False).is_for_us("db1.example:80")


def test_loopback_is_known_by_every_name() -> None:
    assert all(is_loopback(bind) for bind in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))
    assert not any(is_loopback(bind) for bind in ("0.0.0.0", "::", "10.0.0.1", "db1"))


@pytest.mark.requirement("R-REP-07")
def test_a_token_is_made_for_its_owner_alone_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    path.chmod(0o640)
    with pytest.raises(UsageError, match="may be read by others"):
        read_token(path)
    path.chmod(0o600)
    for bad in ("short", "two words that are long", "schlüssel-schlüssel-schlüssel"):
        path.write_text(bad)
        with pytest.raises(UsageError, match="plain characters"):
            read_token(path)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be used"):
        read_token(tmp_path / "none" / "token")


def test_an_event_is_drawn_once_for_all_readers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgdyno.web import app as app_module

    drawn: list[int] = []
    parts = app_module.overview_parts
    monkeypatch.setattr(app_module, "overview_parts", lambda overview: drawn.append(1) or parts(overview))
    monkeypatch.setattr(overview_module, "FRESH_S", 3600.0)
    dashboard = app_module.Dashboard(store)
    assert dashboard.event() == dashboard.event()
    assert len(drawn) == 1
    monkeypatch.setattr(overview_module, "FRESH_S", 0.0)
    dashboard.event()
    assert len(drawn) == 2
