"""A restart is for what the session touched and only a start decides; what others changed is told and costs nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.configuration import Configuration
from pgdyno.routes.written import FILES_BACK, INTENT, Written
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.undo.journal import JournalRecord
from pgdyno.undo.ours import is_computed, is_line_only, is_ours, told, wants_restart

TOUCHED = Written((Configuration.of({"x": "2"}),))
OTHERS = Written((Configuration.of({"y": "2"}),))
MAIN = "/etc/postgresql.conf"


def setting(value: str, **fields: object) -> SettingState:
    row = SettingState("x", value, "0", None, "integer", "sighup", "c", "default", None, None, False)
    return replace(row, **fields)  # type: ignore[arg-type]  # fields of the row


def difference(before: SettingState | None, after: SettingState | None) -> SettingDifference:
    return SettingDifference("x", before, after)


@pytest.mark.parametrize(
    ("after", "may"),
    [
        ({"pending_restart": True}, True),  # our value is in force until a restart
        ({"context": "postmaster", "source": "override"}, True),  # wal_buffers as the last start computed it
        ({"context": "postmaster", "source": "command line"}, True),  # as Patroni passes them
        ({"context": "postmaster", "source": "configuration file"}, False),  # a start reads it again
        ({"context": "sighup"}, False),
        ({"context": "user", "source": "default"}, False),  # a reload has done what could be done
        ({"context": "internal"}, False),  # it follows from others, which wait themselves where it is for us
    ],
)
def test_a_restart_is_for_what_we_touched_and_a_start_decides(after: dict[str, object], may: bool) -> None:
    was = setting("1", context=str(after.get("context", "sighup")))
    found = difference(was, replace(was, setting="2", **after))  # type: ignore[arg-type]  # fields of the row
    assert wants_restart(found, TOUCHED) is may
    assert not wants_restart(found, OTHERS)
    assert wants_restart(found, Written((), is_known=False)) is (may or after["context"] == "internal")


def test_a_parameter_that_is_new_or_gone_is_no_reason_for_an_outage() -> None:
    """Somebody installed or dropped an extension since."""
    for found in (difference(None, setting("1")), difference(setting("1"), None)):
        for written in (TOUCHED, OTHERS, Written((), is_known=False)):
            assert not wants_restart(found, written)
            assert not is_ours(found, written, frozenset(), frozenset())


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("default", "default", True), ("default", "override", True), ("default", "database", False)],
)
def test_what_the_server_computes_from_a_knob_of_ours_is_nobodys_change(
    before: str, after: str, expected: bool
) -> None:
    """As wal_buffers from shared_buffers: the plan of a rollback would say that it stays, as somebody else's."""
    found = difference(setting("1", source=before), setting("2", source=after))
    assert is_computed(found) is expected
    assert not is_computed(difference(None, found.after))


def test_somebodys_value_of_a_knob_of_ours_that_waits_is_theirs_to_bring_into_force() -> None:
    """Ours never came into force; theirs waits in the files."""
    was = setting("1", context="postmaster")
    waits = difference(was, replace(was, pending_restart=True))
    assert not wants_restart(waits, TOUCHED, {"x"})
    assert not is_ours(waits, TOUCHED, frozenset(), {"x"})
    assert wants_restart(waits, TOUCHED, frozenset()), "it waits because of our line"
    runs_with_ours = difference(was, replace(was, setting="2", pending_restart=True))
    assert wants_restart(runs_with_ours, TOUCHED, {"x"})
    assert is_ours(runs_with_ours, TOUCHED, frozenset(), {"x"})


def test_a_huge_page_pool_of_ours_may_show_in_what_a_start_found() -> None:
    was = setting("off", context="internal")
    pool = Written((Configuration.of({"vm.nr_hugepages": "64"}),))
    assert wants_restart(difference(was, replace(was, setting="on")), pool)


def test_damage_is_what_no_place_of_others_explains() -> None:
    in_main = setting("1", source="configuration file", sourcefile=MAIN, sourceline=3)
    gone = difference(in_main, setting("0"))
    assert is_ours(gone, TOUCHED, {MAIN}, frozenset()), "the file is as it was, the value is not"
    assert not is_ours(gone, TOUCHED, frozenset(), frozenset()), "somebody edited that file"
    assert not is_ours(gone, OTHERS, {MAIN}, frozenset())
    elsewhere = setting("5", source="configuration file", sourcefile="/data/postgresql.auto.conf", sourceline=3)
    assert not is_ours(difference(in_main, elsewhere), TOUCHED, {MAIN}, frozenset())
    assert not is_ours(difference(in_main, setting("5", source="user")), TOUCHED, {MAIN}, frozenset())


def test_what_may_be_a_secret_is_not_told() -> None:
    assert told(difference(setting("1"), setting("2"))).startswith("x: was 1 (default), is 2 (default)")
    size = replace(setting("4096"), vartype="integer", unit="kB")
    by_role = replace(size, setting="1048576", source="user")
    assert told(difference(size, by_role)).startswith("x: was 4MB (default), is 1GB (of our role, by ALTER ROLE);")
    for name in ("primary_conninfo", "archive_command", "jwt.secret"):
        text = told(SettingDifference(name, setting("1"), setting("hush")))
        assert name in text
        assert "hush" not in text


def test_another_line_number_is_no_difference() -> None:
    was = setting("1", source="configuration file", sourcefile=MAIN, sourceline=3)
    moved = difference(was, replace(was, sourceline=4))
    assert is_line_only(moved)
    assert not is_ours(moved, TOUCHED, {MAIN}, frozenset())
    assert not is_line_only(difference(was, replace(was, sourceline=4, setting="2")))


def test_the_journal_says_what_was_written() -> None:
    intents = [{"settings": {"a": "1"}}, {"settings": {"a": "2", "b": "x"}}, {"settings": {"a": "1"}}, {}]
    records = [JournalRecord(number, 0.0, INTENT, data) for number, data in enumerate(intents)]
    written = Written.of(records)
    assert written.names == {"a", "b"}
    assert written.values() == {"a": {"1", "2"}, "b": {"x"}}
    assert len(written.configurations) == 2
    assert not written.is_undone
    assert Written.of([*records, JournalRecord(4, 0.0, FILES_BACK, {})]).is_undone
