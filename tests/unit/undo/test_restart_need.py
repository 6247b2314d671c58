"""Whether a restart is needed to lose what a session did, by its journal alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.snapshot import SettingState
from pgdyno.undo import restart_need
from pgdyno.undo.journal import JournalRecord

OLD, NEW = ProcessIdentity(10, 100, "boot"), ProcessIdentity(11, 200, "boot")
RELOADED, STARTED = {"work_mem": "9MB"}, {"shared_buffers": "48MB", "work_mem": "9MB"}


def state(name: str, context: str, *, source: str = "configuration file", pending: bool = False) -> SettingState:
    return SettingState(name, "1", "1", None, "integer", context, "x", source, "/f", 1, pending)


SETTINGS = {"work_mem": state("work_mem", "user"), "shared_buffers": state("shared_buffers", "postmaster")}


def journal(*steps: tuple[str, Mapping[str, object]]) -> list[JournalRecord]:
    return [JournalRecord(number, 0.0, kind, data) for number, (kind, data) in enumerate(steps)]


def intent(settings: Mapping[str, str], running: ProcessIdentity | None = OLD) -> tuple[str, Mapping[str, object]]:
    return "intent", {"settings": settings, "restart": True, **restart_need.note(running)}


IN_FORCE = ("in force", {"fingerprint": "x", "restarted": True})
REFUSED = ("refused", {"reason": "x"})
BEGUN = ("begun", {})


def knobs(*steps: tuple[str, Mapping[str, object]], running: ProcessIdentity | None = NEW) -> list[str]:
    return restart_need.knobs(journal(BEGUN, *steps), SETTINGS, running)


def test_what_a_reload_brought_goes_by_a_reload() -> None:
    assert knobs() == []
    assert knobs(intent(RELOADED)) == []
    assert knobs(intent(RELOADED), IN_FORCE) == []


def test_what_a_start_brought_goes_by_a_start() -> None:
    assert knobs(intent(STARTED), IN_FORCE) == ["shared_buffers"]
    assert knobs(intent(STARTED), IN_FORCE, intent({}, NEW), running=NEW) == ["shared_buffers"]
    assert knobs(intent(STARTED), IN_FORCE, intent({}, NEW), IN_FORCE) == []
    assert knobs(intent(STARTED), IN_FORCE, intent(RELOADED, NEW), IN_FORCE, intent(RELOADED)) == []


def test_a_try_counts_unless_the_postmaster_is_still_the_one_of_before() -> None:
    assert knobs(intent(STARTED)) == ["shared_buffers"]
    assert knobs(intent(STARTED), REFUSED) == ["shared_buffers"]
    assert knobs(intent(STARTED), running=None) == ["shared_buffers"]
    assert knobs(intent(STARTED), running=OLD) == []
    assert knobs(intent(STARTED, None)) == ["shared_buffers"]
    assert knobs(("intent", {"settings": STARTED, "restart": True}), running=OLD) == [
        "shared_buffers"
    ]  # an old journal
    assert knobs(intent(STARTED), REFUSED, intent(RELOADED), IN_FORCE) == []


def test_a_linux_knob_that_a_start_sees_counts() -> None:
    assert knobs(intent({"vm.nr_hugepages": "10"}), IN_FORCE) == ["vm.nr_hugepages"]


def test_after_a_restart_on_the_old_files_there_is_no_second_one() -> None:
    asked = (restart_need.RETURN, restart_need.note(OLD))
    assert not restart_need.has_returned(journal(BEGUN), NEW)
    assert not restart_need.has_returned(journal(BEGUN, asked), OLD)
    assert not restart_need.has_returned(journal(BEGUN, asked), None)
    assert restart_need.has_returned(journal(BEGUN, asked), NEW)
    assert restart_need.has_returned(journal(BEGUN, (restart_need.RETURN, restart_need.note(None))), NEW)
    stopped_again = journal(BEGUN, asked, (restart_need.RETURN, restart_need.note(NEW)))
    assert not restart_need.has_returned(stopped_again, NEW), "the second restart has not come about yet"
    again = replace(OLD, start_ticks=OLD.start_ticks + 1)
    assert restart_need.has_returned(journal(BEGUN, asked), again)
    assert asdict(again)["pid"] == OLD.pid
