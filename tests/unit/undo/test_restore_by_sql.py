"""How a server of which we only have sessions is put back: reloaded, restarted, or left for a person to see to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, RollbackError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.undo import restore
from pgdyno.undo.journal import JournalRecord
from pgdyno.undo.restart_need import RETURN


def difference(name: str) -> SettingDifference:
    before, after = (
        SettingState(name, value, None, None, "string", "sighup", "", "default", None, None, pending_restart=False)
        for value in ("1", "2")
    )
    return SettingDifference(name, before, after)


class Scene:
    """A server behind SQL: `errors` are what each step raises, once each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said, self.errors = list[str](), dict[str, list[Exception]]()
        self.running = self.answers = self.after_reload = True
        self.free = [True]
        self.found: tuple[SettingDifference, ...] = ()
        self.wants = set[str]()
        self.stop_is_open = False
        self.records = list[JournalRecord]()
        self.control: Any = SimpleNamespace(is_running=lambda: self.running, reload=lambda: self.happens("signal"))
        patch = monkeypatch.setattr
        patch(restore.activation, "free_slot", lambda _: self.free.pop(0) if len(self.free) > 1 else self.free[0])
        patch(restore.activation, "answers_sql", self._answers)
        patch(restore.activation, "reload", lambda *_, **__: self.happens("reload"))
        patch(restore.activation, "restart", lambda *_: self.happens("restart"))
        patch(restore.stopped, "is_our_stop_open", lambda _: self.stop_is_open)
        patch(restore.stopped, "our_restart", self._our_restart)
        patch(restore.comeback, "waiting_lines", lambda *_: self.happens("lines") or frozenset())
        patch(restore.comeback, "refuse_broken_files", lambda *_: self.happens("look at files"))
        patch(restore.ours, "wants_restart", lambda each, *_: each.name in self.wants)
        patch(restore.ours, "is_ours", lambda each, *_: each.name == "ours")
        patch(restore.ours, "is_line_only", lambda each: each.name == "line")
        patch(restore, "_settings", lambda _: {})
        patch(restore, "wait_until", lambda done, timeout_s, **_: self.happens(f"wait {timeout_s:.0f}") or done())

    def happens(self, what: str) -> None:
        self.said.append(what)
        if what == "reload":
            self.running = self.after_reload
        if left := self.errors.get(what):
            raise left.pop(0)

    def _answers(self, *_: object, **__: object) -> bool:
        self.happens("ask")
        return self.answers

    @contextlib.contextmanager
    def _our_restart(self, *_: object) -> Iterator[None]:
        yield

    def back(self, *, control: bool = True) -> Any:
        journal = SimpleNamespace(records=self.records, append=lambda kind, _: self.said.append(f"note {kind}"))
        route = SimpleNamespace(differences=lambda *_: self.found)
        given: list[Any] = [SimpleNamespace(id="s1", settings=dict), None, self.control if control else None]
        server = restore._Server(*given, cast(Any, route), cast(Any, journal), cast(Any, None), lambda _: None)
        self.said.clear()
        return server.bring_back()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_reload_is_enough_where_nothing_of_ours_waits(scene: Scene) -> None:
    scene.found = tuple(map(difference, ("ours", "theirs", "line")))
    back = scene.back()
    assert scene.said == ["ask", "reload", "lines", "lines"]
    assert (back.restarted, [one.name for one in back.differences], len(back.notes)) == (False, ["ours"], 1)
    assert back.notes[0].startswith("theirs")


@pytest.mark.parametrize(
    ("wants", "returned", "restarted"), [("ours", False, True), ("ours", True, False), ("x", False, False)]
)
def test_what_only_a_restart_ends_is_restarted_for_once(
    scene: Scene, wants: str, returned: bool, restarted: bool
) -> None:
    scene.found, scene.wants = (difference("ours"),), {wants}
    scene.records = [JournalRecord(1, 0.0, RETURN, {})] if returned else [JournalRecord(1, 0.0, "intent", {})]
    assert scene.back().restarted is restarted
    assert ("restart" in scene.said) is restarted
    assert (f"note {RETURN}" in scene.said) is restarted
    assert ("look at files" in scene.said) is restarted
    assert not scene.back(control=False).restarted


@pytest.mark.parametrize("case", ["down", "silent", "deaf", "no right"])
def test_a_server_that_cannot_be_reloaded_is_restarted_where_we_can(scene: Scene, case: str) -> None:
    def prepare() -> None:
        scene.running, scene.answers = case != "down", case != "silent"
        scene.errors = {"reload": [RestartError("deaf") if case == "deaf" else EnvironmentUnsuitable("no right")]}
        if case in ("down", "silent"):
            scene.errors = {}

    prepare()
    assert scene.back().restarted
    prepare()
    if case in ("deaf", "no right"):
        with pytest.raises(EnvironmentUnsuitable if case == "no right" else RestartError):
            scene.back(control=False)
    else:
        assert not scene.back(control=False).restarted


@pytest.mark.parametrize(("running", "restarted"), [(False, True), (True, False)])
def test_a_session_that_is_lost_is_a_reason_where_the_server_went_down(
    scene: Scene, running: bool, restarted: bool
) -> None:
    scene.errors = {"reload": [ConnectError("lost", detail="why")]}
    scene.after_reload = running
    if restarted:
        assert scene.back().restarted
    else:
        with pytest.raises(RollbackError, match="the server could not be asked: lost") as raised:
            scene.back()
        assert raised.value.detail == "why"


def test_a_server_that_cannot_be_looked_at_in_the_end_is_not_called_restored(scene: Scene) -> None:
    scene.errors = {"lines": [ConnectError("lost")]}
    scene.records = [JournalRecord(1, 0.0, RETURN, {})]
    with pytest.raises(RollbackError, match="could not be asked: lost"):
        scene.back()


def test_a_full_server_reads_its_files_at_once_and_a_slot_is_waited_for(scene: Scene) -> None:
    scene.free = [False, True]
    assert not scene.back().restarted
    assert scene.said[:3] == ["signal", "wait 20", "ask"]
    scene.free = [False]
    scene.back(control=False)
    assert scene.said[0] == "ask", "without a control nothing can be told to it"


def test_a_start_of_a_killed_session_is_noted_where_it_is_up(scene: Scene) -> None:
    scene.stop_is_open = True
    scene.back()
    assert scene.said[:3] == ["ask", "note started", "reload"]


def test_a_start_is_tried_twice(scene: Scene) -> None:
    scene.running = False
    scene.errors = {"restart": [RestartError("first")]}
    assert scene.back().restarted
    assert scene.said.count("restart") == restore._ATTEMPTS
    scene.errors = {"restart": [RestartError(str(number), detail="d") for number in range(1, restore._ATTEMPTS + 1)]}
    with pytest.raises(RollbackError, match=f"did not start: {restore._ATTEMPTS}") as raised:
        scene.back()
    assert (raised.value.detail, raised.value.hint) == ("d", "See why in its log. Then run pgdyno rollback s1.")


def test_processes_of_the_session_are_ended_and_a_pg_ctl_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, scene: Scene, tmp_path: Path
) -> None:
    ended = list[ProcessIdentity]()
    monkeypatch.setattr(restore, "end_process", lambda one, **_: ended.append(one) or one.pid == 7)
    data = [{"pid": pid, "start_ticks": 5, "boot_id": "b", "what": "pgbench"} for pid in (7, 8)]
    records = [JournalRecord(1, 0.0, restore.PROCESS, one) for one in data] + [JournalRecord(2, 0.0, "intent", {})]
    bundle: Any = SimpleNamespace(manifest=SimpleNamespace(data_directory="/data"))
    assert restore._end_leftovers(bundle, cast(Any, SimpleNamespace(records=records)), lambda _: None) == ("pgbench 7",)
    assert ended == [ProcessIdentity(7, 5, "b"), ProcessIdentity(8, 5, "b")]
    assert scene.said == [f"wait {restore._CONTROL_WAIT_S:.0f}"]
    words = {1: ["/usr/bin/pg_ctl", "-D", "/data"], 2: ["pg_ctl", "/other"], 3: ["postgres", "-D", "/data"]}
    monkeypatch.setattr(restore.processes, "PROC", tmp_path)
    for pid, line in words.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text("\0".join(line))
    for pids, expected in (([1], True), ([9, 2, 3], False), ([3, 1], True)):
        monkeypatch.setattr(restore.processes, "all_pids", lambda pids=pids: pids)
        assert restore._is_controlled("/data") is expected


@pytest.mark.parametrize(
    ("local", "is_open", "asked"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_server_of_this_host_that_a_dead_session_was_stopping_is_looked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, local: bool, is_open: bool, asked: bool
) -> None:
    monkeypatch.setattr(restore.stuck_stop, "server_in", lambda folder: f"server in {folder}")
    scene.stop_is_open = is_open
    bundle: Any = SimpleNamespace(manifest=SimpleNamespace(local=local, data_directory="/data"))
    found: object = restore._being_stopped(bundle, cast(Any, SimpleNamespace(records=())))
    assert found == ("server in /data" if asked else None)
