"""The study around a watch, whose readings are made up: what is kept of it, and what the dashboard shows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import StoreError
from pgdyno.model.results.watch import WatchEventKind
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.studies.watch import run
from pgdyno.studies.watch import study as watch_study
from pgdyno.studies.watch.study import watch_server
from study_example import make_study

BEGAN = 1_800_000_000.0


@pytest.fixture
def watching(monkeypatch, tmp_path):
    """Run a watch of no server in a store of its own, which is handed to what stands in for its readings."""

    def ran(seen_meanwhile, said):
        monkeypatch.setattr(watch_study, "watch", lambda *given, **more: seen_meanwhile(store, *given, **more))
        with Store.open(tmp_path / "store.db") as store:
            target = SimpleNamespace(name="db1", postgres=None)
            told = watch_server(store, target, None, seconds=60.0, period_s=60.0, announce=said.append)
            return told, store.study("w1")

    made = replace(make_study(StudyKind.WATCH), id="w1")
    server = SimpleNamespace(keys=[], names=lambda: ({}, {}), read=dict, close=lambda: None)
    for name, stands_in in {
        "read_facts": lambda _target: make_facts(18), "StatementReader": lambda _: server,
        "SettingsReader": lambda _: server, "open_watchable": lambda *_: 1, "observed_study": lambda *_, **__: made,
    }.items():  # fmt: skip
        monkeypatch.setattr(watch_study, name, stands_in)
    return ran


def test_a_store_that_refuses_for_a_moment_ends_no_watch(monkeypatch, watching):
    def seen_meanwhile(store, _reader, _settings, told, *, period_s, keep, **_):
        with monkeypatch.context() as locked:
            locked.setattr(store, "update_study", refuse)
            keep(seen := run.WatchSeen(period_s, BEGAN, BEGAN + 60, told))
        return seen

    def refuse(*_, **__):
        raise StoreError("the store is locked")

    told, study = watching(seen_meanwhile, said := [])
    assert said[-1] == "what was seen is not in the store yet: the store is locked"
    assert (study.state, study.result) == (StudyState.COMPLETE, told)


def test_what_happens_is_on_the_dashboard_at_once(monkeypatch, watching):
    def seen_meanwhile(_store, _reader, _settings, told, *, period_s, announce, **_):
        announce(told.note(WatchEventKind.SETTING, BEGAN, "work_mem was changed from 4MB to 64kB"))
        return run.WatchSeen(period_s, BEGAN, BEGAN + 60, told)

    shown = []
    row = SimpleNamespace(put=lambda **_: None, notice=shown.append)
    monkeypatch.setattr(watch_study, "owning", lambda *_, **__: nullcontext(row))
    watching(seen_meanwhile, said := [])
    assert shown == ["setting changed: work_mem was changed from 4MB to 64kB"]
    assert said[-1] == shown[0]
