"""The last two questions of a live study in the terminal: whether to keep what was found, and whether to undo that."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from pgdyno.cli.requests.live_approval import Asker, confirm
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.results.live import LiveDecision
from pgdyno.studies.live.person.hands import LiveHands
from pgdyno.studies.live.person.questions import keep_question, undo_question

pytestmark = pytest.mark.requirement("R-REP-12")
KEPT = {"work_mem": "16MB"}


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (keep_question(KEPT, {}, verdict="", where="", undo="", seconds=9), ("keep", "do not keep")),
        (undo_question(KEPT, {}, undo="", seconds=9), ("undo", "leave in force")),
    ],
    ids=("keep", "undo"),
)
def test_yes_and_no_are_on_record_as_what_they_answer(
    question: LiveQuestion, answers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `reject` of "Take these settings back?" was read as that they had been taken back.

    These hands have no stop file: its path was that of the working directory then, and nobody was waited for.
    """
    heard: list[LiveDecision] = []
    for word in (b"y\n", b"n\n"):
        ours, its = os.pipe()
        os.write(its, word)
        with CliRunner().isolation(), os.fdopen(ours) as typed, os.fdopen(its, "wb"):
            monkeypatch.setattr("sys.stdin", typed)
            confirm(Asker(5.0))(LiveHands(decided=heard.append))(question)
    assert tuple(one.answer for one in heard) == answers
