"""What the watchdog says of a cause that stays: once."""

from __future__ import annotations

import pytest

from pgdyno.undo import watchdog


def test_a_cause_is_named_once_and_each_new_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(watchdog, "_say", said.append)
    dog = object.__new__(watchdog._Watchdog)
    dog._told = set()
    for text in ("no room", "no room", "no fork", "no room"):
        dog._say_once(text)
    assert said == ["no room", "no fork"]
