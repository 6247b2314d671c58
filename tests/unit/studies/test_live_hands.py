"""Requests of operators to a live study: who is heard, what is stale, replayed or forged, and that all is on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

import study_example as example
from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.person.live_question import LiveDesk, LiveQuestion
from pgdyno.model.person.operator_request import OperatorAction as Action
from pgdyno.model.person.operator_request import OperatorRequest, Operators, RequestState, operators_of
from pgdyno.model.results.live import LiveDecision
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard
from pgdyno.store.schema import REQUEST
from pgdyno.studies.live.person.hands import HeardAnswer, Inbox, LiveHands, PairsStage
from pgdyno.studies.live.person.questions import candidate_question
from pgdyno.studies.live.world import StopFile

pytestmark = pytest.mark.requirement("R-REP-12", "R-SAF-01")
OPERATORS = Operators({"alice": "a" * 40, "bob": "b" * 40})
STRANGERS = Operators({"alice": "x" * 40, "mallory": "m" * 40})


class Study:
    """Hands of a study whose requests are looked for when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder / "store.db")
        self.study = example.make_study()
        self.store.add_study(self.study)
        self.board, self.decisions, self.desks = RequestBoard(self.store), list[LiveDecision](), list[LiveDesk]()
        self.stop, self.pause, self.numbers = StopFile(folder / "stop"), folder / "pause", iter(range(1000))
        self.hands = LiveHands(
            self.study.id, self.stop, self.pause,
            decided=self.decisions.append, show=self.desks.append, inbox=Inbox(self.board, OPERATORS),
        )  # fmt: skip

    def ask(self, value: str = "16MB") -> LiveQuestion:
        question = candidate_question(
            {"work_mem": value}, {"work_mem": "4MB"}, title="Try it?", origin="model", learnt="nothing", seconds=60
        )
        self.hands.ask(question, check)
        return question

    def request(self, action: Action, question: LiveQuestion | None = None, who: str = "alice",
                **more: object) -> OperatorRequest:  # fmt: skip
        made = OperatorRequest(
            f"r{next(self.numbers)}", self.study.id, self.hands.run, action, who, "because", 1.0,
            "" if question is None else question.digest,
        )  # fmt: skip
        return replace(made, **more)  # type: ignore[arg-type]

    def sent(self, request: OperatorRequest, by: Operators = OPERATORS) -> tuple[RequestState, str]:
        """Put a signed request into the store, let the study look, and return what it says."""
        self.board.add(by.sign(request) if not request.signature else request)
        self.hands.turn()
        told = self.board.of_study(self.study.id)[0]
        return told.state, told.said


def check(settings: Configuration) -> Configuration:
    if set(settings) != {"work_mem"}:
        raise UsageError("that is not searched here", hint="Edit work_mem.")
    return settings


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Study]:
    made = Study(tmp_path)
    yield made
    made.store.close()


def test_an_operator_s_answer_counts_and_names_them(live: Study) -> None:
    question = live.ask()
    assert live.desks[-1] == LiveDesk(live.hands.run, question=question)
    assert live.sent(live.request(Action.APPROVE, question)) == (RequestState.DONE, "it is the answer")
    assert live.hands.has_answer
    assert live.hands.settle(HeardAnswer(Action.REJECT, "root@db1", "terminal")) == HeardAnswer(
        Action.APPROVE, "alice", "dashboard", "because"
    )
    (decision,) = live.decisions
    assert (decision.who, decision.where, decision.answer, decision.why) == ("alice", "dashboard", "approve", "because")
    assert "work_mem=16MB" in decision.asked.replace(" ", "")
    assert live.desks[-1].question is None


def test_the_terminal_that_answers_first_is_the_answer_and_the_dashboard_is_told(live: Study) -> None:
    question = live.ask()
    mine = HeardAnswer(Action.REJECT, "root@db1", "terminal")
    assert live.hands.settle(mine) == mine
    state, said = live.sent(live.request(Action.APPROVE, question))
    assert (state, said) == (RequestState.REFUSED, "root@db1 answered it first, in the terminal: reject")
    assert [one.where for one in live.decisions] == ["terminal"]


def test_of_two_operators_the_first_is_heard(live: Study) -> None:
    question = live.ask()
    live.sent(live.request(Action.REJECT, question))
    state, said = live.sent(live.request(Action.APPROVE, question, "bob"))
    assert (state, said) == (RequestState.REFUSED, "alice answered it first, in the dashboard: reject")
    answer = live.hands.settle(None)
    assert answer is not None
    assert answer.action is Action.REJECT


def test_an_answer_to_what_does_not_wait_any_more_is_refused_and_told_what_waits(live: Study) -> None:
    old = live.ask()
    live.hands.settle(None)
    assert live.sent(live.request(Action.APPROVE, old))[0] is RequestState.REFUSED
    live.ask("32MB")
    state, said = live.sent(live.request(Action.APPROVE, old))
    assert state is RequestState.REFUSED
    assert 'does not wait any more: "Try it?" waits now' in said
    assert not live.hands.has_answer


def test_who_sees_another_question_than_the_study_asks_approves_nothing(live: Study) -> None:
    question = live.ask("16MB")
    shown = replace(question, settings=(replace(question.settings[0], after="8MB"),))
    assert live.sent(live.request(Action.APPROVE, shown))[0] is RequestState.REFUSED
    assert not live.hands.has_answer


def test_forged_and_altered_requests_are_refused(live: Study) -> None:
    question = live.ask()
    unsigned = live.request(Action.APPROVE, question, signature="0" * 64)
    by_alice = OPERATORS.sign(live.request(Action.REJECT, question))
    for forged, by in (
        (unsigned, OPERATORS),
        (live.request(Action.APPROVE, question), STRANGERS),
        (live.request(Action.STOP, who="mallory"), STRANGERS),
        (replace(by_alice, action=Action.APPROVE), OPERATORS),
        (replace(by_alice, who="bob"), OPERATORS),
        (replace(by_alice, settings={"work_mem": "1GB"}), OPERATORS),
    ):
        assert live.sent(forged, by) == (RequestState.REFUSED, "no operator of this study signed it")
    assert not live.hands.has_answer
    assert not live.stop.path.exists()
    assert live.decisions == []


def test_a_request_is_carried_out_once_however_often_it_is_there(live: Study) -> None:
    pause = OPERATORS.sign(live.request(Action.PAUSE))
    assert live.sent(pause)[0] is RequestState.DONE
    live.pause.unlink()
    assert live.sent(pause) == (RequestState.REFUSED, "it was taken before")
    with live.store.write() as connection:
        connection.execute(update(REQUEST).values(state="waiting"))
    live.hands.turn()
    assert not live.pause.exists()
    other = live.request(Action.STOP, run="another process")
    assert live.sent(other) == (RequestState.REFUSED, "it was meant for an earlier process of this study")


def test_a_pause_says_what_it_does_by_where_the_study_stands(live: Study) -> None:
    """During the reference there is no pair to end first, and after the last one nothing to pause."""

    def paused() -> tuple[RequestState, str]:
        found = live.sent(live.request(Action.PAUSE))
        live.pause.unlink(missing_ok=True)
        return found

    done = RequestState.DONE
    reference = "the reference is watched to its end; before the first pair it waits in its baseline"
    assert paused() == (done, reference)
    live.ask()
    assert paused() == (done, "after an answer it waits in its baseline")
    live.hands.settle(None)
    live.hands.stage = PairsStage.GOING
    assert paused() == (done, "it waits in its baseline after the pair at hand")
    live.hands.stage = PairsStage.OVER
    assert paused() == (RequestState.REFUSED, "its pairs are over, and nothing is left to pause")


def test_pause_and_stop_are_the_files_of_the_study_and_go_with_it(live: Study) -> None:
    with live.hands:
        assert live.sent(live.request(Action.PAUSE))[0] is RequestState.DONE
        assert live.pause.exists()
        assert live.sent(live.request(Action.RESUME))[0] is RequestState.DONE
        assert not live.pause.exists()
        assert live.sent(live.request(Action.STOP))[0] is RequestState.DONE
        with pytest.raises(Exception, match="alice stopped it in the dashboard"):
            live.stop.look()
    assert not live.stop.path.exists()
    assert live.sent(live.request(Action.STOP)) == (RequestState.REFUSED, "the study has ended")
    assert [one.answer for one in live.decisions] == ["pause", "resume", "stop"]


def test_a_stop_needs_no_file_and_what_cannot_be_made_is_refused_in_words(live: Study, tmp_path: Path) -> None:
    live.stop.path = tmp_path / "gone" / "stop"
    live.hands.pause = tmp_path / "link"
    live.hands.pause.symlink_to(tmp_path / "elsewhere")
    with live.hands:
        state, said = live.sent(live.request(Action.PAUSE))
        assert (state, said) == (RequestState.REFUSED, f'"{live.hands.pause}" cannot be made: File exists')
        assert not (tmp_path / "elsewhere").exists(), "a link leads no file of ours elsewhere"
        assert live.sent(live.request(Action.STOP))[0] is RequestState.DONE
        with pytest.raises(Exception, match="alice stopped it in the dashboard"):
            live.stop.look()
        assert live.hands.has_answer, "nobody waits any longer for an answer"
    assert live.hands.pause.is_symlink()


def test_an_edit_is_checked_and_what_cannot_be_says_why(live: Study) -> None:
    question = live.ask()
    bad = live.request(Action.EDIT, question, settings={"fsync": "off"})
    assert live.sent(bad) == (RequestState.REFUSED, "that is not searched here. Edit work_mem.")
    live.sent(live.request(Action.EDIT, question, settings={"work_mem": "8MB"}))
    answer = live.hands.settle(None)
    assert answer is not None
    assert answer.settings == Configuration.of({"work_mem": "8MB"})


def test_what_is_not_asked_cannot_be_done(live: Study) -> None:
    question = live.ask()
    assert live.sent(live.request(Action.KEEP, question)) == (RequestState.REFUSED, '"Try it?" cannot be answered so')
    assert live.sent(live.request(Action.UNDO))[0] is RequestState.REFUSED


def test_rows_that_are_no_requests_are_refused_and_harm_nothing(live: Study) -> None:
    question = live.ask()
    good = OPERATORS.sign(live.request(Action.APPROVE, question))
    texts = [json.dumps(one) for one in (
        {}, [], "x", {**good.to_json(), "at": "now"}, {**good.to_json(), "settings": {"a": 1}},
        {**good.to_json(), "action": "fly"}, {**good.to_json(), "why": "x" * 5000},
        {**good.to_json(), "signature": "\ud800"}, {**good.to_json(), "at": float("nan")},
    )]  # fmt: skip
    for content in (*texts, "", "{bad", "[" * 40_000, "[" * 100_000):
        live.board.add(good)
        with live.store.write() as connection:
            connection.execute(update(REQUEST).where(REQUEST.c.state == "waiting").values(content=content))
        live.hands.turn()
        assert not live.hands.has_answer, content
        assert live.board.waiting(live.study.id) == []


def test_without_a_file_of_operators_nothing_is_looked_for(live: Study) -> None:
    live.hands.inbox = None
    question = live.ask()
    assert live.desks[-1].run == ""
    assert live.sent(live.request(Action.APPROVE, question))[0] is RequestState.WAITING


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names 0 operators"),
        ("alice short", "not 32 or more"),
        (f"alice {'a' * 40} more", "not NAME TOKEN"),
        (f"al/ice {'a' * 40}", "not NAME TOKEN"),
        (f"alice {'a' * 40}\nalice {'b' * 40}", "again"),
        (f"alice {'a' * 40}\nbob {'a' * 40}", "again"),
    ],
)
def test_a_file_of_operators_that_says_something_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        operators_of(text, "tokens")


def test_operators_are_known_by_their_tokens_and_show_none() -> None:
    found = operators_of(f"alice {'a' * 40}\n\n  bob {'b' * 40}\n", "tokens")
    assert (found.named_by("b" * 40), found.named_by("c" * 40), found.named_by("")) == ("bob", None, None)
    assert "aaaa" not in repr(found)
    assert list(operators_of("o" * 43, "tokens")) == ["operator"]
