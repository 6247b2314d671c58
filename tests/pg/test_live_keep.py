"""What an operator keeps from a live study is put in force by the study itself, on record, and taken back by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from live_driver import short_study
from live_load import planted_load
from pgdyno.model.change import ChangeAction
from pgdyno.model.person.live_question import LiveQuestion
from pgdyno.model.person.operator_request import OperatorAction, OperatorRequest, Operators, RequestState
from pgdyno.model.study import StudyState
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.file_check import read_files
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard
from pgdyno.studies.live.person.hands import HeardAnswer, LiveHands
from server_image import eventually, files_of, settings_of

pytestmark = [
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.requirement("R-REP-12", "R-SAF-01"),
    pytest.mark.timeout(900),  # a busy machine repeats studies
]
SAME = "pg/test_live_keep.py::test_a_winner_is_kept_and_taken_back_by_an_operator"
OPERATORS = Operators({"alice": "a" * 40})


def contents(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what the files are but for their times: ALTER SYSTEM writes its file anew."""
    return {name: (digest, owner, mode) for name, (digest, _, owner, mode) in files_of(folder).items()}


@pytest.mark.parametrize("altered", [pytest.param(False, marks=pytest.mark.night(SAME)), True])
def test_a_winner_is_kept_and_taken_back_by_an_operator(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path, altered: bool
) -> None:
    """Where the cluster takes the setting from: its files, or what somebody said by ALTER SYSTEM."""
    sandbox = make_sandbox("kept")
    sandbox.start()
    if altered:
        postgres = sandbox.target().postgres
        postgres.execute(alter_system(Line("work_mem", "4MB")))
        postgres.execute("SELECT pg_reload_conf()")
        eventually(lambda: not read_files(postgres).unread(), "the server has read it")
    folder = sandbox.target().directory
    assert folder is not None
    before = settings_of(sandbox), contents(folder)
    seen: list[tuple[LiveQuestion, object, StudyState]] = []

    def confirm(hands: LiveHands) -> Callable[[LiveQuestion], HeardAnswer | None]:
        def ask(question: LiveQuestion) -> HeardAnswer | None:
            with Store.open(places.data_dir() / "pgdyno.db") as store:
                seen.append((question, settings_of(sandbox)["work_mem"], store.study(hands.study).state))
                request = OperatorRequest(
                    question.id, hands.study, hands.run, question.actions[0], "alice", "it is proved", time.time(),
                    question.digest,
                )  # fmt: skip
                hands.ask(question)
                RequestBoard(store).add(OPERATORS.sign(replace(request, signature="")))
                eventually(lambda: hands.has_answer, "the operator's answer")
            return hands.settle(None)

        return ask

    with planted_load(sandbox.target().postgres, {"5MB": 0.4}):
        told = short_study(sandbox.target(), {"work_mem": "5MB"}, confirm=confirm, operators=OPERATORS, resolved=True)
    assert (settings_of(sandbox), contents(folder)) == before
    (keep, as_found, state), (undo, kept, _) = seen
    assert (keep.actions[0], undo.actions[0]) == (OperatorAction.KEEP, OperatorAction.UNDO)
    assert state is StudyState.COMPLETE
    assert as_found != kept
    facts = {fact.label: fact.text for fact in keep.facts}
    assert ("ALTER SYSTEM" if altered else "file in the server's configuration") in facts["written to"]
    assert "pgdyno rollback" in facts["undo"]
    assert [(one.who, one.answer, one.why) for one in told.decisions] == [
        ("alice", "keep", "it is proved"), ("alice", "undo", "it is proved"),
    ]  # fmt: skip
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        changes = store.changes()
        assert store.study(told.study).result == told
        eventually(
            lambda: {one.state for one in RequestBoard(store).of_study(told.study)} == {RequestState.DONE},
            "both answers on record",
        )
    assert [(one.action, one.knob, one.new) for one in changes] == [
        (ChangeAction.APPLY, "work_mem", "5MB"), (ChangeAction.ROLLBACK, "work_mem", "4MB"),
    ]  # fmt: skip
    assert all(one.who.startswith("alice, ") and one.study == told.study for one in changes)
