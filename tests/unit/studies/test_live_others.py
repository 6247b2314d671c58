"""What somebody else sets while a live study switches a server ends it, and what only moved lines does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.routes.file_check import FileLine, FileReading
from pgdyno.server.role_settings import Override
from pgdyno.studies.live import others
from pgdyno.studies.live.world import LiveStopped
from pgdyno.undo.server_lock import ServerInUse
from preflight_facts import state

ROWS = {one.name: one for one in (state("work_mem", "4096"), state("random_page_cost", "4"), state("jit", "on"))}


class Files:
    def __init__(self, monkeypatch):
        self.rows, self.lines, self.overrides = dict(ROWS), (), (Override("reports", None, "work_mem", "1GB"),)
        monkeypatch.setattr(
            others, "files_and_overrides", lambda _: (FileReading(self.lines, dict(self.rows)), self.overrides)
        )

    def set(self, name, value, **fields):
        self.rows[name] = replace(self.rows[name], setting=value, source="configuration file", **fields)


def test_a_session_that_another_one_begins_is_seen_within_half_a_minute_and_a_server_away_is_none(monkeypatch):
    """It is looked for while a server is watched: the second would be refused after half an hour for nothing."""
    now, seen = (
        [0.0],
        iter([EnvironmentUnsuitable("timed out"), ConnectError("gone"), ServerInUse("session s is still open")]),
    )
    asked = []

    def refuse(target, undo_root):
        asked.append((target, undo_root, now[0]))
        if (error := next(seen)) is not None:
            raise error

    monkeypatch.setattr(others, "refuse_while_open", refuse)
    look = others.sessions_of_others("db1", Path("/undo"), clock=lambda: now[0])
    for _ in range(89):
        look()
        now[0] += 1.0
    assert asked == [("db1", Path("/undo"), 30.0), ("db1", Path("/undo"), 60.0)]
    now[0] = 90.0
    with pytest.raises(ServerInUse, match="still open"):
        look()


@pytest.fixture
def files(monkeypatch):
    return Files(monkeypatch)


def test_our_own_knobs_change_with_a_switch_and_nothing_else_may(files):
    watching = others.OthersSettings(None, ("work_mem",))
    files.set("work_mem", "65536")
    watching.switched()
    watching.require_none()
    files.rows = dict(ROWS)
    watching.taken_back()
    watching.require_none()
    files.set("work_mem", "65536")
    files.set("random_page_cost", "3.3")
    with pytest.raises(LiveStopped, match="random_page_cost"):
        watching.switched()


def test_a_value_of_ours_that_somebody_else_changed_is_theirs(files):
    watching = others.OthersSettings(None, ("work_mem",))
    files.set("work_mem", "65536")
    watching.switched()
    files.set("work_mem", "8192")
    with pytest.raises(LiveStopped, match="work_mem"):
        watching.require_none()


def test_what_somebody_set_is_named_before_what_the_server_made_of_it(files):
    files.rows |= {"a_buffers": state("a_buffers", "32"), "shared_buffers": state("shared_buffers", "16384")}
    watching = others.OthersSettings(None, ("work_mem",))
    files.rows["a_buffers"] = state("a_buffers", "64")
    files.set("shared_buffers", "32768")
    with pytest.raises(LiveStopped, match="settings: shared_buffers") as told:
        watching.require_none()
    assert "a_buffers" in (told.value.detail or "")


def test_what_another_session_of_ours_changed_is_not_said_to_be_nobody_s(files):
    """A second pgdyno may switch the server while the first one watches it: what was changed, was not by this run."""
    watching = others.OthersSettings(None, ("work_mem",))
    watching.require_calm()
    files.set("work_mem", "65536", sourcefile="/data/conf.d/pgdyno.conf")
    with pytest.raises(EnvironmentUnsuitable, match="since the reference began") as told:
        watching.require_calm()
    assert str(told.value.hint).startswith("This run has changed nothing")
    assert "by pgdyno" not in str(told.value.hint)


def test_a_line_that_only_moved_is_no_change(files):
    def at(line):
        files.set("jit", "on", sourcefile="/etc/a.conf", sourceline=line)
        files.lines = (FileLine("/etc/a.conf", line, "jit", "on", True, None),)

    at(3)
    watching = others.OthersSettings(None, ("work_mem",))
    at(9)
    watching.require_none()


def test_an_edit_that_our_next_reload_would_bring_into_force_ends_it_before(files):
    watching = others.OthersSettings(None, ("work_mem",))
    files.lines = (FileLine("/etc/a.conf", 3, "random_page_cost", "1.1", True, None),)
    with pytest.raises(LiveStopped, match=r"random_page_cost = 1\.1"):
        watching.require_none()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ((Override("reports", None, "work_mem", "1GB"), Override("web", "shop", "jit", "off")),
         "jit, by ALTER ROLE web IN DATABASE shop"),
        ((Override("reports", None, "work_mem", "2GB"),), "work_mem, by ALTER ROLE reports"),
        ((), "work_mem, by ALTER ROLE reports"),
    ],
)  # fmt: skip
def test_a_setting_of_a_role_or_a_database_that_somebody_changed_ends_it_and_no_value_is_told(files, now, said):
    watching = others.OthersSettings(None, ("work_mem",))
    files.set("work_mem", "65536")
    watching.switched()
    watching.require_none()
    files.overrides = now
    with pytest.raises(LiveStopped, match=said) as told:
        watching.require_none()
    assert "GB" not in told.value.message


def test_a_setting_of_an_extension_for_a_role_ends_nothing(files):
    watching = others.OthersSettings(None, ("work_mem",))
    files.overrides += (Override("web", None, "app.tenant", "7"),)
    watching.require_none()
