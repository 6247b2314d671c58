"""A watchdog is started again where both of its processes are gone, and only there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.undo import heartbeat
from pgdyno.undo import watch as watch_module
from pgdyno.undo.watch import Watch
from pgdyno.undo.watch_record import Deadlines, WatchdogRole


@pytest.mark.parametrize(
    ("alive", "own", "is_closed", "starts"),
    [
        ([None, None], None, False, 1),
        ([False, False], 1, False, 1),
        ([False, None], 1, False, 1),
        ([False, True], 1, False, 0),
        ([False, False], None, True, 0),
        ([False, False], "runs", False, 0),
    ],
)
def test_it_is_started_again_where_neither_of_its_processes_lives(
    monkeypatch: pytest.MonkeyPatch, alive: list[bool | None], own: object, is_closed: bool, starts: int
) -> None:
    known = iter([None if one is None else SimpleNamespace(is_alive=lambda one=one: one) for one in alive])
    begun: list[object] = []
    monkeypatch.setattr(watch_module.watch_record, "identity", lambda *_: next(known))
    monkeypatch.setattr(watch_module, "spawn", lambda *_: begun.append(1) or SimpleNamespace())
    bundle: Any = SimpleNamespace(id="s", directory=Path("/nowhere"), is_closed=lambda: is_closed)
    process: Any = SimpleNamespace(poll=lambda: None if own == "runs" else own)
    watch = Watch(bundle, heart=SimpleNamespace(), processes=[] if own is None else [process])  # type: ignore[arg-type]
    watch.see_to_it()
    assert len(begun) == starts


@pytest.mark.parametrize("cannot", ["be started", "stay"])
def test_one_that_never_stays_is_begun_after_a_pause_that_grows(monkeypatch: pytest.MonkeyPatch, cannot: str) -> None:
    """Each start costs half a CPU second and lines in its log, and the heart asks once a second."""
    now = [1000.0]
    begun: list[float] = []

    def spawn(*_: object) -> object:
        begun.append(now[0] - 1000)
        if cannot == "be started":
            raise OSError(11, "no process is left")
        return SimpleNamespace(poll=lambda: 1)

    monkeypatch.setattr(heartbeat, "now", lambda: now[0])
    monkeypatch.setattr(watch_module.watch_record, "identity", lambda *_: None)
    monkeypatch.setattr(watch_module, "spawn", spawn)
    bundle: Any = SimpleNamespace(id="s", directory=Path("/nowhere"), is_closed=lambda: False)
    watch = Watch(bundle, heart=SimpleNamespace(), processes=[])  # type: ignore[arg-type]
    for second in range(125):
        now[0] = 1000.0 + second
        watch.see_to_it()
    assert begun == [0, 1, 2, 4, 8, 16, 32, 62, 92, 122]
    now[0] += 61
    watch.see_to_it()
    now[0] += 61
    watch.see_to_it()
    now[0] += 1
    watch.see_to_it()
    assert begun[10:] == [185, 246, 247], "a pair that held for a minute is replaced at once, and the next one too"


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [
        ((7, True), (8, True), True),
        ((7, True), (8, False), False),
        ((7, True), (7, True), False),
        ((7, True), None, False),
    ],
)
def test_a_watchdog_stands_with_two_processes_that_live(
    monkeypatch: pytest.MonkeyPatch, first: tuple[int, bool] | None, second: tuple[int, bool] | None, stands: bool
) -> None:
    """One that has just taken the other's place is listed in both roles."""
    said = {WatchdogRole.FIRST: first, WatchdogRole.SECOND: second}

    def identity(_: object, role: WatchdogRole) -> Any:
        found = said[role]
        return None if found is None else SimpleNamespace(pid=found[0], is_alive=lambda: found[1])

    monkeypatch.setattr(watch_module.watch_record, "identity", identity)
    bundle: Any = SimpleNamespace(directory=None)
    assert Watch(bundle, cast(Any, None), []).stands() is stands


@pytest.mark.parametrize("comes", [True, False])
def test_a_watchdog_that_does_not_come_is_ended_and_its_words_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, comes: bool
) -> None:
    done = list[str]()
    process: Any = SimpleNamespace(kill=lambda: done.append("kill"), wait=lambda: done.append("wait"))
    heart = SimpleNamespace(start=lambda each: None, stop=lambda: done.append("stop"))
    given = list[object]()
    monkeypatch.setattr(watch_module, "Heart", lambda _: heart)
    monkeypatch.setattr(watch_module, "spawn", lambda _, secrets: given.append(secrets) or process)
    monkeypatch.setattr(watch_module, "wait_until", lambda *_, **__: comes)
    bundle: Any = SimpleNamespace(directory=tmp_path, id="s1")
    if comes:
        assert Watch.start(bundle, Deadlines(), secrets={"password": "x"}).processes == [process]
        assert (done, given) == ([], [{"password": "x"}])
        return
    for words, detail in ((None, "It did not report within 30 s."), ("cannot watch: x", "cannot watch: x")):
        monkeypatch.setattr(watch_module.watch_record, "last_words", lambda _, words=words: words)
        with pytest.raises(EnvironmentUnsuitable, match="the watchdog of session s1 did not start") as caught:
            Watch.start(bundle, Deadlines())
        assert caught.value.detail == detail
    assert (done, given) == (["stop", "kill", "wait"] * 2, [{}, {}])
