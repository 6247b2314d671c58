"""`pgdyno live`: what a person is asked in the terminal, with the plan, and how they answer."""

from __future__ import annotations

import os
import select
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pgdyno.cli.requests import live_approval
from pgdyno.errors import UsageError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.person.operator_request import OperatorAction as Action
from pgdyno.studies.live.arms import Arms
from pgdyno.studies.live.candidates import Proposal
from pgdyno.studies.live.person.hands import HeardAnswer, LiveHands
from pgdyno.studies.live.run import SwitchPlan
from pgdyno.studies.live.search_run import CandidatePlan


@pytest.mark.parametrize(
    ("approve", "names", "asks"),
    [
        ("each", ("random_page_cost",), True),
        ("class-A", ("random_page_cost",), False),
        ("class-A", ("random_page_cost", "work_mem"), True),
        ("class-A", ("unheard_of",), True),
        ("auto", ("work_mem",), False),
    ],
)
def test_a_person_is_asked_unless_they_have_said_otherwise(approve, names, asks):
    assert live_approval.asks(approve, names) is asks


def plan() -> SwitchPlan:
    arms = Arms(BASELINE, Configuration.of({"work_mem": "64MB"}), {"work_mem": "4MB"})
    return SwitchPlan(
        "db1",
        arms,
        30.0,
        5400.0,
        48,
        "48 pairs take 48 min.",
        "/tmp/stop",
        "/tmp/pause",
        "pgdyno rollback --last",
        ("A note.",),
    )


@contextmanager
def typed(answer: str | None) -> Iterator[None]:
    """Answer on standard input, which stays silent for None; for "" it ends."""
    ours, its = os.pipe()
    with os.fdopen(ours) as reading, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", reading)
        os.write(its, (answer or "").encode())
        if answer is not None:
            os.close(its)
        yield
        if answer is None:
            os.close(its)


@pytest.mark.parametrize(
    ("answer", "approved"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("", False), (None, False)]
)
def test_the_plan_says_what_is_set_undone_and_how_long_and_a_person_answers(answer, approved):
    with CliRunner().isolation() as (_, err, _both), typed(answer):
        assert live_approval.approve(plan(), live_approval.Asker(0.05)) is approved
        said = err.getvalue().decode()
    for words in (
        "target   db1",
        "work_mem: 64MB under B, 4MB under A, now 4MB; by reload",
        "at most 48 pairs",
        "1:30 h",
        "none: reloads only",
        "pgdyno rollback --last",
        "touch /tmp/stop",
        "touch /tmp/pause  # continues",
        "A note.",
        "Approve?",
    ):
        assert words in said


def test_a_plan_that_was_approved_before_the_study_was_ended_is_shown_and_asks_nobody():
    """What resumes it at night is a loop: it would wait for an answer, and silence would end the study."""
    kept = []
    approved = replace(plan(), is_approved=True, hands=LiveHands(decided=kept.append))
    with CliRunner().isolation() as (_, err, _both), typed(None):
        assert live_approval.approve(approved, live_approval.Asker(0.05))
        said = err.getvalue().decode()
    assert "approved before it was ended" in said
    assert "pgdyno rollback --last" in said
    assert "Approve?" not in said
    assert not kept, "who approved it is on record"


def test_a_plan_and_a_candidate_begin_on_a_line_of_their_own(monkeypatch):
    begun = []
    monkeypatch.setattr(live_approval, "begin_line", lambda: begun.append(True))
    with CliRunner().isolation():
        live_approval.approve(plan(), None)
        live_approval.decide(candidate(), live_approval.Asker(0.0, reads=False))
    assert len(begun) == 2


def test_without_a_question_the_plan_is_printed_all_the_same():
    with CliRunner().isolation() as (_, err, _both):
        assert live_approval.approve(plan(), None)
        assert "work_mem" in err.getvalue().decode()
        assert "Approve?" not in err.getvalue().decode()


def candidate(*, is_final: bool = False) -> CandidatePlan:
    settings = Configuration.of({"work_mem": "16MB"})
    proposal = Proposal(2, 20, settings, "model", "1 tried; the best took 12 % less time", is_final)
    return CandidatePlan(proposal, {"work_mem": "4MB"}, "/nowhere/stop")


@pytest.mark.parametrize(
    ("typed_in", "settings", "ends"),
    [
        ("y\n", {"work_mem": "16MB"}, False),
        ("n\n", None, False),
        ("q\n", None, True),
        ("", None, False),
        (None, None, False),
        ("work_mem=8MB\ny\n", {"work_mem": "8MB"}, False),
        ("random_page_cost=1.5\ny\n", {"work_mem": "16MB", "random_page_cost": "1.5"}, False),
        ("fsync=off\ny\n", {"work_mem": "16MB"}, False),
        ("=\ny\n", {"work_mem": "16MB"}, False),
        ("yep\nNo\n", None, False),
        ("yep\ny\n", {"work_mem": "16MB"}, False),
    ],
)
def test_a_candidate_is_approved_rejected_edited_or_ends_the_search(typed_in, settings, ends):
    with CliRunner().isolation() as (_, err, _both), typed(typed_in):
        answer = live_approval.decide(candidate(), live_approval.Asker(0.05 if typed_in is None else 30.0))
        said = " ".join(err.getvalue().decode().split())
    assert (answer.settings if settings is None else dict(answer.settings), answer.ends) == (settings, ends)
    assert "2 of 20 (by the model): work_mem: 4MB -> 16MB; by reload, no outage" in said
    assert "the best took 12 % less time" in said
    assert ("class X" in said) is ((typed_in or "").startswith("fsync"))
    assert ("Write it as y, n, q or" in said) is ((typed_in or "").partition("\n")[0] in ("=", "yep"))


def test_an_edit_that_cannot_be_is_told_at_once_and_the_next_line_asks_for_what_was_there_before():
    def check(settings):
        if settings["work_mem"] == "1TB":
            raise UsageError("work_mem = 1TB is too much", hint="Give less.")
        return Configuration.of({**settings, "work_mem": "8MB"})

    for words, settings in (("work_mem=1TB\ny\n", "16MB"), ("work_mem=8192kB\ny\n", "8MB")):
        with CliRunner().isolation() as (_, err, _both), typed(words):
            answer = live_approval.decide(replace(candidate(), check=check), live_approval.Asker(30.0))
            said = " ".join(err.getvalue().decode().split())
        assert dict(answer.settings) == {"work_mem": settings}
        assert ("work_mem = 1TB is too much. Give less." in said) is ("1TB" in words)
        assert ("(edited by hand): work_mem: 4MB -> 8MB" in said) is ("8192kB" in words)


@pytest.mark.requirement("R-SAF-01")
def test_what_was_typed_before_a_question_was_shown_approves_nothing():
    """Who hits y twice for one candidate has not seen the next one."""
    its, ours = os.openpty()
    echo = live_approval.click.echo

    def answered_when_asked(message: object = None, **more: object) -> None:
        echo(message, **more)
        if str(message).startswith("Approve?"):
            os.write(its, b"y\n")

    with os.fdopen(ours) as terminal, CliRunner().isolation(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", terminal)
        os.write(its, b"y\n")
        assert select.select([terminal], [], [], 5.0)[0], "it is there"
        assert live_approval.decide(candidate(), live_approval.Asker(0.05)).settings is None
        patch.setattr(live_approval.click, "echo", answered_when_asked)
        assert live_approval.approve(plan(), live_approval.Asker(30.0))
    os.close(its)


ANSWERED = HeardAnswer(Action.EDIT, "alice", "dashboard", "less", Configuration.of({"work_mem": "8MB"}))


class Answered(LiveHands):
    """The dashboard has answered as soon as there is a question."""

    def ask(self, question, check=lambda settings: settings):
        super().ask(question, check)
        self._answer = ANSWERED


def test_an_answer_of_the_dashboard_ends_the_wait_in_the_terminal():
    with CliRunner().isolation() as (_, err, _both), typed(None):
        for reads in (True, False):
            assert "what is typed here is not read" not in err.getvalue().decode()
            asker = live_approval.Asker(3600.0, reads=reads)
            answer = live_approval.decide(replace(candidate(), hands=Answered()), asker)
            assert dict(answer.settings) == {"work_mem": "8MB"}
            assert not live_approval.approve(replace(plan(), hands=Answered()), asker), "an edit is no approval of it"


@pytest.mark.requirement("R-SAF-01")
def test_what_is_said_in_the_terminal_is_on_record_and_silence_is_no_answer():
    heard = []
    for word, answers in (("y\n", ["approve"]), ("n\n", ["reject"]), ("q\n", ["end"]), (None, [])):
        hands = LiveHands(decided=heard.append)
        with CliRunner().isolation(), typed(word):
            live_approval.decide(replace(candidate(), hands=hands), live_approval.Asker(0.05))
        assert [one.answer for one in heard] == answers
        assert all(one.where == "terminal" and "work_mem" in one.asked and "@" in one.who for one in heard)
        heard.clear()


@pytest.mark.requirement("R-SAF-01")
def test_who_wanted_not_to_be_asked_is_on_record_once():
    heard = []
    hands = LiveHands(decided=heard.append)
    with CliRunner().isolation():
        for _ in range(2):
            live_approval.decide(replace(candidate(), hands=hands), None)
            assert live_approval.approve(replace(plan(), hands=hands), None)
    assert [(one.where, one.answer, "@" in one.who) for one in heard] == [("command line", "approve unasked", True)]


def test_a_terminal_that_goes_away_leaves_the_question_to_the_dashboard():
    class Later(LiveHands):
        takes_requests = True
        looks = 0

        @property
        def has_answer(self):
            self.looks += 1
            if self.looks == 3:
                self._answer = ANSWERED
            return self.looks >= 3

    with CliRunner().isolation(), typed(""):
        answer = live_approval.decide(replace(candidate(), hands=Later()), live_approval.Asker(3600.0))
    assert dict(answer.settings) == {"work_mem": "8MB"}


@pytest.mark.requirement("R-SAF-12")
def test_the_stop_file_ends_the_wait_for_an_answer(tmp_path):
    (tmp_path / "stop").touch()
    with CliRunner().isolation() as (_, err, _both), typed(None):
        asked = replace(candidate(), stop_file=str(tmp_path / "stop"))
        assert live_approval.decide(asked, live_approval.Asker(3600.0)).settings is None
        assert "no answer" in err.getvalue().decode()


def test_a_candidate_that_nobody_is_asked_about_is_approved():
    assert live_approval.decide(candidate(), None).settings == Configuration.of({"work_mem": "16MB"})


def test_a_person_is_told_that_an_answer_is_waited_for_and_a_broken_command_is_no_end(tmp_path):
    told = tmp_path / "told"
    program = [sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", str(told)]
    with CliRunner().isolation() as (_, err, _both), typed("y\n"):
        assert live_approval.approve(plan(), live_approval.Asker(5.0, live_approval.notify_words(shlex.join(program))))
    assert told.read_text() == "Compare B with A? work_mem = 64MB"
    with CliRunner().isolation() as (_, err, _both), typed("y\n"):
        assert live_approval.approve(plan(), live_approval.Asker(5.0, ("/nowhere/bell",)))
        assert "--notify could not be run" in err.getvalue().decode()


def test_who_is_told_elsewhere_hears_which_server_and_what_is_to_be_set(tmp_path):
    """They are not before the terminal: "Try it? y, n" says nothing on a telephone."""
    told = tmp_path / "told"
    program = [sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write(sys.argv[2])", str(told)]
    asked = replace(candidate(), hands=LiveHands("s1", target="dba@db1:5432/app"))
    with CliRunner().isolation(), typed("work_mem=much\nwork_mem=8MB\nn\n"):  # and once: who edits is there
        live_approval.decide(asked, live_approval.Asker(5.0, live_approval.notify_words(shlex.join(program))))
    assert told.read_text() == "dba@db1:5432/app: Try candidate 2 of 20? work_mem = 16MB (pgdyno live, study s1)"


def test_who_is_told_gets_no_password_of_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "sesame")
    monkeypatch.setenv("DISPLAY", ":7")
    told = tmp_path / "told"
    code = "import os, sys; open(sys.argv[1], 'w').write(repr(dict(os.environ)))"
    words = live_approval.notify_words(shlex.join([sys.executable, "-c", code, str(told)]))
    with CliRunner().isolation(), typed("y\n"):
        assert live_approval.approve(plan(), live_approval.Asker(5.0, words))
    assert "sesame" not in told.read_text()
    assert "DISPLAY" in told.read_text()


def test_restarts_are_asked_for_whatever_class_the_settings_are_of():
    assert not live_approval.asks("class-A", ())
    assert live_approval.asks("class-A", (), restarts=True)
    assert not live_approval.asks("auto", (), restarts=True)
