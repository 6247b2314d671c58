"""How a watchdog begins its turn, and what it says of a cause that stays: once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.undo import watchdog
from pgdyno.undo.watch_judge import Turn


def test_a_cause_is_named_once_and_each_new_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(watchdog, "_say", said.append)
    dog = object.__new__(watchdog._Watchdog)
    dog._told = set()
    for text in ("no room", "no room", "no fork", "no room"):
        dog._say_once(text)
    assert said == ["no room", "no fork"]


@pytest.mark.parametrize(
    ("left", "unlinked", "closed", "code"),
    [(True, False, True, 5), (False, True, True, 5), (False, False, True, 0), (False, False, False, 9)],
)
def test_a_turn_is_over_at_once_where_nothing_is_left_to_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool, unlinked: bool, closed: bool, code: int
) -> None:
    turns = list[object]()

    def dog(_bundle: object, _postgres: object, _lock: int, turn: Turn) -> object:
        turns.append(turn)
        return SimpleNamespace(stay=lambda _: 9)

    manifest = SimpleNamespace(owner=SimpleNamespace(pid=7))
    bundle: Any = SimpleNamespace(directory=tmp_path, id="s1", is_closed=lambda: closed, manifest=manifest)
    monkeypatch.setattr(watchdog, "_Watchdog", dog)
    monkeypatch.setattr(watchdog, "_say", lambda _: None)
    monkeypatch.setattr(watchdog, "_is_unlinked", lambda *_: unlinked)
    monkeypatch.setattr(watchdog.heartbeat, "now", lambda: 100.0)
    monkeypatch.setattr(watchdog.watch_record, "is_left_to_person", lambda _: left)
    assert watchdog._take_turn(bundle, cast(Any, None), None) == code
    assert watchdog._take_turn(bundle, cast(Any, None), None, Turn(50.0, 1)) == code
    assert turns == ([Turn(100.0), Turn(100.0, 2)] if code == 9 else []), "the one before was short"


@pytest.mark.parametrize(
    ("secrets", "alive", "code", "given"),
    [(None, True, 1, []), (None, False, 7, [{}]), ({"password": "x"}, True, 7, [{"password": "x"}])],
)
def test_without_what_it_was_to_be_given_it_watches_nobody_who_lives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    secrets: dict[str, str] | None,
    alive: bool,
    code: int,
    given: list[dict[str, str]],
) -> None:
    """Who was killed while it started one cannot start another."""
    told = list[object]()
    owner = SimpleNamespace(is_alive=lambda: alive)
    bundle = SimpleNamespace(manifest=SimpleNamespace(owner=owner, conninfo="host=db"))
    monkeypatch.setattr(watchdog, "take_secrets", lambda: secrets)
    monkeypatch.setattr(watchdog, "_settle", lambda: None)
    monkeypatch.setattr(watchdog, "UndoBundle", SimpleNamespace(open=lambda _: bundle))
    monkeypatch.setattr(watchdog, "Postgres", lambda _: SimpleNamespace(with_secrets=lambda words: words))
    monkeypatch.setattr(watchdog.watch_proof, "obstacle", lambda *_: None)
    monkeypatch.setattr(watchdog, "_take_turn", lambda _, postgres, *__: told.append(postgres) or 7)
    assert watchdog.main([str(tmp_path), "more"]) == code
    assert told == given


def test_one_that_cannot_watch_says_why_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr(watchdog, "_say", said.append)
    assert watchdog.main([]) == 1
    assert said == ["cannot watch: IndexError: list index out of range"]
