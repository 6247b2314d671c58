"""The requests of operators, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import study_example as example
from pgdyno.errors import StoreError
from pgdyno.model.person.operator_request import OperatorAction, OperatorRequest, Operators, RequestState
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import AT_ONCE, RequestBoard

pytestmark = pytest.mark.requirement("R-REP-12")
STUDY = example.make_study()
OPERATORS = Operators({"alice": "a" * 40})
ASKED = OPERATORS.sign(
    OperatorRequest(
        "r1", STUDY.id, "run", OperatorAction.EDIT, "alice", "wegen der Sortierungen: \u00e9", 1_800_000_000.123456,
        "digest", {"work_mem": "8MB"},
    )
)  # fmt: skip


def test_a_request_comes_back_as_it_was_signed_and_with_the_study_s_answer(new_store: Callable[[], str]) -> None:
    with Store.open(new_store()) as store:
        store.add_study(STUDY)
        board = RequestBoard(store)
        board.add(ASKED)
        board.add(replace(ASKED, id="r2"))
        first, second = board.waiting(STUDY.id)
        assert first.request == ASKED
        assert OPERATORS.has_signed(first.request)
        assert second.request is not None
        assert not OPERATORS.has_signed(second.request)
        assert board.waiting("nobody") == []
        board.settle(first.number, RequestState.REFUSED, "too late", 1_800_000_001.5)
        assert [one.number for one in board.waiting(STUDY.id)] == [second.number]
        answered = replace(ASKED, state=RequestState.REFUSED, said="too late", answered_at=1_800_000_001.5)
        assert board.of_study(STUDY.id) == [replace(ASKED, id="r2"), answered]
        for number in range(AT_ONCE + 1):
            board.add(replace(ASKED, id=f"more{number}"))
        assert len(board.waiting(STUDY.id)) == AT_ONCE
        with pytest.raises(StoreError):
            board.add(replace(ASKED, study="nobody"))
