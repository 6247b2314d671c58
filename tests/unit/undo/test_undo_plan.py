"""What a rollback says before it is done, for each state of a server and of its settings."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.server.snapshot import SettingState
from pgdyno.undo import undo_plan as module
from pgdyno.undo.undo_plan import undo_plan


def state(name: str, setting: str, context: str = "sighup", source: str = "default") -> SettingState:
    return SettingState(name, setting, None, None, "string", context, "", source, None, None, pending_restart=False)


BEFORE = {
    "shared_buffers": state("shared_buffers", "128MB", "postmaster"),
    "work_mem": state("work_mem", "4MB", "user"),
    "fsync": state("fsync", "on"),
    "wal_buffers": state("wal_buffers", "4MB", "postmaster"),
}


def bundle(*names: str, local: bool = True, sandbox: bool = False) -> Any:
    written = SimpleNamespace(names=set(names), may_have_set=lambda name: name in names)
    manifest = SimpleNamespace(
        study="tune", target="db1", data_directory="/data", local=local, sandbox=sandbox, conninfo="",
        kernel=[SimpleNamespace(knob="vm.swappiness")],
    )  # fmt: skip
    reading = SimpleNamespace(records=())
    return SimpleNamespace(
        id="s1", manifest=manifest, settings=lambda: BEFORE, written=lambda: written, reading=lambda: reading
    )


class Plan:
    """What is read for a plan: `now` are the settings, an error where there are none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: dict[str, SettingState] | Exception = dict(BEFORE)
        self.pid: int | None = 7
        self.by_person = False
        self.route: Any = SimpleNamespace(plan=lambda: ["take out 3 lines"])
        monkeypatch.setattr(module.route_record, "from_record", lambda *_: self.route)
        monkeypatch.setattr(module.postmaster_lock, "postmaster_pid", lambda _: self.pid)
        monkeypatch.setattr(module.stopped, "is_down_by_person", lambda *_: self.by_person)
        monkeypatch.setattr(module.snapshot, "read_settings", self._read)

    def _read(self, *_: object, **__: object) -> dict[str, SettingState]:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    def of(self, one: Any) -> list[str]:
        postgres: Any = SimpleNamespace(connect=lambda: nullcontext(), label="db1")
        first, *lines = undo_plan(one, postgres)
        assert first == "session s1 (study tune) on db1"
        assert lines[:2] == ["  take out 3 lines", "  put back vm.swappiness"]
        return [line.strip() for line in lines[2:]]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    return Plan(monkeypatch)


def test_a_session_that_set_nothing_needs_a_reload(plan: Plan) -> None:
    assert plan.of(bundle()) == ["this session has set nothing", "a reload, no restart"]


@pytest.mark.parametrize(
    ("now", "how"),
    [
        ({}, "a reload, no restart"),
        ({"work_mem": state("work_mem", "64MB", "user")}, "a reload, no restart"),
        (
            {"shared_buffers": state("shared_buffers", "1GB", "postmaster")},
            "a restart for shared_buffers, an outage of seconds",
        ),
        (
            {"shared_buffers": state("shared_buffers", "128MB", "postmaster", "configuration file")},
            "a restart for shared_buffers, an outage of seconds",
        ),
    ],
)
def test_what_only_a_restart_ends_is_named(plan: Plan, now: dict[str, SettingState], how: str) -> None:
    plan.now = {**BEFORE, **now}
    assert plan.of(bundle("work_mem", "shared_buffers")) == [
        "settings of this session: shared_buffers, work_mem", how,
    ]  # fmt: skip


def test_a_setting_that_is_not_there_any_more_needs_no_restart(plan: Plan) -> None:
    plan.now = {name: one for name, one in BEFORE.items() if name != "shared_buffers"}
    assert plan.of(bundle("shared_buffers", "unheard_of"))[1] == "a reload, no restart"


def test_what_somebody_else_has_set_stays_and_is_told(plan: Plan) -> None:
    plan.now = {
        **BEFORE,
        "fsync": state("fsync", "off", source="command line"),
        "work_mem": state("work_mem", "64MB", "user"),
        "wal_buffers": state("wal_buffers", "16MB", "postmaster", "override"),
        "server_version": state("server_version", "18.7", "internal"),
    }
    lines = plan.of(bundle("work_mem"))
    assert [line.split(":")[0] for line in lines] == [
        "settings of this session",
        "a reload, no restart",
        *["stays"] * 2,
    ]
    assert "fsync: was on (default), is off (command line); somebody else changed that" in lines[2]
    assert "wal_buffers" in lines[3]
    plan.now["shared_buffers"] = state("shared_buffers", "1GB", "postmaster")
    lines = plan.of(bundle("work_mem", "shared_buffers"))
    assert [line for line in lines if "wal_buffers" in line] == [], "a start computes it anew"
    assert len([line for line in lines if "fsync" in line]) == 1


@pytest.mark.parametrize(
    ("names", "how"), [(("shared_buffers",), "a restart for shared_buffers"), (("work_mem",), "a reload")]
)
def test_a_server_that_takes_no_session_is_told_of(plan: Plan, names: tuple[str, ...], how: str) -> None:
    plan.now = ConnectError("down", detail="too many connections")
    last = plan.of(bundle(*names))[-1]
    assert last.startswith(how)
    assert last.endswith("; the server could not be asked: too many connections")
    plan.now = ConnectError("down")
    assert plan.of(bundle("gone"))[-1] == "a reload; the server could not be asked: down"


def test_a_server_that_is_down_is_started_unless_a_person_stopped_it(plan: Plan) -> None:
    plan.pid = None
    assert plan.of(bundle())[-1] == "the server is down, and is started"
    plan.by_person = True
    assert plan.of(bundle())[-1] == module.stopped.LEFT_DOWN
    assert plan.of(bundle(sandbox=True))[-1] == module.stopped.SANDBOX_STOPPED
    assert plan.of(bundle(local=False))[-1] == "a reload, no restart", "of another host nothing is known by its files"


def test_what_cannot_be_known_is_said(plan: Plan) -> None:
    plan.now = EnvironmentUnsuitable("no right to look")
    assert plan.of(bundle()) == ["unknown: no right to look"]

    def broken() -> list[str]:
        raise KeyError("dropin")

    plan.now, plan.route.plan = dict(BEFORE), broken
    lines = undo_plan(bundle(), SimpleNamespace(connect=lambda: nullcontext(), label="db1"))  # type: ignore[arg-type]
    assert lines[1] == "  unknown: the bundle does not say how the server is reached ('dropin')"
