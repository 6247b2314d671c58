"""Who may act on the dashboard: operators alone, by forms of the page alone, and each action on record."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

import study_example as example
from dashboard_asking import TOKEN, Answer, ask
from pgdyno.errors import UsageError
from pgdyno.model.person.live_question import LiveDesk, LiveQuestion
from pgdyno.model.person.operator_request import Operators, RequestState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.live.person.questions import candidate_question, keep_question, undo_question
from pgdyno.trial.live_row import first_state
from pgdyno.web import overview
from pgdyno.web.access import Access, access_of
from pgdyno.web.app import make_app
from pgdyno.web.operator_door import MOST_WRONG, WRONG_S, OperatorDoor

pytestmark = pytest.mark.requirement("R-REP-12", "R-REP-07")
OPERATORS = Operators({"alice": "a" * 40, "bob": "b" * 40})
NAMES = frozenset({"localhost"})
FORM = "application/x-www-form-urlencoded"
KEPT, BEFORE = {"work_mem": "16MB"}, {"work_mem": "4MB"}
QUESTION = candidate_question(
    {"work_mem": "16MB"}, {"work_mem": "4MB"},
    title="Try candidate 1 of 3?", origin="<b>model</b>", learnt="", seconds=900,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        study = example.make_study()
        opened.add_study(study)
        desk = LiveDesk("run-1", question=QUESTION)
        LiveBoard(opened).show(replace(first_state(study.id, time.time()), desk=desk))
        yield opened


def door_and_app(store: Store, token: str | None = None) -> tuple[OperatorDoor, object]:
    door = OperatorDoor(OPERATORS)
    return door, make_app(store, Access(NAMES, token, door=door))


def post(app: object, path: str, fields: dict[str, str], **headers: str) -> Answer:
    body = urlencode(fields).encode()
    given = {"content_type": FORM, "content_length": str(len(body)), "sec_fetch_site": "same-origin", **headers}
    return ask(app, path, method="POST", body=body, **given)


def signed_in(app: object, token: str = "a" * 40) -> str:
    answer = post(app, "/operator", {"token": token})
    assert answer.status == 303, answer.body
    return answer.headers["set-cookie"].split(";")[0]


def fields_of(page: str) -> dict[str, str]:
    form = page[page.index('aria-label="answer"') :]
    found = dict(re.findall(r'name="(word|study|run|question)" value="([^"]*)"', form[: form.index("</form>")]))
    return {**found, "action": "approve", "why": "it is quiet now"}


def requests(store: Store) -> list[tuple[str, str, str]]:
    board = RequestBoard(store)
    return [(one.who, one.action.value, one.why) for one in board.of_study(example.make_study().id)]


def test_without_operators_there_is_no_form_and_no_route(store: Store) -> None:
    app = make_app(store, Access(NAMES))
    page = ask(app, "/").body
    assert "Try candidate 1 of 3?" in page
    assert re.findall("<form[^>]*>", page) == ['<form method="get" action="/beside" class="beside">'], (
        "it only asks for a page"
    )
    assert "/operator" not in page
    assert post(app, "/requests", {"action": "stop"}).status == 405
    assert post(app, "/operator", {"token": "a" * 40}).status == 405
    assert ask(app, "/operator").status == 404


def test_an_operator_s_form_becomes_a_signed_request_with_who_when_and_why(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "FRESH_S", 0.0)
    _, app = door_and_app(store)
    cookie = signed_in(app)
    page = ask(app, "/", cookie=cookie).body
    assert "&lt;b&gt;model" in page
    before = time.time()
    answer = post(app, "/requests", fields_of(page), cookie=cookie)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    (request,) = RequestBoard(store).of_study(example.make_study().id)
    assert (request.who, request.action.value, request.why) == ("alice", "approve", "it is quiet now")
    assert before <= request.at <= time.time()
    assert (request.run, request.question, request.state) == ("run-1", QUESTION.digest, RequestState.WAITING)
    assert OPERATORS.has_signed(request)
    assert "it is quiet now" in ask(app, "/", cookie=cookie).body
    assert LiveBoard(store).running()[0].desk == LiveDesk("run-1", question=QUESTION), "nothing but the request is new"


def test_the_page_of_a_study_has_the_form_of_its_operator_and_keeps_nobody_s_word(store: Store) -> None:
    _, app = door_and_app(store)
    cookie, path = signed_in(app), f"/studies/{example.make_study().id}"
    mine, viewers, others = (ask(app, path, **more).body for more in ({"cookie": cookie}, {}, {"cookie": cookie}))
    fields = fields_of(mine)
    assert fields["word"] in others
    assert fields["word"] not in viewers
    assert 'aria-label="answer"' not in viewers
    assert "Sign in as operator" in viewers
    assert "form-action &#39;self&#39;" in mine
    assert post(app, "/requests", fields, cookie=cookie).status == 303
    assert requests(store) == [("alice", "approve", "it is quiet now")]


def test_the_values_of_an_edit_are_shown_with_who_asked_for_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused, too: why is told of these values."""
    monkeypatch.setattr(overview, "FRESH_S", 0.0)
    _, app = door_and_app(store)
    cookie = signed_in(app)
    edit = fields_of(ask(app, "/", cookie=cookie).body) | {"action": "edit", "set:work_mem": "<9TB>", "set:jit": "off"}
    assert post(app, "/requests", edit, cookie=cookie).status == 303
    assert ">edit: work_mem = &lt;9TB&gt;, jit = off</td>" in ask(app, "/", cookie=cookie).body


def test_what_is_kept_already_is_not_called_the_baseline(store: Store) -> None:
    study = example.make_study().id
    undo = undo_question(KEPT, BEFORE, undo="pgdyno rollback s-1", seconds=900)
    for question, said in (
        (QUESTION, "stays in its baseline, and no answer is a no"),
        (undo, "; then they stay in force"),
    ):
        LiveBoard(store).show(replace(first_state(study, time.time()), desk=LiveDesk("run-1", question=question)))
        page = ask(make_app(store, Access(NAMES)), "/").body
        assert said in page
        assert ("in its baseline" in page) is (question is QUESTION)


@pytest.mark.parametrize(
    ("question", "buttons"),
    [
        (QUESTION, ["Approve", "Reject", "End the search", "Approve as changed"]),
        (keep_question(KEPT, BEFORE, verdict="", where="", undo="", seconds=900), ["Keep", "Do not keep"]),
        (undo_question(KEPT, BEFORE, undo="", seconds=900), ["Take back", "Leave in force"]),
    ],
    ids=("try", "keep", "undo"),
)
def test_the_buttons_answer_the_question_that_stands_above_them(
    store: Store, question: LiveQuestion, buttons: list[str]
) -> None:
    """Reject under "Take these settings back?" left open what would be rejected."""
    study = example.make_study().id
    LiveBoard(store).show(replace(first_state(study, time.time()), desk=LiveDesk("run-1", question=question)))
    _, app = door_and_app(store)
    page = ask(app, "/", cookie=signed_in(app)).body
    form = page[page.index('aria-label="answer"') :].partition("</form>")[0]
    assert re.findall(r'name="action"[^>]*>([^<]+)</button>', form) == buttons


def test_a_viewer_sees_what_waits_and_can_do_nothing(store: Store) -> None:
    _, app = door_and_app(store, TOKEN)
    viewer = post(app, "/token", {"token": TOKEN}).headers["set-cookie"].split(";")[0]
    page = ask(app, "/", cookie=viewer).body
    assert "Try candidate 1 of 3?" in page
    assert 'action="/requests"' not in page
    forged = fields_of(ask(app, "/", cookie=signed_in(app)).body)
    for cookie in (viewer, "", "pgdyno-operator=x", f"pgdyno-operator={TOKEN}", f"pgdyno-operator={'a' * 40}"):
        assert post(app, "/requests", forged, cookie=cookie).status == 403, cookie
    assert ask(app, "/requests", method="POST", authorization=f"Bearer {TOKEN}").status == 403
    assert requests(store) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/json"}, 415),
        ({"content_length": "99999"}, 413),
        ({"transfer_encoding": "chunked"}, 413),
        ({"host": "evil.example"}, 400),
    ],
)
def test_a_page_of_another_site_sends_nothing_with_an_operator_s_cookie(
    store: Store, headers: dict[str, str], status: int
) -> None:
    _, app = door_and_app(store)
    cookie = signed_in(app)
    fields = fields_of(ask(app, "/", cookie=cookie).body)
    assert post(app, "/requests", fields, cookie=cookie, **headers).status == status
    assert post(app, "/operator", {"token": "a" * 40}, **headers).status == status
    assert requests(store) == []


def test_a_browser_that_tells_no_site_is_judged_by_its_origin_or_refused(
    store: Store,
) -> None:
    _, app = door_and_app(store)
    cookie = signed_in(app)
    fields = fields_of(ask(app, "/", cookie=cookie).body)
    body = urlencode(fields).encode()
    sent = {"method": "POST", "body": body, "content_type": FORM, "content_length": str(len(body)), "cookie": cookie}
    assert ask(app, "/requests", **sent).status == 403
    assert ask(app, "/requests", **sent, origin="http://evil.example").status == 403
    assert ask(app, "/requests", **sent, origin="null").status == 403
    assert requests(store) == []
    assert ask(app, "/requests", **sent, origin="http://localhost:8432").status == 303


def test_a_form_s_word_is_of_one_session_alone(store: Store) -> None:
    door, app = door_and_app(store)
    alice, bob = signed_in(app), signed_in(app, "b" * 40)
    fields = fields_of(ask(app, "/", cookie=alice).body)
    assert post(app, "/requests", fields, cookie=bob).status == 403
    assert post(app, "/requests", {**fields, "word": ""}, cookie=alice).status == 403
    again = signed_in(app)
    assert post(app, "/requests", fields, cookie=again).status == 403
    left = post(app, "/operator/leave", {"word": fields["word"]}, cookie=alice)
    assert left.status == 303
    assert post(app, "/requests", fields, cookie=alice).status == 403
    fields = fields_of(ask(app, "/", cookie=bob).body)
    door.clock = lambda: time.monotonic() + 13 * 3600
    assert post(app, "/requests", fields, cookie=bob).status == 403, "a session ends"
    assert requests(store) == []


@pytest.mark.parametrize("only_get", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_only_a_post_asks_for_anything(store: Store, only_get: str) -> None:
    _, app = door_and_app(store)
    assert ask(app, "/requests?action=stop", method=only_get, cookie=signed_in(app)).status == 405
    assert requests(store) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"action": "fly"}, "no action"),
        ({"why": "  "}, "say why"),
        ({"why": "x" * 501}, "say why"),
        ({"study": ""}, "no study"),
        ({"study": "nobody"}, "not in the store"),
        ({"study": "last"}, "no study"),
        ({"action": "edit"}, "no settings"),
        ({"action": "edit", "set:work_mem": ""}, "no value"),
    ],
)
def test_a_form_that_says_something_else_is_refused_in_words(store: Store, change: dict[str, str], said: str) -> None:
    _, app = door_and_app(store)
    cookie = signed_in(app)
    answer = post(app, "/requests", {**fields_of(ask(app, "/", cookie=cookie).body), **change}, cookie=cookie)
    assert (answer.status, said in answer.body) == (400, True), answer.body
    assert requests(store) == []


def test_wrong_tokens_are_few_in_a_minute(store: Store) -> None:
    door, app = door_and_app(store)
    cookie = signed_in(app)
    for _ in range(MOST_WRONG):
        assert post(app, "/operator", {"token": "w" * 40}).status == 401
    assert post(app, "/operator", {"token": "a" * 40}).status == 429
    assert post(app, "/requests", fields_of(ask(app, "/", cookie=cookie).body), cookie=cookie).status == 303
    door.wrong.clock = lambda: time.monotonic() + WRONG_S + 1
    assert post(app, "/operator", {"token": "a" * 40}).status == 303


def test_wrong_tokens_of_viewers_are_few_as_well(store: Store) -> None:
    _, app = door_and_app(store, TOKEN)
    for _ in range(MOST_WRONG):
        assert post(app, "/token", {"token": "wrong"}).status == 401
    assert post(app, "/token", {"token": TOKEN}).status == 429


def test_the_cookie_is_no_script_s_and_of_this_site_alone(store: Store) -> None:
    _, app = door_and_app(store)
    cookie = post(app, "/operator", {"token": "a" * 40}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "a" * 40 not in cookie
    secure = make_app(store, Access(NAMES, secure=True, door=OperatorDoor(OPERATORS, secure=True)))
    assert "secure" in post(secure, "/operator", {"token": "a" * 40}).headers["set-cookie"].lower()


def test_an_operator_s_token_crosses_no_network_in_clear() -> None:
    with pytest.raises(UsageError, match="in clear"):
        access_of("192.0.2.1", [], TOKEN, secure=False, operators=OPERATORS)
    assert access_of("192.0.2.1", [], TOKEN, secure=True, operators=OPERATORS).door is not None
    assert access_of("127.0.0.1", [], None, secure=False, operators=OPERATORS).door is not None
