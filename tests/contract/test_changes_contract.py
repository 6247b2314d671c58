"""What every store keeps of the changes to a server, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.store.catalogue import Store


@pytest.fixture
def store(new_store: Callable[[], str]) -> Iterator[Store]:
    with Store.open(new_store()) as opened:
        yield opened


def test_changes_are_kept_in_their_order(store: Store) -> None:
    change = ChangeRecord(
        1.5, "dba@db1", ChangeAction.APPLY, "t", "e", "s1", "max-wal-size", "max_wal_size", "1GB", "8GB"
    )
    back = replace(change, action=ChangeAction.ROLLBACK, old="8GB", new=None, study="20260101-000000-ab")
    other = replace(change, session="s2")
    store.add_changes([change, other])
    store.add_changes([back])
    store.add_changes([])
    assert store.changes() == [change, other, back]
    assert store.changes(session="s1") == [change, back]
