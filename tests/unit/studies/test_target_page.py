"""The page of a target: what was changed there is of a store that others may write to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.report.sections import TableBlock
from pgdyno.store.catalogue import Store
from pgdyno.studies import target_page
from pgdyno.studies.target_page import _changes, build_target_page
from simulated_laboratory import simulated_study


def test_a_command_that_is_to_be_run_holds_no_other_one() -> None:
    for session, command in (("s-1", "pgdyno rollback s-1"), ("x; reboot", "pgdyno rollback 'x; reboot'")):
        change = ChangeRecord(1.0, "a@b", ChangeAction.APPLY, "db1", "e", session, "r", "work_mem", "4MB", "8MB")
        first = _changes([change])[0]
        assert isinstance(first, TableBlock)
        assert first.table.rows == ((session, "work_mem", command),)


def test_a_target_keeps_its_page_however_many_studies_of_others_came_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_page, "MOST", 1)
    ours = replace(simulated_study(), id="ours", target="db1", created_at=1.0)
    with Store.open(tmp_path / "store.db") as store:
        for one in (ours, replace(ours, id="later", target="db2", created_at=2.0)):
            store.add_study(one)
        assert build_target_page(store, "db1").study == "ours"
        with pytest.raises(UsageError, match='no study of target "db3"'):
            build_target_page(store, "db3")
