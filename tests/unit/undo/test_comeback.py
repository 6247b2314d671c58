"""Whether a server is reloaded, restarted or left as it is, on one whose processes and settings a test makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, RollbackError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.undo import comeback
from pgdyno.undo.comeback import Comeback, bring_back, waiting_lines

OLD, NEW = (ProcessIdentity(pid, 1, "b-o-o-t") for pid in (10, 11))


def difference(name: str, *, pending: bool = False) -> SettingDifference:
    before, after = (
        SettingState(name, value, None, None, "string", "sighup", "", "default", None, None, pending_restart=wait)
        for value, wait in (("1", False), ("2", pending))
    )
    return SettingDifference(name, before, after)


class Scene:
    """A server: `postmaster` runs, `settings` differ; `restarts` are what each restart leaves or raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.postmaster: ProcessIdentity | None = OLD
        self.by_person = self.ours_open = self.returned = self.pool_held = False
        self.is_ready, self.status = True, "ready"
        self.reload_error: Exception | None = None
        self.look_errors: list[EnvironmentUnsuitable] = []
        self.found: tuple[SettingDifference, ...] = ()
        self.wants: set[str] = set()
        self.knobs: list[str] = []
        self.rejected: list[Any] = []
        self.restarts: list[object] = []
        self.said, self.slept, self.appended = list[str](), list[float](), list[str]()
        patch = monkeypatch.setattr
        patch(comeback.sighup, "postmaster", lambda _: self.postmaster)
        patch(comeback.sighup, "is_ready", lambda _: self.is_ready)
        patch(comeback.sighup, "status", lambda _: self.status)
        patch(comeback.sighup, "reload", self._reload)
        patch(comeback.activation, "reload", lambda *_, **__: self.said.append("reload by SQL"))
        patch(comeback.stopped, "is_down_by_person", lambda *_: self.by_person)
        patch(comeback.stopped, "is_our_stop_open", lambda _: self.ours_open)
        patch(comeback.stopped, "our_restart", self._our_restart)
        patch(comeback.stuck_stop, "server_in", lambda _: None)
        patch(comeback.restart_need, "has_returned", lambda *_: self.returned)
        patch(comeback.restart_need, "knobs", lambda *_: self.knobs)
        patch(comeback.kernel_route, "is_pool_held", lambda *_: self.pool_held)
        patch(comeback.ours, "wants_restart", lambda each, *_: each.name in self.wants)
        patch(comeback.ours, "is_ours", lambda each, *_: each.name.startswith("our"))
        patch(comeback.ours, "is_line_only", lambda each: each.name == "line")
        patch(comeback, "read_files", self._files)
        patch(comeback, "wait_until", lambda done, timeout_s, sleep: done())
        patch(comeback.snapshot, "read_settings", lambda *_, **__: {})
        self.bundle: Any = SimpleNamespace(
            id="s1",
            manifest=SimpleNamespace(data_directory="/data", address="socket"),
            settings=dict,
            written=lambda: None,
            has_damaged_journal=lambda: False,
        )
        self.journal: Any = SimpleNamespace(records=(), append=self._append)
        self.route: Any = SimpleNamespace(differences=lambda *_: self.found)

    def _append(self, kind: str, data: object) -> None:
        self.appended.append(kind)
        raise OSError(28, "full")  # which must not keep a server down

    def _files(self, _: object) -> Any:
        return SimpleNamespace(rejected=lambda: self.rejected, waiting=lambda: frozenset({"port"}))

    def _reload(self, *_: object, **__: object) -> None:
        self.said.append("reload")
        if self.reload_error is not None:
            raise self.reload_error

    @contextlib.contextmanager
    def _our_restart(self, *_: object) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def connect(self) -> Iterator[None]:
        if self.look_errors:
            raise self.look_errors.pop(0)
        yield

    def restart(self) -> None:
        self.said.append("restart")
        left = self.restarts.pop(0)
        if isinstance(left, RestartError):
            raise left
        self.postmaster = cast(Any, left)

    def back(self, *, control: bool = True) -> Comeback:
        postgres: Any = SimpleNamespace(connect=self.connect, label="db1")
        given: Any = SimpleNamespace(restart=self.restart) if control else None
        return bring_back(
            self.bundle, self.journal, postgres, given, self.route, kernel=["nr"], sleep=self.slept.append
        )


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_reload_is_enough_where_nothing_of_ours_waits(scene: Scene) -> None:
    scene.found = (difference("ours"), difference("theirs"), difference("line"))
    back = scene.back()
    assert (back.restarted, back.left_down, back.not_compared) == (False, False, None)
    assert [one.name for one in back.differences] == ["ours"]
    assert len(back.notes) == 1
    assert back.notes[0].startswith("theirs")
    assert scene.said == ["reload"]


def test_what_a_person_has_shut_down_is_left_so(scene: Scene) -> None:
    scene.by_person = True
    assert scene.back() == Comeback(restarted=False, left_down=True)
    assert scene.said == []


@pytest.mark.parametrize(
    ("given", "control", "restarted"),
    [
        ({"wants": {"ours"}}, True, True),
        ({"wants": {"ours"}}, False, False),  # it is told among the differences
        ({"wants": {"ours"}, "returned": True}, True, False),
        ({"pool_held": True}, True, True),
        ({"wants": {"others"}}, True, False),
        ({"look_errors": [ConnectError("no right")], "knobs": ["x"]}, True, True),
        ({"look_errors": [ConnectError("no right")]}, True, False),
    ],
)
def test_only_what_is_ours_and_a_restart_ends_is_a_reason_for_one(
    scene: Scene, given: dict[str, object], control: bool, restarted: bool
) -> None:
    scene.found, scene.restarts = (difference("ours"),), [NEW]
    vars(scene).update(given)
    assert scene.back(control=control).restarted is restarted
    assert scene.said == ["reload", "restart"][: 1 + restarted]


def test_a_damaged_journal_is_a_reason_where_nothing_can_be_compared(scene: Scene) -> None:
    scene.look_errors, scene.restarts = [ConnectError("no right", detail=" not you \n")], [NEW]
    scene.bundle.has_damaged_journal = lambda: True
    assert scene.back().restarted
    scene.look_errors, scene.postmaster, scene.returned = [ConnectError("no", detail=" not you \n")], OLD, True
    assert scene.back().not_compared == "not you"


def test_a_server_that_is_down_is_started_and_its_record_closed(scene: Scene) -> None:
    scene.postmaster, scene.restarts, scene.ours_open = None, [NEW], True
    assert scene.back().restarted
    assert scene.said == ["restart"]
    assert scene.appended == ["return by restart", "started"]


def test_a_server_of_another_user_is_told_by_sql(scene: Scene) -> None:
    scene.reload_error = PermissionError()
    assert not scene.back().restarted
    assert scene.said == ["reload", "reload by SQL"]


def test_a_server_that_does_not_read_its_files_is_restarted_where_we_can(scene: Scene) -> None:
    scene.reload_error, scene.restarts = RestartError("deaf", detail="d", hint="Look."), [NEW]
    assert scene.back().restarted
    with pytest.raises(RollbackError, match="the server did not read them: deaf") as raised:
        scene.back(control=False)
    assert (raised.value.detail, raised.value.hint) == ("d", "Look. Then run pgdyno rollback s1.")


def test_a_start_is_tried_once_more_only_where_it_is_down(scene: Scene) -> None:
    scene.postmaster, scene.restarts = None, [RestartError("first"), NEW]
    assert scene.back().restarted
    assert scene.said == ["restart", "restart"]
    scene.postmaster, scene.restarts = None, [RestartError("first"), RestartError("second", detail="why")]
    with pytest.raises(RollbackError, match="did not start: second") as raised:
        scene.back()
    assert raised.value.detail == "why"
    scene.said.clear()
    scene.postmaster, scene.restarts, scene.is_ready = None, [NEW], False
    with pytest.raises(RollbackError, match="was started but takes no session"):
        scene.back()
    assert scene.said == ["restart"], "it recovers: another start would begin that again"
    scene.postmaster = None
    with pytest.raises(RollbackError, match="was not told how to start it"):
        scene.back(control=False)


def test_the_same_server_is_no_start(scene: Scene) -> None:
    scene.found, scene.wants, scene.restarts = (difference("ours"),), {"ours"}, [OLD, NEW]
    assert scene.back().restarted
    assert scene.said == ["reload", "restart", "restart"]


@pytest.mark.parametrize(
    ("status", "ours_open", "is_refused"),
    [("stopping", False, True), ("stopping", True, False), ("ready", False, False)],
)
def test_no_restart_comes_in_the_way_of_a_person(scene: Scene, status: str, ours_open: bool, is_refused: bool) -> None:
    scene.pool_held, scene.restarts, scene.status, scene.ours_open = True, [NEW], status, ours_open
    refused = (
        pytest.raises(RollbackError, match="somebody else is shutting") if is_refused else contextlib.nullcontext()
    )
    with refused:
        assert scene.back().restarted


def test_no_restart_goes_into_a_line_that_the_server_would_not_start_with(scene: Scene) -> None:
    scene.pool_held, scene.rejected = True, [SimpleNamespace(place="postgresql.conf line 9", error="invalid")]
    with pytest.raises(RollbackError, match=r"of somebody else, postgresql\.conf line 9") as raised:
        scene.back()
    assert raised.value.detail == "invalid"


@pytest.mark.parametrize(
    ("detail", "is_ready", "waited_s"),
    [
        ("the database system is starting up", True, comeback.activation.READY_S),
        ("sorry, too many clients already", True, comeback.SLOT_WAIT_S),
        ("password authentication failed", True, 0.0),
        ("password authentication failed", False, comeback.activation.READY_S),
    ],
)
def test_a_session_is_waited_for_where_that_passes(scene: Scene, detail: str, is_ready: bool, waited_s: float) -> None:
    scene.is_ready, scene.returned = is_ready, True
    scene.look_errors = [ConnectError("no session", detail=detail) for _ in range(2000)]
    assert scene.back().not_compared == detail
    assert sum(scene.slept) == pytest.approx(waited_s, abs=0.21)
    scene.slept.clear()
    scene.look_errors = [ConnectError("no session", detail="the database system is starting up")] * 3
    assert scene.back().not_compared is None
    assert scene.slept == [0.2] * 3


def test_lines_that_wait_are_asked_for_where_a_setting_waits(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    postgres: Any = None
    assert waiting_lines(postgres, [difference("a")]) == frozenset()
    assert waiting_lines(postgres, [difference("a"), difference("b", pending=True)]) == {"port"}
    assert waiting_lines(postgres, [SettingDifference("a", None, None)]) == frozenset()
    for error, raises in ((ConnectError("gone"), True), (EnvironmentUnsuitable("no right"), False)):

        def files(_: object, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(comeback, "read_files", files)
        with pytest.raises(ConnectError) if raises else contextlib.nullcontext():
            assert waiting_lines(postgres, [difference("b", pending=True)]) == frozenset()
