"""Many who look at the dashboard at once: the store is read, and an event drawn, once for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import study_example as example
from pgdyno.store.catalogue import Store
from pgdyno.web import overview as overview_module
from pgdyno.web.overview import OverviewReader


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def test_many_readers_share_one_reading_of_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    example.add_bench(store)
    read: list[int] = []
    counts = Store.trial_counts
    monkeypatch.setattr(Store, "trial_counts", lambda self: read.append(1) or counts(self))
    now = [1000.0]
    reader = OverviewReader(store, clock=lambda: now[0])
    for _ in range(5):
        reader.latest()
    assert reader.latest() is reader.latest()
    assert len(read) == 1
    now[0] += overview_module.FRESH_S + 0.01
    reader.latest()
    assert len(read) == 2


def test_an_event_is_drawn_once_for_all_readers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgdyno.web import app as app_module

    drawn: list[int] = []
    parts = app_module.overview_parts
    monkeypatch.setattr(app_module, "overview_parts", lambda *given: drawn.append(1) or parts(*given))
    monkeypatch.setattr(overview_module, "FRESH_S", 3600.0)
    dashboard = app_module.Dashboard(store)
    assert dashboard.event() == dashboard.event()
    assert len(drawn) == 1
    monkeypatch.setattr(overview_module, "FRESH_S", 0.0)
    dashboard.event()
    assert len(drawn) == 2
