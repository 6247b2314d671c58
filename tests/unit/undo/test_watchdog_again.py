"""A watchdog is started again where both of its processes are gone, and only there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.undo import heartbeat
from pgdyno.undo import watch as watch_module
from pgdyno.undo.watch import Watch


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
