"""A server that is silent is ended, and no other: none that answers, is down, or has an address that nobody knows."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.server.health import Health
from pgdyno.undo import hung


@pytest.mark.parametrize(
    ("process", "address", "health"),
    [
        (None, "here", Health.SILENT),
        (SimpleNamespace(pid=2), None, Health.SILENT),
        *((SimpleNamespace(pid=2), "here", one) for one in Health if one is not Health.SILENT),
    ],
)
def test_a_server_that_is_down_unknown_or_answers_gets_no_signal(
    monkeypatch: pytest.MonkeyPatch, process: object, address: object, health: Health
) -> None:
    monkeypatch.setattr(hung.sighup, "postmaster", lambda _: process)
    monkeypatch.setattr(hung.health, "ask", lambda _: health)
    monkeypatch.setattr(hung, "_signal", lambda *_: pytest.fail("a signal was sent"))
    assert hung.revive_or_end(Path("/nowhere"), address) is None  # type: ignore[arg-type]


class Silent:
    """A server of process 7 with the child 8; `waits` are the ends of its waits, `killed` whom which signal reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *waits: bool) -> None:
        self.killed, self.waited, left = list[tuple[int, int]](), list[float](), iter(waits)
        patch = monkeypatch.setattr
        patch(hung.sighup, "postmaster", lambda _: SimpleNamespace(pid=7))
        patch(hung.processes, "children_of", lambda _: [SimpleNamespace(pid=8)])
        patch(hung.health, "ask", lambda _: Health.SILENT)
        patch(hung.postmaster_lock, "wait_gone", lambda _: None)
        patch(os, "kill", lambda pid, number: self.killed.append((pid, number)))

        def wait(_: object, timeout_s: float, **__: object) -> bool:
            self.waited.append(timeout_s)
            return next(left)

        patch(hung, "wait_until", wait)


def revive() -> str | None:
    return hung.revive_or_end(Path("/data"), cast(Any, "address"))


def test_a_server_that_was_only_stopped_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Silent(monkeypatch, True)
    assert revive() == "server process 7 had been stopped and runs again"
    assert scene.killed == [(7, signal.SIGCONT), (8, signal.SIGCONT)]
    assert scene.waited == [hung.ANSWER_S]


@pytest.mark.parametrize(("ends", "killed"), [(True, []), (False, [(7, signal.SIGKILL), (8, signal.SIGKILL)])])
def test_one_that_stays_silent_is_ended_by_force_at_last(
    monkeypatch: pytest.MonkeyPatch, ends: bool, killed: list[tuple[int, int]]
) -> None:
    scene = Silent(monkeypatch, False, ends)
    assert revive() == "server process 7 did not answer and was ended"
    assert scene.killed[2:] == [(7, signal.SIGQUIT), *killed]
    assert scene.waited == [hung.ANSWER_S, hung.QUIT_S]
