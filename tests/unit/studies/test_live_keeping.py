"""What is said when a person keeps a winner, or takes it back, and that does not come about."""

from __future__ import annotations

from types import SimpleNamespace

from pgdyno.errors import RollbackError
from pgdyno.model.person.operator_request import OperatorAction as Action
from pgdyno.studies.live.person import keeping
from pgdyno.studies.live.person.hands import HeardAnswer


def test_what_cannot_be_taken_back_is_not_said_to_be_kept_for_a_part_of_it_may_be_back(monkeypatch):
    class Sessions:
        def __init__(self, _folder):
            pass

        def roll_back(self, session):
            raise RollbackError("the server did not start", hint=f"Run pgdyno rollback {session}.")

    said, asked = [], []
    monkeypatch.setattr(keeping, "LocalSessions", Sessions)
    monkeypatch.setattr(keeping, "record_rollback", lambda *_: asked.append("recorded"))
    ground = SimpleNamespace(target=SimpleNamespace(remote=None), store=None, announce=said.append)
    keeping._offer_undo(
        SimpleNamespace(ground=ground), "s-1", {"work_mem": "64MB"}, {"work_mem": "4MB"},
        lambda _question: HeardAnswer(Action.UNDO, "alice", "dashboard", "it was slower"), 60.0,
    )  # fmt: skip
    assert said == ["it could not be taken back: the server did not start. Run pgdyno rollback s-1."]
    assert asked == [], "nothing is on record that did not happen"
