"""How a live study stays in the store: pair after pair, through a store that refuses, and after a kill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.errors import StoreError
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.kept import kept, mark_killed
from simulated_live_world import WATCHED
from study_example import make_study


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def live(name="live-1", state=StudyState.RUNNING):
    return replace(make_study(StudyKind.LIVE, name), state=state)


def test_a_store_that_refuses_a_pair_ends_nothing_and_has_all_of_it_at_the_end(store, monkeypatch):
    said = []
    with kept(store, live(), 1.0) as (ending, _):
        with monkeypatch.context() as patched:
            patched.setattr(store, "update_study", refuse)
            ending.hear(WATCHED, said.append)
        assert "locked" in said[0]
        ending.complete(WATCHED)
    found = store.study("live-1")
    assert (found.state, found.result) == (StudyState.COMPLETE, WATCHED)


def refuse(*_words, **_more):
    raise StoreError("the store is locked")


@pytest.mark.parametrize(("error", "state"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_what_was_heard_is_kept_when_it_is_broken_off(store, error, state):
    with pytest.raises(error), kept(store, live(), 1.0) as (ending, _):  # noqa: PT012 - what is heard before counts
        ending.hear(WATCHED, lambda _text: None)
        raise error
    found = store.study("live-1")
    assert (found.state.value, found.result) == (state, WATCHED)


def test_a_live_study_that_no_process_runs_is_called_interrupted_and_no_other_kind(store):
    store.add_study(live("dead"))
    store.add_study(live("done", StudyState.COMPLETE))
    store.add_study(make_study(StudyKind.TUNE, "tune"))
    store.update_study("tune", state=StudyState.RUNNING)
    with kept(store, live("alive"), 1.0) as (ending, _):
        mark_killed(store)
        states = {study.id: study.state for study in store.studies()}
        ending.complete(WATCHED)
    assert states == {
        "dead": StudyState.INTERRUPTED,
        "done": StudyState.COMPLETE,
        "tune": StudyState.RUNNING,
        "alive": StudyState.RUNNING,
    }
