"""A captured load at the end of a rehearsal: what is refused before anything is moved. No server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from made_trace import made_trace
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.migration.plan import MigrationPlan, PlannedReplay
from pgdyno.replay.target_facts import TargetRoom
from pgdyno.studies.migrate import replaying
from pgdyno.trace.parquet import read_meta, write_meta

OLD, NEW = SimpleNamespace(name="old"), SimpleNamespace(name="new")
FACTS = tuple(SimpleNamespace(server=SimpleNamespace(system_identifier=one)) for one in ("111", "222"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return made_trace(tmp_path / "hour.parquet", sessions=3, seconds=2.0)


def checked(
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    roles: tuple[str, ...] = ("app",),
    free: int = 10,
    goal: str = "shop",
    database: str = "shop",
) -> list[str]:
    """Look at a plan whose source has these roles, and whose target has room for so many sessions."""
    plan = MigrationPlan(name="x", source="", folder="/x", database=database, target_database=goal,
                         replay=PlannedReplay(str(trace), 2.0), lines={"trace": 9})  # fmt: skip
    rooms = {
        "old": TargetRoom(frozenset(roles), frozenset({"shop"}), 5),
        "new": TargetRoom(frozenset(), frozenset(), free),
    }
    seen = list[object]()
    monkeypatch.setattr(replaying, "identify", lambda target, _facts: target)
    monkeypatch.setattr(replaying, "require_another", lambda target, source: seen.append((target.name, source)))
    monkeypatch.setattr(replaying, "room_of", lambda target: rooms[target.name])
    place = SimpleNamespace(source=SimpleNamespace(target=OLD), target=SimpleNamespace(target=NEW))
    prepared = SimpleNamespace(plan=plan, place=place, options=SimpleNamespace(path=Path("/plans/shop.toml")))
    told = replaying.check_replay(prepared, FACTS)  # type: ignore[arg-type]
    assert seen == [("new", "1")], "the target is proved to be another server than that which was captured"
    return told


def test_what_would_be_replayed_is_told(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = checked(trace, monkeypatch, goal="shop18")
    assert f"60 statements of {trace} in 1.0 s on the target, outside of the window" in line


def test_what_a_replay_refuses_of_a_trace_is_refused_with_its_line(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"shop.toml: line 9: replay: .*none.json"):
        checked(trace.with_name("none.parquet"), monkeypatch)
    write_meta(trace, replace(read_meta(trace), masked=True))
    with pytest.raises(UsageError, match=r"shop.toml: line 9: replay: .* is masked"):
        checked(trace, monkeypatch)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"roles": ()}, 'lacks what sessions of the trace ask for: role "app"'),
        ({"database": "other", "goal": "other"}, 'lacks what sessions of the trace ask for: database "shop"'),
        ({"free": 2}, "2 connections free, and 3 sessions"),
    ],
)
def test_what_the_sessions_would_not_find_is_refused(
    change: dict, words: str, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentUnsuitable, match=words):
        checked(trace, monkeypatch, **change)
