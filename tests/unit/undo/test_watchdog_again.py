"""A watchdog is started again where both of its processes are gone, and only there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
