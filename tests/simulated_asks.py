"""What the optimiser answered, kept for simulated tunes: many of them ask the same of the same history.

`ask` is a function of what it is given (`test_optimizer_ask.py` holds it to that), and half of a tune's CPU time. The
night keeps none, and neither does a test that compares a search that goes on with one that was never killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fix_postgres import NIGHT
from pgdyno.model.facts import Facts
from pgdyno.optimizer.ask import Suggestion, ask
from pgdyno.studies.tune import search
from pgdyno.studies.tune.search import Search

_KEPT: dict[str, list[tuple[Facts, Suggestion]]] = {}
_FEASIBLE = Search.is_feasible, Search.accepts, search.check


def _kept(*asked: Any, feasible: Callable[..., bool], **more: Any) -> Suggestion:
    """Return what `ask` does. Which points are feasible is a matter of the space, the facts and the clients."""
    of = getattr(feasible, "__self__", None)
    if type(of) is not Search or (Search.is_feasible, Search.accepts, search.check) != _FEASIBLE:
        return ask(*asked, feasible=feasible, **more)
    facts, clients = of.laboratory.facts, of.laboratory.study.plan.clients
    told = hashlib.sha256(repr((asked, more, of.space, clients)).encode()).hexdigest()
    answers = _KEPT.setdefault(told, [])
    if (found := next((answer for known, answer in answers if known == facts), None)) is None:
        found = ask(*asked, feasible=feasible, **more)
        answers.append((facts, found))
    return found


@contextmanager
def asked_anew() -> Iterator[None]:
    """Take nothing from what is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "ask", ask)
        yield


@contextmanager
def asks_kept() -> Iterator[None]:
    """Take what is kept, and keep what is asked, for all that ask the same."""
    with pytest.MonkeyPatch.context() as patch:
        if not NIGHT:
            patch.setattr(search, "ask", _kept)
        yield
