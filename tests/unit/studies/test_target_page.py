"""The page of a target: what was changed there is of a store that others may write to."""

from __future__ import annotations

from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.report.sections import TableBlock
from pgdyno.studies.target_page import _changes


def test_a_command_that_is_to_be_run_holds_no_other_one() -> None:
    for session, command in (("s-1", "pgdyno rollback s-1"), ("x; reboot", "pgdyno rollback 'x; reboot'")):
        change = ChangeRecord(1.0, "a@b", ChangeAction.APPLY, "db1", "e", session, "r", "work_mem", "4MB", "8MB")
        first = _changes([change])[0]
        assert isinstance(first, TableBlock)
        assert first.table.rows == ((session, "work_mem", command),)
