"""A watchdog's looks, its second one, and how it acts: on a clock, processes and a rollback that tests set."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RollbackError
from pgdyno.server.health import Health
from pgdyno.undo import watch_record, watchdog
from pgdyno.undo.watch_judge import Turn
from pgdyno.undo.watch_record import Deadlines, WatchdogRole


class Scene:
    """What a watchdog finds, and what it does: `now` and `health` are set by a test, the lists are filled."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.health, self.alive, self.closed = 1000.0, Health.ALIVE, True, False
        self.said, self.asked, self.pauses, self.forked = list[str](), list[float](), list[float](), list[float]()
        self.killed, self.ended = list[tuple[int, int]](), list[float]()
        self.patch, self.folder = monkeypatch, folder
        owner = SimpleNamespace(pid=77, is_alive=lambda: self.alive)
        self.bundle: Any = SimpleNamespace(
            id="s1",
            directory=folder,
            manifest=SimpleNamespace(address="socket", owner=owner),
            is_closed=lambda: self.closed,
            release_reserve=lambda: None,
        )
        monkeypatch.setattr(watchdog.heartbeat, "now", lambda: self.now)
        monkeypatch.setattr(watchdog.heartbeat, "read", lambda _: None)
        monkeypatch.setattr(watchdog.health, "ask", self._ask)
        monkeypatch.setattr(watchdog, "_say", self.said.append)
        monkeypatch.setattr(watchdog, "wait_until", self._wait)
        monkeypatch.setattr(watchdog, "_set_oom_score", lambda _: None)
        monkeypatch.setattr(watchdog, "_is_unlinked", lambda *_: False)
        monkeypatch.setattr(watchdog.watch_record, "read_deadlines", lambda _: Deadlines())
        monkeypatch.setattr(watchdog.watch_record, "read_oom_score", lambda _: "0")
        monkeypatch.setattr(watchdog.watch_record, "leave_to_person", lambda _: self.said.append("left"))
        monkeypatch.setattr(watchdog, "end_process", lambda _, grace_s: self.ended.append(grace_s))
        monkeypatch.setattr(os, "kill", lambda pid, number: self.killed.append((pid, number)))
        monkeypatch.setattr(os, "fork", self._fork)
        monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
        self.dog = watchdog._Watchdog(self.bundle, cast(Any, None), 3)

    def _ask(self, _: object) -> Health:
        self.asked.append(self.now)
        return self.health

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        self.pauses.append(timeout_s)
        return done()

    def _fork(self) -> int:
        self.forked.append(self.now)
        return 40 + len(self.forked)

    def at(self, now: float) -> watchdog.WatchdogView:
        self.now = now
        return self.dog._look()

    def rolled_back(self, found: Iterable[object]) -> None:
        """Have each attempt of a rollback give the next of these; an error is raised."""
        answers = iter(found)

        def rollback(*_: object, **__: object) -> object:
            answer = next(answers, None)
            if answer is None:
                pytest.fail("it should have given up, or been content")  # no Exception: those are tried again
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.patch.setattr(watchdog.rollback, "rollback", rollback)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def restored(**given: object) -> SimpleNamespace:
    plain = {"is_whole": True, "already_closed": False, "restarted": False, "left_down": False, "seconds": 1.25,
             "notes": (), "not_compared": "", "damage": (), "settings_differences": ()}  # fmt: skip
    return SimpleNamespace(**{**plain, **given})


def test_the_server_is_asked_once_a_second_and_is_ill_since_the_first_bad_answer(scene: Scene) -> None:
    assert scene.at(1000.0).unhealthy_since is None
    scene.health = Health.SILENT
    assert scene.at(1000.5).health is Health.ALIVE
    assert [scene.at(now).unhealthy_since for now in (1001.0, 1001.5, 1002.0)] == [1001.0, 1001.0, 1001.0]
    scene.health = Health.ALIVE
    assert scene.at(1003.0).unhealthy_since is None
    assert scene.asked == [1000.0, 1001.0, 1002.0, 1003.0]


def test_a_server_without_an_address_is_not_asked(scene: Scene) -> None:
    scene.bundle.manifest.address = None
    assert scene.at(1000.0).health is Health.ALIVE
    assert scene.asked == []


def test_after_three_seconds_without_a_look_the_others_get_their_time_again(scene: Scene) -> None:
    assert scene.at(1003.0).awake_since == 1000.0
    assert scene.at(1006.25).awake_since == 1006.25
    assert scene.at(1006.5).awake_since == 1006.25
    scene.bundle.directory = scene.folder / "away"
    assert scene.at(1007.0).awake_since == 1007.0, "a beat that cannot be written says nothing"


def test_the_journal_is_read_when_it_has_changed(scene: Scene) -> None:
    journal = scene.folder / "journal.jsonl"
    journal.write_text("one\n")
    assert not scene.dog._is_closed()
    scene.closed = True
    assert not scene.dog._is_closed()
    journal.write_text("one\ntwo\n")
    assert scene.dog._is_closed()
    scene.closed = False
    journal.unlink()
    assert not scene.dog._is_closed()


def test_watching_ends_with_the_session_or_by_a_reason(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog.signal, "signal", lambda *_: None)
    monkeypatch.setattr(watchdog.time, "sleep", lambda _: setattr(scene, "alive", False))
    monkeypatch.setattr(scene.dog, "_act", lambda reason: reason)
    assert cast(object, scene.dog.watch()) == "process 77 is gone"
    scene.dog._asked_to_end = True
    assert cast(object, scene.dog.watch()) == "SIGTERM"
    scene.closed, scene.dog._journal_size = True, -1
    assert scene.dog.watch() == 0


@pytest.mark.parametrize(
    ("status", "forked"),
    [
        (0, [1000.0, 1001.0]),
        (1 << 8, [1000.0, 1005.0]),  # it ended with 1: not twice a second
        (signal.SIGKILL, [1000.0, 1001.0]),
    ],
)
def test_a_second_one_is_replaced_at_once_where_it_was_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, status: int, forked: list[float]
) -> None:
    scene.dog._see_to_the_second()
    ends = {1000.5: (0, 0), 1001.0: (41, status)}
    monkeypatch.setattr(os, "waitpid", lambda pid, _: ends[scene.now] if pid == 41 else (0, 0))
    for scene.now in (1000.5, 1001.0, 1004.75, 1005.0):
        scene.dog._see_to_the_second()
    assert scene.forked == forked


def test_a_second_one_that_fails_each_time_is_tried_after_a_pause_that_grows(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as while no file can be opened: each of them writes a line, and a day has 17,000 times five seconds."""
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, 1 << 8))
    for step in range(200):
        scene.now = 1000.0 + step / 2
        scene.dog._see_to_the_second()
    assert scene.forked == [1000.0, 1005.0, 1015.0, 1035.0, 1065.0, 1095.0]


def test_the_forked_process_leaves_and_a_fork_that_fails_is_told_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise OSError(11, "no room")

    monkeypatch.setattr(os, "fork", full)
    scene.dog._see_to_the_second()
    scene.dog._see_to_the_second()
    assert scene.said == ["the second watchdog cannot be started: [Errno 11] no room"]
    monkeypatch.setattr(os, "fork", lambda: 0)
    with pytest.raises(watchdog._Second) as forked:
        scene.dog._see_to_the_second()
    assert forked.value.turn == scene.dog._turn, "it knows after whom it comes"


def test_it_tries_again_at_twice_the_pause_up_to_half_a_minute(scene: Scene) -> None:
    scene.alive = False
    broken = [ApplyError("busy", detail="a lock"), ApplyError("busy"), *[KeyError("x")] * 5]
    scene.rolled_back([*broken, restored(restarted=True, notes=("one note",), not_compared="no view")])
    assert scene.dog._act("it is gone") == 0
    assert scene.pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert scene.said == [
        "acting: it is gone",
        "not restored yet: busy: a lock",
        "not restored yet: busy",
        "not restored yet: KeyError: 'x'",
        "restored in 1.2 s, restarted; one note",
        "settings not compared: no view",
    ]
    assert scene.killed == []


def test_it_restores_where_no_process_of_the_server_s_account_can_be_had_for_the_reserve(scene: Scene) -> None:
    """Where as many run as may, a worker cannot be forked, and the next watchdog would fail as this one did."""

    def refused() -> None:
        raise EnvironmentUnsuitable('the process that works on the files of user "x" does not answer')

    scene.alive, scene.bundle.release_reserve = False, refused
    scene.rolled_back([ApplyError("no process"), restored()])
    assert scene.dog._act("it is gone") == 0
    assert scene.said == ["acting: it is gone", "not restored yet: no process", "restored in 1.2 s, reloaded"]


def test_a_tuner_that_cannot_be_ended_is_tried_again_and_nothing_is_restored_beside_it(scene: Scene) -> None:
    def kept(pid: int, number: int) -> None:
        scene.killed.append((pid, number))
        if len(scene.killed) < 3:
            raise PermissionError(1, "not yours")
        scene.alive = False

    scene.patch.setattr(os, "kill", kept)
    scene.rolled_back([restored()])
    assert scene.dog._act("x") == 0
    assert scene.said == [
        "acting: x",
        "not restored yet: PermissionError: [Errno 1] not yours",
        "restored in 1.2 s, reloaded",
    ]
    assert scene.pauses == [1.0, 2.0, Deadlines().grace_s]


def test_what_nobody_foresaw_is_told_once_and_ends_no_watch(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second would meet the same and end as soon: two processes that replace each other as fast as they can."""
    fails = [OSError(23, "too many open files in system")] * 8
    answers: list[object] = [*fails, 5]
    turns: list[float] = []

    def watch(dog: watchdog._Watchdog) -> object:
        turns.append(scene.now)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(watchdog._Watchdog, "watch", watch)
    monkeypatch.setattr(watchdog.signal, "signal", lambda *_: None)
    assert scene.dog.stay(ApplyError("not now")) == 5
    assert scene.pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert scene.said == ["watching was interrupted: OSError: [Errno 23] too many open files in system"]
    assert scene.forked == [1000.0], "the second stands by in the pauses too"
    entry = watch_record.entry(scene.folder, WatchdogRole.FIRST)
    assert entry is not None
    assert entry.obstacle == ("not now", None, None)


def test_a_watch_that_held_for_a_minute_goes_on_soon_after_an_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasts = [1.0, 1.0, 61.0]

    def watch(_: object) -> int:
        if not lasts:
            return 0
        scene.now += lasts.pop(0)
        raise KeyError("x")

    monkeypatch.setattr(watchdog._Watchdog, "watch", watch)
    monkeypatch.setattr(watchdog.signal, "signal", lambda *_: None)
    assert scene.dog.stay(None) == 0
    assert scene.pauses == [1.0, 2.0, 1.0]


def test_who_follows_short_turns_rests_with_its_second_beside_it_unless_there_is_something_to_do(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog._Watchdog, "watch", lambda dog: scene.pauses.append(-1.0) or 0)
    monkeypatch.setattr(watchdog.signal, "signal", lambda *_: None)
    for short, pauses in ((0, [-1.0]), (1, [-1.0]), (2, [1.0, -1.0]), (7, [30.0, -1.0])):
        scene.pauses.clear()
        scene.forked.clear()
        dog = watchdog._Watchdog(scene.bundle, cast(Any, None), 3, Turn(scene.now, short))
        assert dog.stay(None) == 0
        assert scene.pauses == pauses
        assert len(scene.forked) == len(pauses) - 1
    done: list[bool] = []
    monkeypatch.setattr(watchdog, "wait_until", lambda condition, timeout_s: done.append(condition()))
    for scene.closed, asked in ((False, False), (True, False), (False, True)):
        dog = watchdog._Watchdog(scene.bundle, cast(Any, None), 3, Turn(scene.now, 2))
        dog._asked_to_end = asked
        dog.stay(None)
    assert done == [False, True, True]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RollbackError("no manifest", detail="it is empty"), "cannot watch: no manifest: it is empty"),
        (OSError(23, "too many open files"), "cannot watch: OSError: [Errno 23] too many open files"),
    ],
)
def test_one_that_cannot_watch_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    lines: list[str] = []

    def refused(_: Path) -> None:
        raise error

    monkeypatch.setattr(watchdog, "_say", lines.append)
    monkeypatch.setattr(watchdog, "_settle", lambda: None)
    monkeypatch.setattr(watchdog, "take_secrets", dict)
    monkeypatch.setattr(watchdog.UndoBundle, "open", refused)
    assert watchdog.main([str(tmp_path)]) == 1
    assert lines == [said]


@pytest.mark.parametrize(
    ("found", "how"),
    [
        (restored(), "reloaded"),
        (restored(left_down=True), "left down"),
        (restored(is_whole=False, already_closed=True, damage=("x",)), "reloaded"),
    ],
)
def test_a_restore_that_is_whole_or_was_done_before_is_the_end(scene: Scene, found: object, how: str) -> None:
    scene.alive = False
    scene.rolled_back([found])
    assert scene.dog._act("x") == 0
    assert scene.said[1:] == [f"restored in 1.2 s, {how}"]


def test_damage_is_tried_three_times_and_left_to_a_person(scene: Scene) -> None:
    scene.alive = False
    scene.rolled_back([restored(is_whole=False, damage=("a file",), settings_differences=("work_mem",))] * 3)
    assert scene.dog._act("x") == 5
    assert scene.said[1:] == [
        "not as it was found: a file",
        "not as it was found: work_mem",
        "left",
        "still not as it was found: left to pgdyno rollback s1",
    ]
    assert scene.pauses == [1.0, 2.0]


def test_it_stops_trying_where_it_is_asked_to_end(scene: Scene) -> None:
    scene.alive = False
    scene.rolled_back([ApplyError("busy")] * 2)
    scene.dog._second = 41
    scene.patch.setattr(os, "waitpid", lambda *_: scene.dog._ask_to_end(15, None) or (0, 0))
    assert scene.dog._act("x") == 5
    assert scene.said[-1] == "SIGTERM while it could not be restored: left to pgdyno rollback s1"


@pytest.mark.parametrize(("ends", "ended"), [(True, []), (False, [1.0])])
def test_the_tuner_is_asked_to_end_and_ended_where_it_does_not(scene: Scene, ends: bool, ended: list[float]) -> None:
    scene.patch.setattr(
        os, "kill", lambda pid, number: scene.killed.append((pid, number)) or vars(scene).update(alive=not ends)
    )
    scene.dog._end_owner()
    assert scene.killed == [(77, signal.SIGTERM)]
    assert scene.pauses == [Deadlines().grace_s]
    assert scene.ended == ended


def test_a_tuner_whose_session_was_closed_is_not_ended(scene: Scene) -> None:
    scene.closed = True
    scene.dog._end_owner()
    assert (scene.killed, scene.ended) == ([(77, signal.SIGTERM)], [])


@pytest.mark.parametrize(
    ("tried_s", "missing_s", "unlinked", "parent", "reason"),
    [
        (86_400.0, 0.0, False, True, None),
        (86_401.0, 0.0, False, True, "not restored within 24 h"),
        (0.0, 3600.0, False, True, None),
        (0.0, 3601.0, False, True, "the undo bundle was deleted"),
        (0.0, 3601.0, False, False, None),
        (0.0, 60.0, True, False, None),
        (0.0, 61.0, True, False, "the undo bundle was deleted"),
        (0.0, 61.0, False, True, None),
    ],
)
def test_trying_ends_after_a_day_or_an_hour_without_a_bundle(
    tmp_path: Path, tried_s: float, missing_s: float, unlinked: bool, parent: bool, reason: str | None
) -> None:
    bundle: Any = SimpleNamespace(directory=(tmp_path if parent else tmp_path / "none") / "s1")
    assert watchdog._why_never(bundle, tried_s, missing_s, unlinked=unlinked) == reason
