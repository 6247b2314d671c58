"""When a shutdown of ours is taken for one that hangs: by processes and a clock that a test makes."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.processes import ProcessStat
from pgdyno.undo import stuck_stop
from pgdyno.undo.stuck_stop import _Family


def process(pid: int, state: str = "S", ticks: int = 5) -> ProcessStat:
    return ProcessStat(pid, "postgres", state, 1, ticks, 0, 0)


def family(*last: ProcessStat, others: tuple[int, ...] = (), has_checkpointer: bool = True) -> _Family:
    return _Family(frozenset(last), frozenset(others), has_checkpointer)


def test_a_family_is_its_checkpointer_its_workers_and_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = {
        1: "postgres: checkpointer",
        2: "postgres: main: io worker 3",
        3: "postgres: alice app [local] idle",
        4: "postgres: checkpointer",
        5: "postgres: walwriter",
    }
    children = [process(1), process(2), process(3), process(4, "Z"), process(5)]
    monkeypatch.setattr(stuck_stop.processes, "children_of", lambda _: children)
    monkeypatch.setattr(stuck_stop, "_title", titles.__getitem__)
    assert _Family.of(99) == family(process(1), process(2), others=(3, 5))
    children = [process(2), process(5)]
    assert _Family.of(99) == family(process(2), others=(5,), has_checkpointer=False)


@pytest.mark.parametrize(
    ("one", "may_be_stuck"),
    [
        (family(process(1), process(2)), True),
        (family(process(1), process(2, "D")), False),  # it writes
        (family(process(2), has_checkpointer=False), False),
        (_Family(), False),
    ],
)
def test_only_a_family_that_sleeps_around_its_checkpointer_may_be_stuck(one: _Family, may_be_stuck: bool) -> None:
    assert one.may_be_stuck is may_be_stuck


ASLEEP = family(process(1))
AT_WORK = family(process(1, ticks=6))
ASKED = family(process(1), others=(7,))
ASKED_AGAIN = family(process(1), others=(8,))


@pytest.mark.parametrize(
    ("seen", "killed_at"),
    [
        ([ASLEEP] * 30, 10.5),  # ten seconds after the first look
        ([AT_WORK, *[ASLEEP] * 30], 11.0),
        ([ASLEEP, ASKED, ASKED_AGAIN, *[ASLEEP] * 30], 10.5),  # they come and go
        ([ASKED] * 30, None),  # one stays: it may be waited for
        ([ASLEEP, family(process(1, "R"))] * 15, None),
        ([ASLEEP] * 20, None),  # it ended by itself
    ],
)
def test_a_family_that_sleeps_for_ten_seconds_is_ended_at_once(
    monkeypatch: pytest.MonkeyPatch, seen: list[_Family], killed_at: float | None
) -> None:
    now, looks, killed = [0.0], iter(seen), list[tuple[float, int]]()

    def wait(seconds: float) -> bool:
        now[0] += seconds
        return now[0] > seconds * len(seen)

    monkeypatch.setattr(stuck_stop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(_Family, "of", lambda _: next(looks))
    monkeypatch.setattr(stuck_stop.sighup, "send", lambda _, number: killed.append((now[0], number)))
    postmaster: Any = SimpleNamespace(pid=99, is_alive=lambda: True)
    over: Any = SimpleNamespace(wait=wait)
    stuck_stop._watch(postmaster, over)
    assert killed == ([] if killed_at is None else [(killed_at, signal.SIGQUIT)])


def test_a_server_out_of_reach_has_no_postmaster_and_is_not_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    assert stuck_stop.server_in(None) is None
    with stuck_stop.ended(None):
        pass

    def postmaster(_: object) -> str:
        return "it"

    def gone(_: object) -> str:
        raise EnvironmentUnsuitable("gone")

    monkeypatch.setattr(stuck_stop.sighup, "postmaster", postmaster)
    assert str(stuck_stop.server_in(tmp_path)) == "it"
    monkeypatch.setattr(stuck_stop.sighup, "postmaster", gone)
    assert stuck_stop.server_in(tmp_path) is None


def test_a_title_is_the_command_line_and_none_of_a_process_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(stuck_stop.processes, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"postgres: main: io worker 3\0\0")
    assert (stuck_stop._title(7), stuck_stop._title(8)) == ("postgres: main: io worker 3", "")


def test_a_server_is_watched_while_it_is_stopped_and_not_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = list[object]()
    monkeypatch.setattr(stuck_stop, "_watch", lambda postmaster, over: watched.append((postmaster, over.wait(9.0))))
    with stuck_stop.ended(cast(Any, "it")):
        pass
    assert watched == [("it", True)]
