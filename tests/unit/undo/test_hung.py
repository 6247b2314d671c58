"""A server that is silent is ended, and no other: none that answers, is down, or has an address that nobody knows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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
